"""What a client may be told; everything has a default, and the owner's rules are not among it.

Quorums, placement, read order and hold times stand in the cluster's policy record. Here are limits
of this process, and who it is.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import NoneType
from typing import Final

from zonekeeper.client.base import arguments
from zonekeeper.metadata.stores.timeouts import Timeouts
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.wire.contract.links import LinkSettings
from zonekeeper.wire.grpc.tls import TlsFiles

#: Names the zone that a process runs in, where no setting does.
ZONE_VARIABLE: Final = "ZONEKEEPER_ZONE"

#: What a number is between; None: it has no upper bound.
_BOUNDS: Final[Mapping[str, tuple[int, int | None]]] = {
    "writer_budget_bytes": (1, None),
    "add_timeout_ms": (1, None),
    "quiet_ms": (0, None),
    "read_bytes": (1, (1 << 32) - 1),  # what a request has room for on the wire
    "start_timeout_ms": (1, None),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """Settings of one client."""

    #: The zone that this process runs in; None: unknown, and every replica counts as remote.
    zone: ZoneName | None = None
    #: Bytes that one writer holds without an acknowledgement.
    writer_budget_bytes: int = 64 << 20
    #: From an entry's first sending to its acknowledgement; then the writer stops.
    add_timeout_ms: int = 60_000
    #: After so long without an append, a writer tells its LAC by itself.
    quiet_ms: int = 20
    #: What one read request may bring. With less a reader pays more, for each answer has a cost of
    #: its own; with more a bookie's acknowledgements wait longer.
    read_bytes: int = 2 << 20
    #: How long ``connect`` waits for the cluster's policy and bookies to be known.
    start_timeout_ms: int = 10_000
    links: LinkSettings = field(default_factory=LinkSettings)
    store: Timeouts = field(default_factory=Timeouts)
    #: None: nothing is encrypted, and whoever says to be a bookie is believed.
    tls: TlsFiles | None = None

    def __post_init__(self) -> None:
        for name, (least, most) in _BOUNDS.items():
            arguments.check_whole(name, getattr(self, name), least, most)
        arguments.check_kind("zone", self.zone, str, NoneType)
        arguments.check_kind("links", self.links, LinkSettings)
        arguments.check_kind("store", self.store, Timeouts)
        arguments.check_kind("tls", self.tls, TlsFiles, NoneType)


def own_zone(config: ClientConfig, environment: Mapping[str, str] | None = None) -> ZoneName | None:
    """Say which zone this process runs in: the setting, then the environment, then unknown."""
    if config.zone is not None:
        return config.zone
    named = (os.environ if environment is None else environment).get(ZONE_VARIABLE)
    return ZoneName(named) if named else None
