"""Time as a zone watch counts it: only what somebody watched.

Everything that a rule waits for (a debounce, a hold-up, the held time of an incident) is *counted*:
the sum of the steps between one evaluation and the next, kept in the record that the next watch
reads. So it means the same on every machine, whatever its clock says.

A step counts when its watch stood at both ends of it. The first look of a watch has no step, and a
step longer than ``longest_step_ms``, or backwards, is a gap: a suspended machine, a jump of the
clock, a metadata store that did not answer. A gap counts as nothing, and the watch is as cold as a
new one: its start grace begins again. So waiting may take longer than its rule says, never shorter.

Wall time is carried along for people to read. No rule looks at it.
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
    """What one watch knows of its own time. Never stored: whoever takes over begins with none."""

    #: Its last evaluation, on its own monotonic clock.
    last_ms: int | None = None
    #: How long it has watched without a gap.
    watched_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """One evaluation's place in time."""

    #: Counted time since the evaluation before.
    step_ms: int
    #: The watch has not seen enough yet to open anything.
    in_grace: bool
    #: For people to read.
    wall_ms: int


def longest_step_ms(rules: ZoneWatchRules) -> int:
    """Say how long nobody may have evaluated before it counts as nobody watching."""
    return rules.evaluate_every_ms + rules.stand_in_after_ms


def counted_step_ms(last_ms: int | None, now_ms: int, rules: ZoneWatchRules) -> int | None:
    """Give the time from one look to the next; None: it is a gap, or there was no look before."""
    if last_ms is not None and 0 <= now_ms - last_ms <= longest_step_ms(rules):
        return now_ms - last_ms
    return None


def look(
    watcher: Watcher, rules: ZoneWatchRules, *, now_ms: int, wall_ms: int
) -> tuple[Watcher, Moment]:
    """Give the watch after this look, and the moment of it."""
    step_ms = counted_step_ms(watcher.last_ms, now_ms, rules)
    watched_ms = 0 if step_ms is None else watcher.watched_ms + step_ms
    moment = Moment(
        step_ms=step_ms or 0, in_grace=watched_ms < rules.start_grace_ms, wall_ms=wall_ms
    )
    return Watcher(last_ms=now_ms, watched_ms=watched_ms), moment


def spelled(duration_ms: int) -> str:
    """Say a measured duration in its two largest units: ``6h 2m``; below a second, ``0s``."""
    parts = []
    for unit, worth in _UNITS:
        whole, duration_ms = divmod(duration_ms, worth)
        if whole:
            parts.append(f"{whole}{unit}")
        elif parts:
            break
    return " ".join(parts[:2]) or "0s"
