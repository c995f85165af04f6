"""Counted time: the time that a zone watch has really watched.

Every rule that waits (a debounce, a hold-up, the held time of an incident) waits in *counted* time.
Counted time is the sum of the steps between one evaluation and the next. It is kept in the record,
and the next watch reads it there. So it has the same meaning on every machine, whatever the
machine's clock says.

A step counts when the same watch made the evaluations at both of its ends. The first look of a
watch has no step. A step that is negative, or longer than ``longest_step_ms``, is a gap. Causes of
gaps are a suspended machine, a jump of the clock, and a metadata store that gave no answer. A gap
adds nothing, and after it the start grace of the watch begins again, as for a new watch. So a wait
may take longer than its rule says, but never shorter.

Wall time is stored for people to read. No rule uses it.
"""

from dataclasses import dataclass
from typing import Final

from zonekeeper.placement.base import units
from zonekeeper.placement.policy.rules import ZoneWatchRules

_UNITS: Final = (
    ("d", units.DAY_MS),
    ("h", units.HOUR_MS),
    ("m", units.MINUTE_MS),
    ("s", units.SECOND_MS),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watcher:
    """The time that one watch has watched. It is never stored: a new watch begins without it."""

    #: The time of the last evaluation, on the watch's own monotonic clock.
    last_ms: int | None = None
    #: Counted time since the watch began, or since its last gap.
    watched_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One evaluation's place in time."""

    #: Counted time since the previous evaluation; 0 for a gap.
    step_ms: int
    #: The start grace is not over: the watch may not open anything yet.
    in_grace: bool
    #: For people to read.
    wall_ms: int


def longest_step_ms(rules: ZoneWatchRules) -> int:
    """Give the longest time between two evaluations that is not a gap."""
    return rules.evaluate_every_ms + rules.stand_in_after_ms


def counted_step_ms(last_ms: int | None, now_ms: int, rules: ZoneWatchRules) -> int | None:
    """Give the time from one look to the next; None for a gap, and where there was no look."""
    if last_ms is not None and 0 <= now_ms - last_ms <= longest_step_ms(rules):
        return now_ms - last_ms
    return None


def look(
    watcher: Watcher, rules: ZoneWatchRules, *, now_ms: int, wall_ms: int
) -> tuple[Watcher, Moment]:
    """Give the watch after this look, and the moment of the look."""
    step_ms = counted_step_ms(watcher.last_ms, now_ms, rules)
    watched_ms = 0 if step_ms is None else watcher.watched_ms + step_ms
    moment = Moment(
        step_ms=step_ms or 0, in_grace=watched_ms < rules.start_grace_ms, wall_ms=wall_ms
    )
    return Watcher(last_ms=now_ms, watched_ms=watched_ms), moment


def spelled(duration_ms: int) -> str:
    """Spell a duration in its two largest units (``6h 2m``); less than a second is ``0s``."""
    parts = []
    for unit, worth in _UNITS:
        whole, duration_ms = divmod(duration_ms, worth)
        if whole:
            parts.append(f"{whole}{unit}")
        elif parts:
            break
    return " ".join(parts[:2]) or "0s"
