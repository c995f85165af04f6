"""The bytes that cross zones for each byte written, read or repaired, and what they cost.

Bytes inside a zone are usually free, and bytes between zones are billed. So this is the part of a
bill that depends on placement. Ratios are exact fractions. They are counted for each write set of
an ensemble and averaged, because entries use the write sets in turn. A member whose zone is
unresolved counts as being in another zone.

Prices change and differ by contract, so none is built in. A caller that wants money gives a price
with its date and its source. Both are shown beside every amount.
"""

import enum
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from zonekeeper.placement.base.ids import EntryId, ZoneName
from zonekeeper.placement.base.quorums import Quorums

#: The unit that clouds bill by: the decimal gigabyte.
GB: Final = 10**9

#: With this many copies in the client's zone, the second copy that is asked is in it too.
_NEAR_PAIR: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """The price of one gigabyte (10^9 bytes) from one zone to another, both sides together."""

    per_gb: Fraction
    currency: str
    #: The day on which the price was looked up, ``YYYY-MM-DD``.
    as_of: str
    #: Where the price was found.
    source: str

    def money(self, crossing_bytes: Fraction | int) -> Fraction:
        """Give the price of moving this many bytes between zones."""
        return self.per_gb * crossing_bytes / GB


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossings:
    """The bytes that cross zones for each byte that is written, read, passed on or copied."""

    written: Fraction
    #: For a read of the nearest copy, as the client reads while that copy is healthy.
    read_near: Fraction
    #: For a read of any copy: zones were ignored, or the read spilled from a near copy.
    read_anywhere: Fraction
    #: Added for a hedged read: its second answer is paid for too.
    hedged: Fraction
    #: For one hop between two parties that do not know each other's zone (a proxy, a broker).
    hop: Fraction
    #: For copies of one bookie that are made again in its own zone.
    repair_bookie: Fraction
    #: For copies of a lost zone that are made again in the other zones.
    repair_zone: Fraction
    #: For the same copies, when they are moved back into the zone that returned.
    respread: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """The bytes that applications write and read in some time; the shares are of bytes read."""

    written_bytes: int = 0
    read_bytes: int = 0
    #: The share read elsewhere although a near copy was healthy: it was slow or too busy.
    spilled: Fraction = Fraction(0)
    hedged: Fraction = Fraction(0)
    #: Stored bytes, counted once and not for each copy; the repair of a lost zone depends on them.
    stored_bytes: int = 0


class Flow(enum.StrEnum):
    """The work that moves the bytes."""

    WRITE = "writing"
    READ = "reading, nearest copy first"
    READ_ANYWHERE = "reading, if order ignored zones"
    REPAIR_ZONE = "repairing a lost zone at once"
    RESPREAD = "moving it back afterwards"


@dataclass(frozen=True, slots=True, kw_only=True)
class BillLine:
    """One line of a bill."""

    flow: Flow
    crossing_bytes: Fraction
    #: None where no price was given.
    money: Fraction | None


def of_ensemble(
    quorums: Quorums,
    members: Sequence[ZoneName | None],
    zones: Collection[ZoneName],
    *,
    client: ZoneName | None = None,
) -> Crossings:
    """Count the bytes that cross zones for an ensemble; ``members`` are its members' zones.

    ``zones`` are all zones of the cluster. ``client`` is the zone of the clients that write and
    read. None means that clients are spread evenly over the zones.
    """
    assert len(members) == quorums.ensemble
    sets = [
        [members[place] for place in quorums.write_set(EntryId(first))]
        for first in range(quorums.ensemble)
    ]
    clients = sorted(zones) if client is None else [client]
    pairs = [(write_set, zone) for write_set in sets for zone in clients]
    return Crossings(
        written=_mean(Fraction(_elsewhere(copies, zone)) for copies, zone in pairs),
        read_near=_mean(Fraction(zone not in copies) for copies, zone in pairs),
        read_anywhere=_mean(
            Fraction(_elsewhere(copies, zone), len(copies)) for copies, zone in pairs
        ),
        hedged=_mean(Fraction(copies.count(zone) < _NEAR_PAIR) for copies, zone in pairs),
        hop=1 - Fraction(1, len(zones)),
        repair_bookie=_mean(_bookie_repairs(sets, sorted(zones))),
        repair_zone=_mean(_zone_repairs(sets, sorted(zones), back=False)),
        respread=_mean(_zone_repairs(sets, sorted(zones), back=True)),
    )


def repaired(
    copies: Sequence[ZoneName | None],
    targets: Sequence[ZoneName],
    workers: Sequence[ZoneName],
) -> Fraction:
    """Give the zone crossings of making one copy again: those of the read and of the write.

    ``copies`` are the zones of the copies that are left. ``targets`` are those of the bookies that
    may take the new copy. ``workers`` are those of the replicators that may make it. All are
    equally likely. The worker reads a copy of its own zone if there is one, as our replicator does.
    """
    return _mean(
        Fraction((worker not in copies) + (worker != target))
        for worker in workers
        for target in targets
    )


def bill(
    crossings: Crossings, traffic: Traffic, zone_share: Fraction, prices: Prices | None
) -> tuple[BillLine, ...]:
    """Give the bytes that traffic moves between zones and, given prices, what they cost.

    ``zone_share`` is the average number of copies of an entry that one zone holds.
    """
    read = traffic.read_bytes
    held = traffic.stored_bytes * zone_share
    # A spilled read leaves its zone, whether a copy was near or not.
    first = (1 - traffic.spilled) * crossings.read_near + traffic.spilled
    amounts = {
        Flow.WRITE: traffic.written_bytes * crossings.written,
        Flow.READ: read * (first + traffic.hedged * crossings.hedged),
        Flow.READ_ANYWHERE: read * (1 + traffic.hedged) * crossings.read_anywhere,
        Flow.REPAIR_ZONE: held * crossings.repair_zone,
        Flow.RESPREAD: held * crossings.respread,
    }
    return tuple(
        BillLine(flow=flow, crossing_bytes=amount, money=prices.money(amount) if prices else None)
        for flow, amount in amounts.items()
    )


def _mean(values: Iterable[Fraction]) -> Fraction:
    listed = list(values)
    return sum(listed, Fraction(0)) / len(listed) if listed else Fraction(0)


def _elsewhere(copies: Sequence[ZoneName | None], zone: ZoneName) -> int:
    return sum(copy != zone for copy in copies)


def _bookie_repairs(
    write_sets: Sequence[Sequence[ZoneName | None]], zones: Sequence[ZoneName]
) -> Iterator[Fraction]:
    """Give the crossings for each located member of a write set that is lost and made again."""
    for copies in write_sets:
        for index, zone in enumerate(copies):
            left = [*copies[:index], *copies[index + 1 :]]
            if zone is not None and left:
                yield repaired(left, [zone], zones)


def _zone_repairs(
    write_sets: Sequence[Sequence[ZoneName | None]], zones: Sequence[ZoneName], *, back: bool
) -> Iterator[Fraction]:
    """Give those for a lost zone: into other zones, or with ``back`` into the returned zone."""
    for copies in write_sets:
        for lost in zones:
            left = [zone for zone in copies if zone != lost]
            others = [zone for zone in zones if zone != lost]
            if left and others:
                made_again = (
                    repaired(left, [lost], zones) if back else repaired(left, others, others)
                )
                for _ in range(len(copies) - len(left)):
                    yield made_again
