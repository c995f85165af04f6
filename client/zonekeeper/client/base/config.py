"""Settings of one client; each has a default.

The owner's rules are not among them: quorums, placement, read order and hold times stand in the
cluster's policy record. These settings are the limits of this process, its zone and its TLS files.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import NoneType
from typing import Final

from zonekeeper.client.base import arguments
from zonekeeper.client.base.ways import BookieWay
from zonekeeper.metadata.stores.timeouts import Timeouts
from zonekeeper.placement.base.hidden import Secret
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.wire.contract.links import LinkSettings
from zonekeeper.wire.grpc.tls import TlsFiles

#: The environment variable that names the process's zone if ``ClientConfig.zone`` is None.
ZONE_VARIABLE: Final = "ZONEKEEPER_ZONE"
#: The environment variable that names the way to bookies if ``ClientConfig.way`` is None.
WAY_VARIABLE: Final = "ZONEKEEPER_WAY"

#: ``least <= value <= most`` for each number; most None: no upper bound.
_BOUNDS: Final[Mapping[str, tuple[int, int | None]]] = {
    "writer_budget_bytes": (1, None),
    "add_timeout_ms": (1, None),
    "quiet_ms": (0, None),
    "read_bytes": (1, (1 << 32) - 1),  # the field of the request on the wire has 32 bits
    "start_timeout_ms": (1, None),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """Settings of one client."""

    #: The zone that this process runs in. None: ``ZONEKEEPER_ZONE`` says it. Without either the
    #: zone is unknown, and every replica counts as remote.
    zone: str | None = None
    #: The most bytes that one writer holds without an acknowledgement.
    writer_budget_bytes: int = 64 << 20
    #: The longest time from an entry's first sending to its acknowledgement; after it the writer
    #: stops.
    add_timeout_ms: int = 60_000
    #: A writer that has appended nothing for this time tells its LAC by itself.
    quiet_ms: int = 20
    #: The most bytes of one answer to a read. A smaller value costs a reader more, because each
    #: answer has a cost of its own. A larger value delays the bookie's acknowledgements.
    read_bytes: int = 2 << 20
    #: How long ``connect`` waits until the cluster's policy and bookies are known.
    start_timeout_ms: int = 10_000
    #: Over what bookies are reached. None: ``ZONEKEEPER_WAY`` says it (``grpc``, ``socket`` or
    #: ``offered``). Without either it is what each bookie offers.
    way: BookieWay | None = None
    links: LinkSettings = field(default_factory=LinkSettings)
    store: Timeouts = field(default_factory=Timeouts)
    #: None: ``connect`` takes those that stand beside a local cluster's store. Without either no
    #: connection is encrypted, and no bookie has to prove its identity.
    tls: TlsFiles | None = None
    #: The password of ledgers that are created, and opened, without another one. A log's ledgers
    #: have no other. A ``Secret``, whatever it is given as: settings with one cannot be pickled.
    password: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        for name, (least, most) in _BOUNDS.items():
            arguments.check_whole(name, getattr(self, name), least, most)
        arguments.check_kind("zone", self.zone, str, NoneType)
        arguments.check_kind("way", self.way, BookieWay, NoneType)
        arguments.check_kind("links", self.links, LinkSettings)
        arguments.check_kind("store", self.store, Timeouts)
        arguments.check_kind("tls", self.tls, TlsFiles, NoneType)
        arguments.check_password(self.password)
        object.__setattr__(self, "password", Secret(self.password))


def own_zone(config: ClientConfig) -> ZoneName | None:
    """Give the zone of this process: the setting, else the environment variable, else None."""
    if config.zone is not None:
        return ZoneName(config.zone)
    named = os.environ.get(ZONE_VARIABLE)
    return ZoneName(named) if named else None


def own_way(config: ClientConfig) -> BookieWay:
    """Give the way to bookies: the setting, else the environment variable, else what they offer.

    Raises ValueError if the variable names no way.
    """
    if config.way is not None:
        return config.way
    named = os.environ.get(WAY_VARIABLE)
    if not named:
        return BookieWay.OFFERED
    try:
        return BookieWay(named)
    except ValueError as error:
        ways = ", ".join(way.value for way in BookieWay)
        raise ValueError(f"{WAY_VARIABLE}={named!r}: must be one of {ways}") from error
