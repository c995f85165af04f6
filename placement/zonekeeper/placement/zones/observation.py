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
- *Flapping*: time in ``suspect`` is summed over all stays within ``flapWindow``. Once the sum is
  ``SUSPECTS_ARE_REAL`` times ``suspectFor``, a zone that is failing is down at once, and comes back
  through the hold-up: an outage that pauses before each debounce ends is an outage. Time in
  ``unknown`` is not summed, as nothing was known.
- Where no bookie is counted (all are in maintenance, written off or draining) there is no evidence.
  A zone that was down or returning then stays as it is, and its clocks stand still. Any other zone
  is up.

A reason is of now: each evaluation says it anew, with its numbers.

Durations are counted time (see ``counted_time``), so the next watch needs nothing but this value.
"""

import enum
from dataclasses import dataclass, field, replace
from typing import Final, assert_never

from zonekeeper.placement.base.fields import LATER
from zonekeeper.placement.policy.gating import SUSPECTS_ARE_REAL
from zonekeeper.placement.policy.rules import ZoneWatchRules
from zonekeeper.placement.zones.counted_time import Moment, spelled
from zonekeeper.placement.zones.zone_counts import Count

#: At most this many times of going down are remembered; more would not make the hold-up longer.
DOWNS_KEPT: Final = 32

#: So many stays in ``suspect`` are remembered one by one; beyond it the two oldest become one.
STAYS_KEPT: Final = 64


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
class SuspectStay:
    """One stay in ``suspect``, in counted time: ``0 < for_ms <= age_ms``."""

    #: Counted time since the stay began.
    age_ms: int
    for_ms: int

    def aged(self, rules: ZoneWatchRules, step_ms: int) -> "SuspectStay":
        """Give the stay a step later; what lies before the flap window is cut off."""
        age_ms = self.age_ms + step_ms
        before_ms = max(0, age_ms - rules.flap_window_ms)
        return SuspectStay(age_ms=age_ms - before_ms, for_ms=self.for_ms - before_ms)

    def fault(self) -> str | None:
        """Say what is wrong with it; a stored record may hold any value."""
        return None if 0 < self.for_ms <= self.age_ms else "a stay is as long as it is ago, at most"


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneObservation:
    """The state of the machine: what was seen, why, and for how long."""

    state: Observation
    #: Why the zone is in the state, with the numbers of the last evaluation.
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
    #: The stays in ``suspect`` within the flap window, newest first.
    suspects: tuple[SuspectStay, ...] = field(default=(), metadata=LATER)

    @property
    def suspect_ms(self) -> int:
        """Give the counted time in ``suspect``, in sum within the flap window."""
        return sum(stay.for_ms for stay in self.suspects)


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
            return replace(seen, reason=f"{count}, and no start grace of a zone watch is over yet")
        case Observation.UNKNOWN | Observation.UP | Observation.DEGRADED | Observation.SUSPECT:
            return _down_or_not(seen, count, rules, moment)
        case Observation.DOWN if count.total:
            return _returning_or_not(seen, count, rules, moment)
        case Observation.RETURNING if count.total:
            return _back_or_not(seen, count, rules, moment)
        case Observation.DOWN | Observation.RETURNING:
            return replace(before, reason=f"{count} counted, so nothing shows whether it is back")
        case _:
            assert_never(before.state)


def _down_or_not(
    seen: ZoneObservation, count: Count, rules: ZoneWatchRules, moment: Moment
) -> ZoneObservation:
    why = _surely_failing(seen, rules) if failing(count, rules) else None
    if why is not None:
        return _down(seen, f"{count}, {why}", moment)
    return _by_count(seen, count, rules, moment)


def _surely_failing(seen: ZoneObservation, rules: ZoneWatchRules) -> str | None:
    """Say why a failing zone is down and not suspect; None: it is not known yet."""
    if seen.state is Observation.SUSPECT and seen.for_ms >= rules.suspect_for_ms:
        return f"failing for {spelled(seen.for_ms)}"
    if seen.suspects and seen.suspect_ms >= SUSPECTS_ARE_REAL * rules.suspect_for_ms:
        within = spelled(rules.flap_window_ms)
        return f"failing again and again, for {spelled(seen.suspect_ms)} within {within}"
    return None


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
    if state is seen.state:
        lasting = f", for {spelled(seen.for_ms)}" if state is Observation.SUSPECT else ""
        return replace(seen, reason=why + lasting)
    return _entered(seen, state, why, moment)


def _down(seen: ZoneObservation, why: str, moment: Moment) -> ZoneObservation:
    down = _entered(seen, Observation.DOWN, why, moment)
    return replace(down, down_ages_ms=(0, *seen.down_ages_ms)[:DOWNS_KEPT])


def _returning_or_not(
    seen: ZoneObservation, count: Count, rules: ZoneWatchRules, moment: Moment
) -> ZoneObservation:
    if failing(count, rules):
        why = f"{count}, down for {spelled(seen.for_ms)}"
        return replace(seen, reason=why, between_ms=None)
    if count.at_or_over(rules.high_mark):
        why = f"{count}, at or over the high mark {rules.high_mark:g}"
        return _returning(seen, why, rules, moment, by_high_mark=True)
    between_ms = 0 if seen.between_ms is None else seen.between_ms + moment.step_ms
    if between_ms >= rules.between_marks_for_ms:
        why = f"{count}, between the marks for {spelled(between_ms)}"
        return _returning(seen, why, rules, moment, by_high_mark=False)
    why = f"{count}, between the marks for {spelled(between_ms)}, down for {spelled(seen.for_ms)}"
    return replace(seen, reason=why, between_ms=between_ms)


def _returning(
    seen: ZoneObservation, why: str, rules: ZoneWatchRules, moment: Moment, *, by_high_mark: bool
) -> ZoneObservation:
    downs = max(1, len(seen.down_ages_ms))
    hold_up_ms = min(rules.hold_up_max_ms, rules.hold_up_ms << (downs - 1))
    why += f"; {_held_up(hold_up_ms, downs, rules)}"
    entered = _entered(seen, Observation.RETURNING, why, moment)
    return replace(entered, hold_up_ms=hold_up_ms, by_high_mark=by_high_mark)


def _held_up(hold_up_ms: int, downs: int, rules: ZoneWatchRules) -> str:
    text = f"held up for {spelled(hold_up_ms)}"
    if downs > 1:
        text += f", as it went down {downs} times within {spelled(rules.flap_window_ms)}"
    return text


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
        held_up = _held_up(seen.hold_up_ms, len(seen.down_ages_ms), rules)
        return replace(seen, reason=f"{count}, back for {spelled(seen.for_ms)}; {held_up}")
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
        suspects=seen.suspects,
    )


def _aged(before: ZoneObservation, rules: ZoneWatchRules, step_ms: int) -> ZoneObservation:
    ages = (age + step_ms for age in before.down_ages_ms)
    within = tuple(age for age in ages if age <= rules.flap_window_ms)
    return replace(
        before,
        for_ms=before.for_ms + step_ms,
        down_ages_ms=within,
        suspects=_suspects(before, rules, step_ms),
    )


def _suspects(
    before: ZoneObservation, rules: ZoneWatchRules, step_ms: int
) -> tuple[SuspectStay, ...]:
    """Give the stays in ``suspect`` a step later, the newest first."""
    stays = [stay.aged(rules, step_ms) for stay in before.suspects]
    if before.state is Observation.SUSPECT and step_ms:
        if before.for_ms and stays:
            stays[0] = replace(stays[0], for_ms=stays[0].for_ms + step_ms)
        else:
            stays.insert(0, SuspectStay(age_ms=step_ms, for_ms=step_ms))
    stays = [stay for stay in stays if stay.for_ms > 0]
    if len(stays) > STAYS_KEPT:
        *kept, last, oldest = stays
        merged = SuspectStay(age_ms=oldest.age_ms, for_ms=last.for_ms + oldest.for_ms)
        stays = [*kept, merged]
    return tuple(stays)
