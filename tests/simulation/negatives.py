"""Hears what bookies answer to reads, and notes what one denied that it had when it was asked.

A bookie may say "I never had it" only of what it cannot have acknowledged and lost; of everything
else it must say that it does not know. What went with a lost disk is such a thing. An entry that
comes while the answer is made may be missing from it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tests.simulation import history as seen
from tests.simulation.machine import Machine
from tests.simulation.patching import Patch
from tests.simulation.surroundings import Surroundings
from zonekeeper.bookie.ledgers import extents
from zonekeeper.bookie.serving.service import BookieServer
from zonekeeper.placement.base.ids import BookieId, EntryId
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import errors

#: So many of the entries that were asked for are looked for on a disk that was lost.
_LOOKED_FOR_MAX: Final = 8


def listening(around: Surroundings, machines: Mapping[BookieId, Machine]) -> Sequence[Patch]:
    """Give what lets a world hear its bookies' negatives, those of planted bugs, too."""
    answer = BookieServer.read

    async def read(self: BookieServer, request: service.ReadRequest) -> service.ReadReply:
        asked = _Asked(around, machines[self.bookie_id], request)
        try:
            reply = await answer(self, request)
        except errors.Negative:
            asked.denied(request.last_entry_id + 1, frozenset())
            raise
        given = frozenset(entry for frame in reply.frames for entry in frame.entry_ids)
        asked.denied(reply.next_entry_id, given)
        return reply

    return [(BookieServer, "read", read)]


@dataclass(slots=True)
class _Asked:
    """One read, and what its bookie had when it came."""

    around: Surroundings
    machine: Machine
    request: service.ReadRequest
    had: frozenset[EntryId] = frozenset()

    def __post_init__(self) -> None:
        self.had = self._has()

    def denied(self, end: int, given: frozenset[EntryId]) -> None:
        """Hear that it has nothing before ``end`` but what it gave."""
        asked = self.request
        denied = range(asked.first_entry_id, end, asked.step)
        disowned = self.had.union(self._lost()).intersection(denied) - given
        if disowned:
            self.around.note(
                seen.Disowned(
                    bookie=self.machine.id,
                    ledger=asked.ledger_id,
                    entries=tuple(sorted(disowned & self.had)),
                    lost=tuple(sorted(disowned - self.had)),
                )
            )

    def _has(self) -> frozenset[EntryId]:
        """Give what the bookie has now of what is asked for, and perhaps of what lies between."""
        asked = self.request
        ledger = self.machine.ledgers.get(asked.ledger_id)
        if ledger is None:
            return frozenset()
        runs = extents.joined(ledger.extents.between(asked.first_entry_id, asked.last_entry_id))
        return frozenset(EntryId(entry) for first, last in runs for entry in range(first, last + 1))

    def _lost(self) -> frozenset[EntryId]:
        """Give what only the disk had that was lost."""
        asked, has = self.request, self._has()
        first_few = range(asked.first_entry_id, asked.last_entry_id + 1, asked.step)
        return frozenset(
            EntryId(entry)
            for entry in first_few[:_LOOKED_FOR_MAX]
            if entry not in has and self.machine.lost(asked.ledger_id, EntryId(entry))
        )
