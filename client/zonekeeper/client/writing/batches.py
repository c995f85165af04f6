"""A batch: consecutive entries that were sealed together, and the positions that acknowledged them.

The batch is the unit of the ack. With E = Qw every member gets the same frame, which is built once.
With E > Qw a member gets a frame of only those entries whose write sets it belongs to, with their
ids listed. A position's ack stands for all entries of the batch that the position holds. The batch
is acknowledged when each of its entries has its ack quorum.

With deferred sync a position first says *written*, which a power loss may undo. *Written* becomes
an ack when a force has made the entries durable.
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from zonekeeper.placement.base.ids import EntryId, ZoneName
from zonekeeper.placement.base.quorums import Enough, Quorums
from zonekeeper.wire.formats.frames import Frame

#: Counted for each entry beside its payload, so that a byte budget also bounds empty entries.
ENTRY_OVERHEAD_BYTES: Final = 64


@dataclass(slots=True, kw_only=True)
class Batch:
    """Consecutive entries that were sealed together."""

    frame: Frame
    #: The ledger's payload bytes up to and including the batch's last entry.
    length: int
    #: The batch's share of the writer's byte budget.
    size_bytes: int
    #: The time at which the batch was taken.
    since_ms: int
    #: Positions that have their entries of the batch on disk.
    acked: set[int] = field(default_factory=set)
    #: Deferred sync: positions that have their entries, but may lose them in a power loss.
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
        """Give entries of the batch that together have every write set of the batch."""
        distinct = 1 if quorums.ensemble == quorums.write else quorums.ensemble
        return range(self.first, self.first + min(len(self.frame), distinct))

    def part(self, position: int, quorums: Quorums) -> Frame | None:
        """Give the frame that a position is to be sent; None: it holds no entry of the batch."""
        if quorums.ensemble == quorums.write:
            return self.frame
        step = quorums.ensemble
        turns = range(self.first, self.first + step)
        held = (range(e, self.last + 1, step) for e in turns if quorums.holds(position, EntryId(e)))
        return self.frame.subset(frozenset(chain.from_iterable(held)))

    def is_written(self, quorums: Quorums, zones: tuple[ZoneName | None, ...]) -> bool:
        """Has each entry an ack quorum, if *written* counts like an ack?"""
        return self._enough(quorums, zones, frozenset(), self.acked | self.written) is Enough.YES

    def lacks(self, position: int, quorums: Quorums) -> bool:
        """Does a position hold entries of the batch that it has neither written nor acked?"""
        if position in self.acked or position in self.written:
            return False
        return any(quorums.holds(position, EntryId(e)) for e in self._representatives(quorums))

    def enough(
        self, quorums: Quorums, zones: tuple[ZoneName | None, ...], pending: frozenset[int]
    ) -> Enough:
        """Say whether each entry has its ack quorum, or can get it if ``pending`` positions ack."""
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
