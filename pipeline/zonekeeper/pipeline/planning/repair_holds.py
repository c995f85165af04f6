"""What a repair on Spark may do: the gates of autorecovery, asked before it and while it runs.

The gates are asked for each bookie, in the words of the view that replicators use. The hold of a
bookie that is there when the job is planned is left to its person or its zone watch: the job does
what the other gates permit, and says what is held. A hold that comes later is waited for. If
nothing that was lost may be copied, the job is refused: no entry is read and none is written.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from zonekeeper.pipeline.planning import quiet
from zonekeeper.pipeline.planning.worker_view import WatchedView
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.troubles import Refusal
from zonekeeper.placement.zones.losses import Held
from zonekeeper.replication.view.view import View


class RepairHeldError(Refusal):
    """Nothing that was lost may be copied now; no entry was read, and none was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairHolds:
    """What holds a repair when it is planned."""

    #: The bookies that are missing and not written off.
    lost: frozenset[BookieId]
    #: What the repair is about: the lost bookies, or all bookies if none is lost.
    concerned: frozenset[BookieId]
    #: Of all bookies: those whose copies may not be made again.
    held: Mapping[BookieId, Held]
    #: What holds a bookie whose zone is unknown: any hold does.
    anywhere: Held | None

    @property
    def permitted(self) -> frozenset[BookieId]:
        """What the repair is about, without what is held. A hold of these is waited for."""
        return self.concerned - self.held.keys()

    @property
    def refusal(self) -> RepairHeldError | None:
        """Give the error for a repair that may do nothing; None: it may do something."""
        if self.permitted or not self.concerned:
            return None
        found = {self.held[bookie].text: None for bookie in sorted(self.concerned)}
        unknown = any(self.held[bookie].by in quiet.UNKNOWN for bookie in self.concerned)
        fix = (
            "start `zonekeeper autorecovery run`, whose zone watch evaluates the zones"
            if unknown
            else "release it (`zonekeeper autorecovery release`), or wait until it is over"
        )
        return RepairHeldError(
            f"nothing was read or copied, because repair is held: {'; '.join(found)}; {fix}, and "
            "start the job again"
        )


async def seen(view: View) -> RepairHolds:
    """Say what holds, once a zone watch that is at work has been seen to evaluate."""
    await quiet.settled(view, lambda: unknown(view))
    return now(view)


def now(view: View) -> RepairHolds:
    """Say what holds now."""
    every = frozenset(bookie.id for bookie in view.topology)
    lost = frozenset(view.missing) - view.written_off
    held = {
        bookie: found
        for bookie in sorted(every)
        if (found := view.what_holds_anew(bookie)) is not None
    }
    anywhere = view.what_holds(None)
    return RepairHolds(lost=lost, concerned=lost or every, held=held, anywhere=anywhere)


def first(view: View, bookies: Collection[BookieId]) -> Held | None:
    """Give the first hold of some bookies; None: none of them is held."""
    every = (view.what_holds_anew(bookie) for bookie in sorted(bookies))
    return next((held for held in every if held is not None), None)


def unknown(view: View) -> Held | None:
    """Give a hold that is there only because nobody was seen to evaluate; None: there is none."""
    every = (view.what_holds_anew(bookie.id) for bookie in view.topology)
    return next((held for held in every if held is not None and held.by in quiet.UNKNOWN), None)


class LaterHolds:
    """What a repair waits for, as its driver sees it: holds that came after it had begun."""

    def __init__(self) -> None:
        #: None: the driver has just begun to look.
        self._permitted: frozenset[BookieId] | None = None

    def look(self, view: View) -> Held | None:
        """Give what holds now and did not at the first look that knew; None: nothing."""
        if self._permitted is None:
            if unknown(view) is not None:
                return None
            self._permitted = now(view).permitted
        return first(view, self._permitted)


async def until_permitted(watched: WatchedView, bookies: Collection[BookieId]) -> None:
    """Wait until none of some bookies is held; raises ``ClientEnded`` as ``quiet`` does."""
    await quiet.until_over(watched, lambda: first(watched.view, bookies))
