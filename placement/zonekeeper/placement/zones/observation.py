"""The observation of a zone: is it down? It is the first machine: facts only, no consequences.

::

                     ┌────────────── not failing ──────────────┐
    unknown ──► up ◄─► degraded ──► suspect ── suspectFor ──► down ──► returning
    (grace)     ▲         ▲         failing                    ▲  at highMark, or between   │ │
                │         │                                    │  the marks betweenMarksFor │ │
                │         │                                    └── failing, or (if it came ─┘ │
                └─────────┴───────────────── hold-up over ────── by highMark) under it ───────┘

- *Failing*: the available share is at or under ``lowMark``, and at least ``minLost`` bookies are
  lost. *Well*: the share is at or over ``highMark``. Between the two marks a zone that is up or
  degraded does not become suspect, and a zone that is down stays down; that is the hysteresis.
- A zone that stays between the marks for ``betweenMarksFor`` is returning all the same: the bookies
  that are still missing are then ordinary losses. A zone that is too small to lose ``minLost``
  bookies any more counts as between the marks, however low its share. Otherwise it could never
  leave ``down``.
- The hold-up is doubled for each earlier time that the zone went down within ``flapWindow``, up to
  ``holdUpMax``. It is fixed when the return begins.
- Where no bookie is counted (all are in maintenance, written off or draining) there is no evidence.
  A zone that was down or returning then stays as it is, and its clocks stand still. Any other zone
  is up.

Durations are counted time (see ``counted_time``), so the next watch needs nothing but this value.
"""

import enum
from dataclasses import dataclass, replace
from typing import Final, assert_never

from zonekeeper.placement.policy.rules import ZoneWatchRules
from zonekeeper.placement.zones.counted_time import Moment, spelled
from zonekeeper.placement.zones.zone_counts import Count

#: At most this many times of going down are remembered; more would not make the hold-up longer.
DOWNS_KEPT: Final = 32


class Observation(enum.StrEnum):
    """The state of a zone, as far as it is known."""

    #: No watch has watched the zone through a start grace yet.
    UNKNOWN = "unknown"
    UP = "up"
    #: Under the high mark and not failing: these are ordinary losses.
    DEGRADED = "degraded"
    #: Failing, but not for long enough to be sure.
    SUSPECT = "suspect"
    DOWN = "down"
    #: The zone is back, but not for long enough to be sure.
    RETURNING = "returning"


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneObservation:
    """The state of the machine: what was seen, why, and for how long."""

    state: Observation
    #: Why the zone entered the state, with the numbers of that moment.
    reason: str
    #: Wall time of entering the state, for people.
    since_wall_ms: int
    #: Counted time in this state.
    for_ms: int = 0
    #: In ``down``: counted time between the marks without a break; None if it is not between them.
    between_ms: int | None = None
    #: In ``returning``: the counted time that the zone must stay there.
    hold_up_ms: int = 0
    #: In ``returning``: the zone reached the high mark, and must stay at or over it.
    by_high_mark: bool = False
    #: Counted time since each time that the zone went down, newest first, within the flap window.
    down_ages_ms: tuple[int, ...] = ()


def failing(count: Count, rules: ZoneWatchRules) -> bool:
    """Has the zone lost so many bookies that the zone itself may be lost?"""
    return count.at_or_under(rules.low_mark) and count.lost >= rules.min_lost


def first(moment: Moment) -> ZoneObservation:
    """Give the state of a zone before its first evaluation."""
    reason = "no zone watch has evaluated it before"
    return ZoneObservation(state=Observation.UNKNOWN, reason=reason, since_wall_ms=moment.wall_ms)


def observe(
    before: ZoneObservation, count: Count, rules: ZoneWatchRules, moment: Moment
) -> ZoneObservation:
    """Give the state after one evaluation."""
    seen = _aged(before, rules, moment.step_ms)
    match before.state:
        case Observation.UNKNOWN if moment.in_grace:
            return seen
        case Observation.UNKNOWN | Observation.UP | Observation.DEGRADED:
            return _by_count(seen, count, rules, moment)
        case Observation.SUSPECT:
            if failing(count, rules) and seen.for_ms >= rules.suspect_for_ms:
                return _down(seen, f"{count}, failing for {spelled(seen.for_ms)}", moment)
            return _by_count(seen, count, rules, moment)
        case Observation.DOWN:
            return _returning_or_not(seen, count, rules, moment) if count.total else before
        case Observation.RETURNING:
            return _back_or_not(seen, count, rules, moment) if count.total else before
        case _:
            assert_never(before.state)


