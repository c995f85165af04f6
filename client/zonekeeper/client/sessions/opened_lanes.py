"""An open lane of a writer, and its sink, which translates the lane's outcomes into events.

A lane numbers the items that are put into it. The writer's core knows batches, LACs and the lane's
term, but no numbers. Each number is translated once, and is forgotten with its outcome.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from zonekeeper.client.writing import writer_events as ev
from zonekeeper.placement.base.ids import BookieId, EntryId
from zonekeeper.wire.contract.links import AppendLane
from zonekeeper.wire.formats import errors


class Ear:
    """A ``links.AppendSink`` that turns each outcome into an event of its term."""

    __slots__ = ("_feed", "_firsts", "_lacs", "_term")

    def __init__(self, term: ev.Term, feed: Callable[[ev.LaneEvent], None]) -> None:
        self._term = term
        self._feed = feed
        #: For each number of a batch in the lane: the batch's first entry.
        self._firsts: dict[int, EntryId] = {}
        #: For each number of a LAC in the lane: the LAC.
        self._lacs: dict[int, EntryId] = {}

    @property
    def waits(self) -> bool:
        """Is an item in the lane that has no outcome yet?"""
        return bool(self._firsts or self._lacs)

    @property
    def unanswered(self) -> Collection[EntryId]:
        """The first entries of the batches in the lane that have no outcome yet."""
        return self._firsts.values()

    def sent(self, number: int, first: EntryId) -> None:
        """Note a batch that was put into the lane."""
        self._firsts[number] = first

    def sent_lac(self, number: int, lac: EntryId) -> None:
        """Note a LAC that was put into the lane."""
        self._lacs[number] = lac

    def acked(self, number: int) -> None:
        """Take in that the bookie has acknowledged an item."""
        event: ev.LaneEvent
        if (first := self._firsts.pop(number, None)) is not None:
            event = ev.BatchAcked(term=self._term, first=first)
        else:
            event = ev.LacAcked(term=self._term, lac=self._lacs.pop(number))
        self._feed(event)

    def failed(self, number: int, error: errors.ProtocolError) -> None:
        """Take in that an item failed, or that its outcome is unknown."""
        event: ev.LaneEvent
        if (first := self._firsts.pop(number, None)) is not None:
            event = ev.Failed(term=self._term, first=first, error=error)
        else:
            event = ev.LacFailed(term=self._term, lac=self._lacs.pop(number), error=error)
        self._feed(event)

    def room(self) -> None:
        """Take in that a lane that was full takes items again."""
        self._feed(ev.RoomAgain(term=self._term))


@dataclass(frozen=True, slots=True)
class OpenedLane:
    """An open lane, its sink and its bookie."""

    lane: AppendLane
    sink: Ear
    bookie: BookieId
