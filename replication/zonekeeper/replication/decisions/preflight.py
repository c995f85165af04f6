"""What would a release do? Counted before it is done, from what the ledgers' metadata says.

A release permits that all copies that were lost with its bookies are made again. ``Tally`` sums
them up ledger by ledger, and keeps no ledger. ``judge`` compares the sums with the free room.

A figure that is unknown is said to be unknown, and is not guessed:

- A ledger's bytes are known once it is closed; its entries are taken to be of one size. What open
  ledgers hold is not in the figures, only how many they are.
- Where the room in a surviving zone is unknown, so is the answer, and unknown is refused like no.
- A ledger with an entry that has no living copy cannot be repaired by any release.

The bytes that cross zones are an average. It assumes that each copy is read from the nearest copy,
and that the new copy, and the process that makes it, are equally likely in each zone that has a
registered bookie. Over many ledgers placement comes to that average.
"""

import functools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata
from zonekeeper.placement.base.ids import BookieId, EntryId, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.base.topology import Topology
from zonekeeper.placement.promises import cost, headroom
from zonekeeper.placement.promises.headroom import Headroom, Room, Usage

#: From worst to best. The answer for several zones is the worst of theirs.
_WORST_FIRST: Final = (Room.NO, Room.UNKNOWN, Room.TIGHT, Room.FITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyWork:
    """The copies that are to be made again."""

    #: Ledgers that name a lost bookie.
    ledgers: int
    #: ``open_ledgers <= ledgers``: those that are not closed, so that their bytes are unknown.
    open_ledgers: int
    #: ``beyond_repair <= ledgers``: those with a write set that has no living member, in a fragment
    #: that names a lost bookie. An open fragment counts with all its write sets, also where they
    #: have no entry yet.
    beyond_repair: int
    #: Ledgers whose metadata cannot be read, and which may name a lost bookie. No other figure
    #: counts them.
    unreadable: int
    #: By the zone in which they were lost; None: that zone is unknown.
    bytes_by_zone: Mapping[ZoneName | None, int]
    crossing_bytes: Fraction

    @property
    def bytes(self) -> int:
        """The bytes of all zones."""
        return sum(self.bytes_by_zone.values())


class Tally:
    """Sums up what was lost with some bookies."""

    def __init__(self, lost: frozenset[BookieId], topology: Topology) -> None:
        self._lost = lost
        self._topology = topology
        there = {b.location.zone for b in topology if b.location is not None and b.readable}
        self._targets = tuple(sorted(there))
        self._ledgers = 0
        self._open = 0
        self._beyond = 0
        self._unreadable = 0
        self._bytes: Counter[ZoneName | None] = Counter()
        self._crossing = Fraction(0)

    def unreadable(self) -> None:
        """Count a ledger whose metadata cannot be read."""
        self._unreadable += 1

    def add(self, ledger: LedgerMetadata) -> None:
        """Count a ledger, if it names a lost bookie."""
        if self._lost.isdisjoint(ledger.bookies):
            return
        self._ledgers += 1
        self._open += not ledger.is_closed
        quorums = _quorums(ledger)
        beyond = False
        ends: list[int | None] = [fragment.first_entry for fragment in ledger.fragments[1:]]
        ends.append(ledger.last_entry + 1 if ledger.is_closed else None)
        for fragment, end in zip(ledger.fragments, ends, strict=True):
            beyond |= self._add(ledger, quorums, fragment, end)
        self._beyond += beyond

    def _add(
        self, ledger: LedgerMetadata, quorums: Quorums, fragment: Fragment, end: int | None
    ) -> bool:
        """Count a fragment's entries below ``end`` (None: it may grow).

        Say whether one of its write sets has no living member.
        """
        gone = [position for position, b in enumerate(fragment.ensemble) if b in self._lost]
        if not gone:
            return False
        lives = [self._lives(b) for b in fragment.ensemble]
        zones = [
            self._zone(b) for b, living in zip(fragment.ensemble, lives, strict=True) if living
        ]
        copies = tuple(sorted(zone or ZoneName("") for zone in set(zones)))
        for position in gone if copies else ():
            size = share_bytes(ledger, quorums, position, (fragment.first_entry, end))
            self._bytes[self._zone(fragment.ensemble[position])] += size
            self._crossing += size * _crossings(copies, self._targets)
        # The write sets repeat every ``quorums.ensemble`` entries.
        first, round_end = fragment.first_entry, fragment.first_entry + quorums.ensemble
        return any(
            not any(lives[position] for position in quorums.write_set(EntryId(entry)))
            for entry in range(first, round_end if end is None else min(end, round_end))
        )

    @property
    def work(self) -> CopyWork:
        """What was counted so far."""
        return CopyWork(
            ledgers=self._ledgers,
            open_ledgers=self._open,
            beyond_repair=self._beyond,
            unreadable=self._unreadable,
            bytes_by_zone=dict(self._bytes),
            crossing_bytes=self._crossing,
        )

    def _zone(self, bookie: BookieId) -> ZoneName | None:
        where = self._topology.location(bookie)
        return None if where is None else where.zone

    def _lives(self, bookie: BookieId) -> bool:
        known = self._topology.get(bookie)
        return bookie not in self._lost and known is not None and known.readable


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """What a release would do."""

    bookies: tuple[BookieId, ...]
    work: CopyWork
    room: Room
    #: The room for each zone that lost something, and for all of them together, worst first.
    headroom: tuple[Headroom, ...]
    #: How many processes repair.
    processes: int
    #: The rate of all processes together; None: it has no limit, or no process repairs.
    bytes_per_second: int | None

    @property
    def duration_ms(self) -> int | None:
        """How long the copying takes at ``bytes_per_second``; None: unknown."""
        if self.bytes_per_second is None or not self.processes:
            return None
        return self.work.bytes * 1000 // self.bytes_per_second

    @property
    def refusal(self) -> str | None:
        """Say why the release is refused unless it is forced; None: there is room."""
        if self.room in (Room.FITS, Room.TIGHT):
            return None
        whys = "; ".join(one.why for one in self.headroom if one.room is self.room)
        what = "there is no room" if self.room is Room.NO else "whether there is room is unknown"
        return f"{what}: {whys or 'no location is known for what was lost'}"


def judge(
    work: CopyWork,
    lost: frozenset[BookieId],
    usage: Mapping[ZoneName, Usage],
    *,
    processes: int,
    process_bytes_per_second: int,
) -> Preflight:
    """Judge a release. ``usage`` is that of the registered bookies, by zone."""
    needed = dict(sorted((zone, size) for zone, size in work.bytes_by_zone.items() if zone))
    if len(needed) > 1:
        # Each zone's data may fit into the same room, and all together not.
        needed[ZoneName(", ".join(needed))] = sum(needed.values())
    found = []
    for zone, size in needed.items():
        zones = {**usage, zone: Usage(capacity_bytes=None, used_bytes=size)}
        found += [one for one in headroom.judge(zones) if one.zone == zone]
    found.sort(key=lambda one: (_WORST_FIRST.index(one.room), one.zone))
    rooms = [one.room for one in found]
    if work.bytes_by_zone.get(None):
        rooms.append(Room.UNKNOWN)
    return Preflight(
        bookies=tuple(sorted(lost)),
        work=work,
        room=min(rooms, key=_WORST_FIRST.index, default=Room.FITS),
        headroom=tuple(found),
        processes=processes,
        bytes_per_second=process_bytes_per_second * processes or None,
    )


def _quorums(ledger: LedgerMetadata) -> Quorums:
    return Quorums(ensemble=ledger.ensemble_size, write=ledger.write_quorum, ack=ledger.ack_quorum)


def share_bytes(
    ledger: LedgerMetadata, quorums: Quorums, position: int, span: tuple[int, int | None]
) -> int:
    """Give the payload bytes that one position holds of a fragment; 0 while they are unknown.

    ``span`` is the fragment's first entry, and the entry behind its last one (None: it may grow).
    """
    first, end = span
    entries = ledger.last_entry + 1
    if end is None or not ledger.is_closed or not entries:
        return 0
    return ledger.length * _held(quorums, position, first, end) // entries


def _held(quorums: Quorums, position: int, first: int, end: int) -> int:
    """Count the entries that a position holds: ``first <= entry_id < end``."""

    def below(limit: int) -> int:
        rounds, rest = divmod(limit, quorums.ensemble)
        return rounds * quorums.write + sum(
            (position - entry) % quorums.ensemble < quorums.write for entry in range(rest)
        )

    return below(end) - below(first)


@functools.lru_cache(maxsize=1024)
def _crossings(copies: tuple[ZoneName, ...], targets: tuple[ZoneName, ...]) -> Fraction:
    """Give the average zone crossings of one copy. Unknown zones count as one further zone."""
    return cost.repaired(copies, targets, targets)