def _by_count(
    seen: ZoneObservation, count: Count, rules: ZoneWatchRules, moment: Moment
) -> ZoneObservation:
    """Give the state of a zone that is not down, by its numbers alone."""
    if failing(count, rules):
        state = Observation.SUSPECT
        why = f"{count}, at or under the low mark {rules.low_mark:g}, {count.lost} lost"
    elif count.at_or_over(rules.high_mark):
        state, why = Observation.UP, f"{count}, at or over the high mark {rules.high_mark:g}"
    elif count.total == 0:
        state, why = Observation.UP, f"{count} counted, so none is missing"
    else:
        state, why = Observation.DEGRADED, f"{count}, under the high mark {rules.high_mark:g}"
    return seen if state is seen.state else _entered(seen, state, why, moment)


def _down(seen: ZoneObservation, why: str, moment: Moment) -> ZoneObservation:
    down = _entered(seen, Observation.DOWN, why, moment)
    return replace(down, down_ages_ms=(0, *seen.down_ages_ms)[:DOWNS_KEPT])


def _returning_or_not(
    seen: ZoneObservation, count: Count, rules: ZoneWatchRules, moment: Moment
) -> ZoneObservation:
    if failing(count, rules):
        return replace(seen, between_ms=None)
    if count.at_or_over(rules.high_mark):
        why = f"{count}, at or over the high mark {rules.high_mark:g}"
        return _returning(seen, why, rules, moment, by_high_mark=True)
    between_ms = 0 if seen.between_ms is None else seen.between_ms + moment.step_ms
    if between_ms >= rules.between_marks_for_ms:
        why = f"{count}, between the marks for {spelled(between_ms)}"
        return _returning(seen, why, rules, moment, by_high_mark=False)
    return replace(seen, between_ms=between_ms)


def _returning(
    seen: ZoneObservation, why: str, rules: ZoneWatchRules, moment: Moment, *, by_high_mark: bool
) -> ZoneObservation:
    downs = max(1, len(seen.down_ages_ms))
    hold_up_ms = min(rules.hold_up_max_ms, rules.hold_up_ms << (downs - 1))
    why += f"; held up for {spelled(hold_up_ms)}"
    if downs > 1:
        why += f", as it went down {downs} times within {spelled(rules.flap_window_ms)}"
    entered = _entered(seen, Observation.RETURNING, why, moment)
    return replace(entered, hold_up_ms=hold_up_ms, by_high_mark=by_high_mark)


def _back_or_not(
    seen: ZoneObservation, count: Count, rules: ZoneWatchRules, moment: Moment
) -> ZoneObservation:
    if failing(count, rules):
        why = f"{count}, failing again after {spelled(seen.for_ms)}"
        return _down(seen, why, moment)
    if seen.by_high_mark and not count.at_or_over(rules.high_mark):
        why = f"{count}, under the high mark again after {spelled(seen.for_ms)}"
        return _down(seen, why, moment)
    if seen.for_ms < seen.hold_up_ms:
        return seen
    back = _by_count(seen, count, rules, moment)
    return replace(back, reason=f"{back.reason}, for {spelled(seen.for_ms)}")


def _entered(
    seen: ZoneObservation, state: Observation, why: str, moment: Moment
) -> ZoneObservation:
    return ZoneObservation(
        state=state,
        reason=why,
        since_wall_ms=moment.wall_ms,
        down_ages_ms=seen.down_ages_ms,
    )


def _aged(before: ZoneObservation, rules: ZoneWatchRules, step_ms: int) -> ZoneObservation:
    ages = (age + step_ms for age in before.down_ages_ms)
    within = tuple(age for age in ages if age <= rules.flap_window_ms)
    return replace(before, for_ms=before.for_ms + step_ms, down_ages_ms=within)
