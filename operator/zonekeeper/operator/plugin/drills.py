"""A drill as a person sees it: its phases while it is on, and its report.

Only the resource is read.
"""

from collections.abc import Callable, Iterator
from typing import Final

from zonekeeper.operator.kubernetes.api import Json, KubernetesError
from zonekeeper.operator.plan.drills import drill_record
from zonekeeper.operator.plan.drills.drill_record import DrillOutcome, DrillPhase, DrillRecord
from zonekeeper.operator.plugin.ordering import OrderDesk
from zonekeeper.operator.probe import probe_figures
from zonekeeper.placement.base import units
from zonekeeper.placement.base.troubles import Trouble

#: Beyond the time that the zone is away; the operator ends each drill earlier.
LATE_MS_MAX: Final = 20 * units.MINUTE_MS


class DrillNotSeenError(Trouble):
    """The end of a drill was not seen; the operator ends it all the same."""

    retryable = True
    maybe_applied = True


async def followed(desk: OrderDesk, token: str, tell: Callable[[str], None]) -> DrillRecord:
    """Wait for the end of a drill, and tell each of its phases; gives its report."""
    told, until_ms = "", None
    while True:
        try:
            found = of(await desk.resource())
        except KubernetesError as error:
            tell(f"not seen now: {error}")
            found = None
        if found is not None and found.token == token:
            if (text := str(found.phase)) != told:
                tell(f"{text}{f': {found.why}' if found.why else ''}")
                told = text
            if found.phase is DrillPhase.ENDED:
                return found
            until_ms = until_ms or desk.wall_ms() + found.for_ms + LATE_MS_MAX
        elif found is not None and until_ms is not None:
            raise DrillNotSeenError("another drill stands in the status: look at the events")
        until_ms = until_ms or desk.wall_ms() + LATE_MS_MAX
        if desk.wall_ms() > until_ms:
            raise DrillNotSeenError(
                f"the drill did not end in time: see `kubectl zonekeeper status {desk.name}`; is "
                "an operator acting (`zonekeeper operator check`)?"
            )
        await desk.pause()


def of(resource: Json) -> DrillRecord | None:
    """Give the last drill of a resource; None: there was none."""
    return drill_record.read(resource.get("status") or {})


def line(record: DrillRecord) -> str:
    """Say in one line how a drill is, or was."""
    what = record.outcome if record.phase is DrillPhase.ENDED else record.phase
    why = f": {record.why}" if record.why else ""
    return f"drill of zone {record.zone}, by {record.by}: {what}{why}"


def report(record: DrillRecord) -> Iterator[str]:
    """Give the report of a drill that has ended."""
    yield line(record)
    if record.away_ms is None:
        return
    back_ms = record.back_ms or record.away_ms
    away = units.duration_text(_seconds(back_ms - record.away_ms))
    yield f"  called away for {away} of {units.duration_text(record.for_ms)}"
    if record.held_ms is not None:
        held = units.duration_text(_seconds(record.held_ms - record.away_ms))
        yield f"  its losses were seen held after {held}"
    else:
        yield "  its losses were not seen held"
    if record.ended_ms is not None:
        yield f"  whole again after {units.duration_text(_seconds(record.ended_ms - back_ms))}"
    figures = probe_figures.read(record.probe)
    if figures is None:
        yield f"  the probe left no figures{f': {record.probe}' if record.probe else ''}"
        return
    yield from (f"  {one}" for one in probe_figures.lines(figures))


def plain(record: DrillRecord) -> Json:
    """Give a drill as data, with the figures of its probe."""
    figures = probe_figures.read(record.probe)
    told = drill_record.plain(record)
    return told if figures is None else told | {"figures": probe_figures.plain(figures)}


def is_completed(record: DrillRecord) -> bool:
    """Was the zone away for its time, and was nothing lost?"""
    return record.outcome is DrillOutcome.COMPLETED


def _seconds(ms: int) -> int:
    return max(0, round(ms / units.SECOND_MS)) * units.SECOND_MS
