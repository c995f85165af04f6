"""A batch: consecutive entries that were sealed together, and who has acknowledged them.

The batch is the unit of the ack. With E = Qw every member gets the same frame, built once. With
E > Qw a member gets the frame of its entries, with their ids listed; the batch is acknowledged
when each of its entries is, and a position's ack stands for all entries that it holds.

With deferred sync a position first says *written*, which a power loss may undo; that becomes an ack
when a force has made it durable.
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from zonekeeper.placement.base.ids import EntryId, ZoneName
from zonekeeper.placement.base.quorums import Enough, Quorums
from zonekeeper.wire.formats.frames import Frame

#: What an entry without payload costs us; so that a byte budget bounds objects too.
ENTRY_OVERHEAD_BYTES: Final = 64


@dataclass(slots=True, kw_only=True)
class Batch:
    """Consecutive entries under way."""

    frame: Frame
    #: The ledger's payload bytes up to its last entry.
    length: int
    #: What it takes of the writer's budget.
    size_bytes: int
    since_ms: int
    #: Positions that have all of their entries on disk.
    acked: set[int] = field(default_factory=set)
    #: Deferred sync: positions that have them, and may lose them with their power.
    written: set[int] = field(default_factory=set)

    @property
    def first(self) -> EntryId:
        """The lowest entry id."""
        return self.frame.first

    @property
    def last(self) -> EntryId:
        """The highest entry id."""
        return self.frame.last

    def _representatives(self, quorums: Quorums) -> range:
        """Give entries such that every write set of the batch is the write set of one of them."""
        distinct = 1 if quorums.ensemble == quorums.write else quorums.ensemble
        return range(self.first, self.first + min(len(self.frame), distinct))

    def part(self, position: int, quorums: Quorums) -> Frame | None:
        """Give what a position is to be sent of it; None: nothing."""
        if quorums.ensemble == quorums.write:
            return self.frame
        step = quorums.ensemble
        turns = range(self.first, self.first + step)
        held = (range(e, self.last + 1, step) for e in turns if quorums.holds(position, EntryId(e)))
        return self.frame.subset(frozenset(chain.from_iterable(held)))

    def is_written(self, quorums: Quorums, zones: tuple[ZoneName | None, ...]) -> bool:
        """Has each entry its ack quorum, if nobody loses power?"""
        return self._enough(quorums, zones, frozenset(), self.acked | self.written) is Enough.YES

    def lacks(self, position: int, quorums: Quorums) -> bool:
        """Has a position neither written nor acknowledged what it holds of it?"""
        if position in self.acked or position in self.written:
            return False
        return any(quorums.holds(position, EntryId(e)) for e in self._representatives(quorums))

    def enough(
        self, quorums: Quorums, zones: tuple[ZoneName | None, ...], pending: frozenset[int]
    ) -> Enough:
        """Say whether all of it is acknowledged, or can be if ``pending`` positions answer."""
        return self._enough(quorums, zones, pending, self.acked)

    def _enough(
        self,
        quorums: Quorums,
        zones: tuple[ZoneName | None, ...],
        pending: frozenset[int],
        acked: AbstractSet[int],
    ) -> Enough:
        if len(acked) + len(pending) < quorums.ack:
            return Enough.NO
        worst = Enough.YES
        for number in self._representatives(quorums):
            entry_id = EntryId(number)
            members = quorums.write_set(entry_id)
            answer = quorums.acknowledged(
                entry_id,
                acked=[p for p in members if p in acked],
                pending=[p for p in members if p in pending and p not in acked],
                zones=zones,
            )
            worst = max(worst, answer, key=_BADNESS.__getitem__)
        return worst


_BADNESS = {Enough.YES: 0, Enough.NOT_YET: 1, Enough.UNKNOWN: 2, Enough.NO: 3}
