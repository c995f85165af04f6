"""A job that loads bookies is quiet while anything is held: an outage is no time for more load.

The job waits before each window of entries, and goes on by itself when nothing holds any more. What
is unknown holds as well: if no zone watch evaluates the zones, an outage would not be noticed. A
cluster that has no zone watch would be waited for without end. So a job refuses to begin there,
unless the person says that it may read unwatched.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from zonekeeper.pipeline.planning.worker_view import WatchedView
from zonekeeper.placement.base.troubles import Refusal
from zonekeeper.placement.zones.counted_time import longest_step_ms
from zonekeeper.placement.zones.losses import Held, HeldBy
from zonekeeper.replication.view.view import View

#: What holds because nobody evaluates.
UNKNOWN: Final = frozenset({HeldBy.NOT_WATCHED, HeldBy.NO_RECORD})
#: A zone watch that is at work is seen to evaluate within so many of its longest steps.
_STEPS: Final = 2
#: So often a wait makes sure that the view is still followed.
_CHECKED_EVERY_S: Final = 5.0

_logger = logging.getLogger(__name__)


class NotWatchedError(Refusal):
    """No zone watch is at work, so the job does not begin; no entry was read."""


def holds(view: View, *, unwatched: bool) -> Held | None:
    """Say what holds the job now; None: nothing."""
    return counted(view.what_holds(None), unwatched=unwatched)


def counted(held: Held | None, *, unwatched: bool) -> Held | None:
    """Leave out what is unknown only because nobody evaluates, if that is permitted."""
    return None if held is not None and unwatched and held.by in UNKNOWN else held


async def check_watched(view: View, *, unwatched: bool) -> None:
    """Raise ``NotWatchedError`` if no zone watch is seen at work; a real hold is no refusal."""
    held = await settled(view, lambda: holds(view, unwatched=unwatched))
    if held is not None and held.by in UNKNOWN:
        raise NotWatchedError(
            f"no zone watch is at work ({held.text}), so an outage would not be noticed and the "
            "job would load bookies in it; start `zonekeeper autorecovery run`, or permit it with "
            "unwatched (--unwatched yes)"
        )


async def settled(view: View, asked: Callable[[], Held | None]) -> Held | None:
    """Give what holds, once a zone watch that is at work has been seen to evaluate."""
    held = asked()
    with suppress(TimeoutError):
        async with asyncio.timeout(_STEPS * longest_step_ms(view.policy.zone_watch) / 1_000):
            while held is not None and held.by in UNKNOWN:
                await view.changed(view.looks)
                held = asked()
    return held


async def until_quiet_ends(watched: WatchedView, *, unwatched: bool) -> None:
    """Wait until nothing holds; the log has one line for each cause.

    Raises ``ClientEnded`` if the view is not followed any more: Spark then runs the task again.
    """
    await until_over(watched, lambda: holds(watched.view, unwatched=unwatched))


async def until_over(watched: WatchedView, asked: Callable[[], Held | None]) -> None:
    """Wait until ``asked`` gives no hold, as ``until_quiet_ends`` does."""
    told: str | None = None
    view = watched.view
    watched.check()
    while (held := asked()) is not None:
        if held.by != told:
            _logger.warning("nothing is read until this is over: %s: %s", held.by, held.text)
            told = held.by
        with suppress(TimeoutError):
            async with asyncio.timeout(_CHECKED_EVERY_S):
                await view.changed(view.looks)
        watched.check()
