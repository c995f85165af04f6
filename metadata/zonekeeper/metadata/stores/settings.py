"""The settings that name the cluster; every process and command takes them from here."""

from typing import Final

from zonekeeper.metadata.stores import uri
from zonekeeper.placement.base.settings import Setting

METADATA: Final = Setting(
    name="metadata",
    shown_as="URI",
    required=True,
    help="Where the cluster is: zk://host:2181/ledgers or sqlite:///absolute/path/meta.db.",
)
CLUSTER_ID: Final = Setting(
    name="cluster-id",
    shown_as="UUID",
    help="Refuse any cluster but the one with this instance id, which `cluster info` says.",
)
#: A command waits so long for the store. With what it asks over HTTP it then ends within 3 s.
STORE_TIMEOUT_S: Final = 1.2
STORE_TIMEOUT: Final = Setting(
    name="store-timeout",
    shown_as="SECONDS",
    default=f"{STORE_TIMEOUT_S:g}",
    help="How long a command waits for the metadata store before it counts as away.",
)


def address(text: str) -> str:
    """Check that a text is a store's address; raises ``BadStoreUriError``, a ``ValueError``."""
    uri.parse(text)
    return text
