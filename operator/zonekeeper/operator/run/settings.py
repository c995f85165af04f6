"""The settings of the operator's process: texts become values, or a refusal that says why.

``SETTINGS`` is the table: flags, help and the page of the documentation follow from it.
"""

import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zonekeeper.operator.lead.lease_objects import LEASE_NAME, LeasePlace
from zonekeeper.operator.shapes import images
from zonekeeper.placement.base import fields
from zonekeeper.placement.base.settings import GivenSettings, Setting
from zonekeeper.wire.formats import addresses
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.running import logs, seam
from zonekeeper.wire.running.logs import LogSettings

SETTINGS: Final = (
    Setting(
        name="namespace",
        shown_as="NAME",
        variable="ZONEKEEPER_NAMESPACES",
        many=True,
        otherwise="all",
        help="Serve this namespace only; can be given several times (in the environment: separated "
        "by spaces).",
    ),
    Setting(
        name="installation",
        shown_as="NAME",
        default=LEASE_NAME,
        help="The name of the installation that this process is a replica of.",
    ),
    Setting(
        name="name",
        shown_as="NAME",
        otherwise="the host name",
        help="Its name as the holder of the Lease.",
    ),
    Setting(
        name="lease-namespace",
        shown_as="NAME",
        default="default",
        help="Where the Lease is if all namespaces are served: the same in all installations. "
        "Otherwise each served namespace has one.",
    ),
    Setting(
        name="http",
        shown_as="HOST:PORT",
        default=f"0.0.0.0:{seam.HTTP_PORT}",
        help="Where to answer GET of /metrics, /healthz and /readyz; port 0 takes a free one.",
    ),
    Setting(
        name="image",
        shown_as="IMAGE",
        help="The operator's own image; the bookies of a resource without spec.image run it.",
    ),
    Setting(
        name="webhook",
        shown_as="HOST:PORT",
        otherwise="none is served",
        help="Where to answer admission reviews over TLS, on every replica; port 0 takes a free "
        "one.",
    ),
    Setting(
        name="webhook-certificate",
        shown_as="FOLDER",
        default="/webhook",
        help="Where the webhook's certificate is: tls.crt and tls.key, which are read again when "
        "they change.",
    ),
    *logs.SETTINGS,
)

#: The settings that say which operator is meant.
CHECKED: Final = tuple(
    one for one in SETTINGS if one.name in ("namespace", "installation", "lease-namespace")
)
#: A holder's name is made of such parts, joined by an underscore.
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSettings:
    """The settings as values."""

    #: The namespaces that are served; empty: all.
    namespaces: tuple[str, ...]
    #: The installation that this process is a replica of.
    installation: str
    #: Its name as the holder of the Lease.
    name: str
    #: The namespace of the Lease if all namespaces are served.
    lease_namespace: str
    http: Address
    #: The image of this very process; None: it was not told.
    image: str | None
    #: Where admission reviews are answered; None: nowhere.
    webhook: Address | None
    webhook_certificate: Path
    logging: LogSettings

    @property
    def places(self) -> list[LeasePlace]:
        """Where the Leases are: the same for every installation that serves the same."""
        return [LeasePlace(one) for one in sorted(set(self.namespaces)) or [self.lease_namespace]]


def parse(
    flags: Mapping[str, str | None],
    environment: Mapping[str, str],
    file: Mapping[str, object] | None = None,
    file_name: str = "",
) -> OperatorSettings:
    """Check all settings; raises ``BadSettingError`` for the first that is wrong."""
    given = GivenSettings(SETTINGS, flags, environment, file, file_name)
    return OperatorSettings(
        namespaces=given.optional("namespace", _names) or (),
        installation=given.read("installation", _name),
        name=given.read("name", _name, socket.gethostname()),
        lease_namespace=given.read("lease-namespace", _name),
        http=given.read("http", addresses.parse),
        image=given.optional("image", _image),
        webhook=given.optional("webhook", addresses.parse),
        webhook_certificate=given.read("webhook-certificate", Path),
        logging=logs.given_to(given),
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _image(text: str) -> str:
    try:
        return images.IMAGE.read("image", text)
    except fields.InvalidFieldsError as refused:
        problem = refused.problems[0]
        raise ValueError(f"{problem.value}: {problem.rule}; {problem.fix}") from refused


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError(f"{text!r}: must be letters, digits, - and . only")
    return text
