"""What crosses zones for each byte written, read or repaired, and what that costs.

Bytes inside a zone are usually free, and bytes between zones are billed, so this is the part of a
bill that placement decides. Ratios are exact fractions, counted over the write sets of an ensemble
and averaged over them, because entries take turns. A member whose zone is unresolved counts as
elsewhere.

Prices change and differ by contract: none is built in. Whoever asks for money gives a price, with
its date and where it was found, and both are repeated beside every amount.
"""

import enum
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from zonekeeper.placement.base.ids import EntryId, ZoneName
from zonekeeper.placement.base.quorums import Quorums

#: What clouds bill by: the decimal gigabyte.
GB: Final = 10**9

#: With so many copies in the client's zone, the second to be asked is near too.
_NEAR_PAIR: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What one gigabyte (10^9 bytes) from one zone to another costs, both sides together."""

    per_gb: Fraction
    currency: str
    #: The day on which it was looked up, ``YYYY-MM-DD``.
    as_of: str
    #: Where it was found.
    source: str

    def money(self, crossing_bytes: Fraction | int) -> Fraction:
        """Give what it costs to move so many bytes between zones."""
        return self.per_gb * crossing_bytes / GB


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossings:
    """Bytes that cross zones, for each byte written, read, passed on or copied."""

    written: Fraction
    #: Read from the nearest copy, as the client does while it is healthy.
    read_near: Fraction
    #: Read from a copy chosen without regard to zones, or spilled away from a near one.
    read_anywhere: Fraction
    #: Added for a read that is hedged: the second answer is paid for too.
    hedged: Fraction
    #: One hop between two parties that do not know each other's zone (a proxy, a broker).
    hop: Fraction
    #: One bookie's copies, made again in its own zone.
    repair_bookie: Fraction
    #: A lost zone's copies, made again in the zones that are left.
    repair_zone: Fraction
    #: The same, moved back once the zone is there again.
    respread: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What applications do in some span of time; the shares are of what is read."""

    written_bytes: int = 0
    read_bytes: int = 0
    #: Read elsewhere although a near copy was healthy: it was slow, or asked too much.
    spilled: Fraction = Fraction(0)
    hedged: Fraction = Fraction(0)
    #: What is kept, counted once and not once a copy: what a lost zone's repair depends on.
    stored_bytes: int = 0


class Flow(enum.StrEnum):
    """Who moves the bytes."""

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
    """Count what crosses zones for an ensemble whose members stand in these zones.

    ``zones`` are all zones of the cluster. ``client`` is where those who write and read are; None:
    as many in one zone as in another.
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
    *,
    nearest: bool = True,
) -> Fraction:
    """Give the zone crossings of making one copy again: the read, and the write.

    ``copies`` are the zones of those that are left, ``targets`` of those that may take the new one,
    ``workers`` of the replicators that may do it; each as likely as the next. ``nearest``: the
    worker reads a copy of its own zone if there is one, as ours does; else any copy.
    """
    return _mean(
        _read(copies, worker, nearest=nearest) + (worker != target)
        for worker in workers
        for target in targets
    )


def bill(
    crossings: Crossings, traffic: Traffic, zone_share: Fraction, prices: Prices | None
) -> tuple[BillLine, ...]:
    """Give what traffic moves between zones and, given prices, costs.

    ``zone_share`` is how many copies of an entry a zone holds on average.
    """
    read = traffic.read_bytes
    held = traffic.stored_bytes * zone_share
    # What is spilled leaves its zone, whether or not a copy was near.
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


def _read(copies: Sequence[ZoneName | None], worker: ZoneName, *, nearest: bool) -> Fraction:
    if nearest:
        return Fraction(worker not in copies)
    return Fraction(_elsewhere(copies, worker), len(copies))


def _bookie_repairs(
    write_sets: Sequence[Sequence[ZoneName | None]], zones: Sequence[ZoneName]
) -> Iterator[Fraction]:
    """One located member of a write set is lost, and made again in its zone."""
    for copies in write_sets:
        for index, zone in enumerate(copies):
            left = [*copies[:index], *copies[index + 1 :]]
            if zone is not None and left:
                yield repaired(left, [zone], zones)


def _zone_repairs(
    write_sets: Sequence[Sequence[ZoneName | None]], zones: Sequence[ZoneName], *, back: bool
) -> Iterator[Fraction]:
    """A zone's members are made again in the others; or, ``back``, in the zone as it returns."""
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
