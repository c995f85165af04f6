"""A lane that a writer has open, and the ear that it has there: what comes of it, as events.

A lane numbers what is put into it; the writer's core knows batches and LACs, and the lane's term.
Each number is translated once, and is forgotten with its outcome.
"""

from collections.abc import Callable
from dataclasses import dataclass

from zonekeeper.client.writing import writer_events as ev
from zonekeeper.placement.base.ids import BookieId, EntryId
from zonekeeper.wire.contract.links import AppendLane
from zonekeeper.wire.formats import errors


class Ear:
    """A ``links.AppendSink`` that says what it hears as events of its term."""

    __slots__ = ("_feed", "_firsts", "_lacs", "_term")

    def __init__(self, term: ev.Term, feed: Callable[[ev.LaneEvent], None]) -> None:
        self._term = term
        self._feed = feed
        #: What each number in the lane stands for: a batch, by its first entry, or a LAC.
        self._firsts: dict[int, EntryId] = {}
        self._lacs: dict[int, EntryId] = {}

    @property
    def waits(self) -> bool:
        """Is there anything that was sent and not answered?"""
        return bool(self._firsts or self._lacs)

    def sent(self, number: int, first: EntryId) -> None:
        """Note a batch that was put into the lane."""
        self._firsts[number] = first

    def sent_lac(self, number: int, lac: EntryId) -> None:
        """Note a LAC that was put into the lane."""
        self._lacs[number] = lac

    def acked(self, number: int) -> None:
        """Hear that the bookie has it."""
        event: ev.LaneEvent
        if (first := self._firsts.pop(number, None)) is not None:
            event = ev.BatchAcked(term=self._term, first=first)
        else:
            event = ev.LacAcked(term=self._term, lac=self._lacs.pop(number))
        self._feed(event)

    def failed(self, number: int, error: errors.ProtocolError) -> None:
        """Hear that it failed, or that nobody knows."""
        event: ev.LaneEvent
        if (first := self._firsts.pop(number, None)) is not None:
            event = ev.Failed(term=self._term, first=first, error=error)
        else:
            event = ev.LacFailed(term=self._term, lac=self._lacs.pop(number), error=error)
        self._feed(event)

    def room(self) -> None:
        """Hear that a lane that was full takes more."""
        self._feed(ev.RoomAgain(term=self._term))


@dataclass(frozen=True, slots=True)
class OpenedLane:
    """A lane that is open, and who listens."""

    lane: AppendLane
    sink: Ear
    bookie: BookieId
