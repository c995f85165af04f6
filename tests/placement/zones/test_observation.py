"""Every way from one observation of a zone to the next, and the edges of each."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from zonekeeper.placement.base.ids import BookieId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.topology import Bookie, Registration
from zonekeeper.placement.base.units import HOUR_MS, MINUTE_MS, SECOND_MS
from zonekeeper.placement.policy.rules import ZoneWatchRules
from zonekeeper.placement.zones import observation
from zonekeeper.placement.zones.counted_time import Moment
from zonekeeper.placement.zones.observation import Observation, ZoneObservation
from zonekeeper.placement.zones.zone_counts import Count, measure

RULES = ZoneWatchRules()
ZONE = ZoneName("a")
UNIT = Location(ZONE, UpgradeDomain("ud-0"))

ALL, NINE, SIX, FIVE = (Count(total=10, available=n) for n in (10, 9, 6, 5))
NONE = Count(total=0)


def after(
    before: ZoneObservation,
    *steps: tuple[int, Count],
    rules: ZoneWatchRules = RULES,
    in_grace: bool = False,
) -> ZoneObservation:
    """Play (step, count) pairs."""
    for step_ms, count in steps:
        moment = Moment(step_ms=step_ms, in_grace=in_grace, wall_ms=1)
        before = observation.observe(before, count, rules, moment)
    return before


def unknown() -> ZoneObservation:
    return observation.first(Moment(step_ms=0, in_grace=True, wall_ms=0))


def up() -> ZoneObservation:
    return after(unknown(), (0, ALL))


def suspect() -> ZoneObservation:
    return after(up(), (SECOND_MS, FIVE))


def down() -> ZoneObservation:
    return after(suspect(), (MINUTE_MS, FIVE))


def returning(count: Count = ALL) -> ZoneObservation:
    return after(down(), (SECOND_MS, count))


# ── unknown ──


def test_in_the_start_grace_nothing_is_known_whatever_is_seen() -> None:
    seen = after(unknown(), (MINUTE_MS, FIVE), (MINUTE_MS, ALL), (MINUTE_MS, NONE), in_grace=True)

    assert seen.state is Observation.UNKNOWN


@pytest.mark.parametrize(
    ("count", "state"),
    [
        (ALL, Observation.UP),
        (NINE, Observation.UP),
        (SIX, Observation.DEGRADED),
        (FIVE, Observation.SUSPECT),
        (NONE, Observation.UP),
    ],
)
def test_after_the_grace_the_numbers_decide(count: Count, state: Observation) -> None:
    assert after(unknown(), (0, count)).state is state


# ── up, degraded, suspect ──


def test_up_and_degraded_follow_the_high_mark() -> None:
    degraded = after(up(), (SECOND_MS, SIX))

    assert degraded.state is Observation.DEGRADED
    assert degraded.reason == "6 of 10 bookies available, under the high mark 0.9"
    assert after(degraded, (SECOND_MS, NINE)).state is Observation.UP


def test_a_failing_zone_is_suspect_from_up_and_from_degraded() -> None:
    assert suspect().state is Observation.SUSPECT
    assert suspect().reason == "5 of 10 bookies available, at or under the low mark 0.5, 5 lost"
    assert after(up(), (0, SIX), (0, FIVE)).state is Observation.SUSPECT


@pytest.mark.parametrize("count", [SIX, ALL, NONE])
def test_a_suspect_zone_that_does_not_fail_any_more_was_never_down(count: Count) -> None:
    seen = after(suspect(), (MINUTE_MS - 1, FIVE), (1, count))

    assert seen.state in (Observation.UP, Observation.DEGRADED)
    assert not seen.down_ages_ms


def test_a_zone_is_down_when_it_failed_without_a_break_for_the_whole_debounce() -> None:
    almost = after(suspect(), (MINUTE_MS - 1, FIVE))

    assert almost.state is Observation.SUSPECT
    assert after(almost, (1, FIVE)).state is Observation.DOWN
    broken = after(almost, (0, SIX), (0, FIVE), (1, FIVE))
    assert broken.state is Observation.SUSPECT


# ── down ──


def test_a_down_zone_returns_through_the_high_mark_at_once() -> None:
    assert after(down(), (0, NINE)).state is Observation.RETURNING
    assert after(down(), (0, Count(total=10, available=8))).state is Observation.DOWN


def test_a_down_zone_between_the_marks_returns_after_a_time_without_a_break() -> None:
    between = (RULES.between_marks_for_ms - 1, SIX)
    almost = after(down(), (0, SIX), between)

    assert almost.state is Observation.DOWN
    assert after(almost, (1, SIX)).state is Observation.RETURNING
    broken = after(almost, (0, FIVE), (1, SIX), between)
    assert broken.state is Observation.DOWN


def test_time_between_the_marks_counts_from_when_it_was_first_seen_there() -> None:
    assert after(down(), (RULES.between_marks_for_ms, SIX)).state is Observation.DOWN


def test_a_zone_too_small_to_fail_again_is_not_down_for_ever() -> None:
    """One of two is at the low mark 0.5, but minLost is 2: it could not have gone down so."""
    one_of_two = Count(total=2, available=1)
    gone = after(up(), (0, Count(total=2, available=0)), (MINUTE_MS, Count(total=2, available=0)))
    assert gone.state is Observation.DOWN

    seen = after(gone, (0, one_of_two), (RULES.between_marks_for_ms, one_of_two))
    assert seen.state is Observation.RETURNING
    assert after(seen, (RULES.hold_up_ms, one_of_two)).state is Observation.DEGRADED


def test_where_nothing_is_counted_a_down_zone_stays_as_it_is() -> None:
    for before in (down(), returning()):
        stays = after(before, (HOUR_MS, NONE))
        assert stays == replace(before, reason=stays.reason)
        assert stays.reason == "no bookie counted, so nothing shows whether it is back"


# ── returning ──


@pytest.mark.parametrize(("count", "state"), [(ALL, Observation.UP), (NINE, Observation.UP)])
def test_a_zone_that_stays_over_the_high_mark_is_up_after_the_hold_up(
    count: Count, state: Observation
) -> None:
    almost = after(returning(), (RULES.hold_up_ms - 1, count))

    assert almost.state is Observation.RETURNING
    assert after(almost, (1, count)).state is state


def test_a_zone_that_came_through_the_high_mark_must_stay_over_it() -> None:
    seen = after(returning(), (RULES.hold_up_ms, Count(total=10, available=8)))

    assert seen.state is Observation.DOWN
    assert len(seen.down_ages_ms) == 2


def test_a_zone_that_came_between_the_marks_may_stay_there() -> None:
    seen = after(down(), (0, SIX), (RULES.between_marks_for_ms, SIX))
    assert seen.state is Observation.RETURNING

    assert after(seen, (RULES.hold_up_ms, SIX)).state is Observation.DEGRADED
    assert after(seen, (0, ALL), (RULES.hold_up_ms, SIX)).state is Observation.DEGRADED
    assert after(seen, (RULES.hold_up_ms, FIVE)).state is Observation.DOWN


def test_the_hold_up_doubles_with_each_time_down_within_the_window_up_to_its_most() -> None:
    seen, hold_ups = returning(), []
    for _ in range(6):
        hold_ups.append(seen.hold_up_ms // MINUTE_MS)
        seen = after(seen, (MINUTE_MS, FIVE), (MINUTE_MS, ALL))

    assert hold_ups == [5, 10, 20, 40, 60, 60]


def test_a_time_down_is_forgotten_when_the_window_is_over() -> None:
    inside = after(returning(), (RULES.flap_window_ms - SECOND_MS, FIVE), (0, ALL))
    outside = after(returning(), (RULES.flap_window_ms, FIVE), (0, ALL))

    assert inside.hold_up_ms == 2 * RULES.hold_up_ms
    assert outside.hold_up_ms == RULES.hold_up_ms


def test_what_is_remembered_of_a_flapping_zone_is_bounded() -> None:
    seen = down()
    for _ in range(1_000):
        seen = after(seen, (0, ALL), (0, FIVE))

    assert len(seen.down_ages_ms) == observation.DOWNS_KEPT
    assert after(seen, (0, ALL)).hold_up_ms == RULES.hold_up_max_ms


# ── the numbers ──


@pytest.mark.parametrize("tenths", range(1, 10))
def test_marks_are_decimal_numbers_not_their_binary_neighbours(tenths: int) -> None:
    for scale in range(1, 400):
        at = Count(total=10 * scale, available=tenths * scale)
        under = Count(total=10 * scale, available=tenths * scale - 1)
        mark = tenths / 10
        assert at.at_or_over(mark)
        assert at.at_or_under(mark)
        assert under.at_or_under(mark)
        assert not under.at_or_over(mark)


def bookies(kinds: Iterable[str]) -> list[Bookie]:
    """Name bookies by what they are: here, gone, draining."""
    return [
        Bookie(
            id=BookieId(f"a-{number}"),
            location=None if kind == "nowhere" else UNIT,
            registration=Registration.ABSENT if kind == "gone" else Registration.READ_ONLY,
            draining=kind == "draining",
        )
        for number, kind in enumerate(kinds)
    ]


def test_each_bookie_counts_once_and_read_only_ones_are_available() -> None:
    all_of_them = bookies(["here", "here", "gone", "gone", "draining", "nowhere"])
    counts = measure(all_of_them, written_off={BookieId("a-2")}, in_maintenance=set())

    assert counts.zones == {ZONE: Count(total=3, available=2, draining=1, written_off=1)}
    assert counts.everywhere == Count(total=4, available=3, draining=1, written_off=1)


def test_a_written_off_bookie_that_registers_counts_again() -> None:
    counts = measure(bookies(["here"]), written_off={BookieId("a-0")}, in_maintenance=set())

    assert counts.zones[ZONE] == Count(total=1, available=1)


def test_a_unit_in_maintenance_is_not_counted_whoever_of_it_is_there() -> None:
    counts = measure(bookies(["here", "gone"]), written_off=set(), in_maintenance={UNIT})

    assert counts.zones[ZONE] == Count(in_maintenance=2)
    assert str(counts.zones[ZONE]) == "no bookie (not counted: 2 in maintenance)"


# ── flapping ──


def flapped(
    times: int, *, away_ms: int = 50 * SECOND_MS, back_ms: int = 10 * SECOND_MS
) -> ZoneObservation:
    """Give a zone that went away and came back so often; it is back."""
    seen = up()
    for _ in range(times):
        seen = after(seen, (0, FIVE), (away_ms, ALL), (back_ms, ALL))
    return seen


def test_flapping_is_down_once_it_was_suspect_for_three_debounces_in_sum() -> None:
    seen = flapped(3)
    assert (seen.state, seen.suspect_ms) == (Observation.UP, 150 * SECOND_MS)

    failing = after(seen, (0, FIVE), (29 * SECOND_MS, FIVE))
    assert failing.state is Observation.SUSPECT
    down = after(failing, (SECOND_MS, FIVE))
    assert down.state is Observation.DOWN
    assert down.reason.endswith("failing again and again, for 3m within 1h")
    assert down.down_ages_ms == (0,)
    assert after(down, (SECOND_MS, ALL)).state is Observation.RETURNING


def test_flapping_is_no_loss_while_the_zone_is_there() -> None:
    seen = flapped(4, away_ms=45 * SECOND_MS)

    assert (seen.state, seen.suspect_ms) == (Observation.UP, 180 * SECOND_MS)
    assert after(seen, (SECOND_MS, FIVE)).state is Observation.DOWN


def test_flapping_is_forgotten_beyond_the_flap_window() -> None:
    seen = after(flapped(3), (RULES.flap_window_ms - 150 * SECOND_MS, ALL))
    assert seen.suspect_ms == 120 * SECOND_MS

    assert after(seen, (10 * SECOND_MS, ALL)).suspect_ms == 110 * SECOND_MS
    assert after(seen, (HOUR_MS, ALL)).suspects == ()


def test_flapping_counts_no_time_in_unknown() -> None:
    seen = after(unknown(), (10 * MINUTE_MS, FIVE), (10 * MINUTE_MS, FIVE), in_grace=True)

    assert seen.state is Observation.UNKNOWN
    assert seen.suspects == ()


def test_flapping_is_kept_in_so_many_stays_at_most() -> None:
    seen = flapped(observation.STAYS_KEPT + 20, away_ms=1_000, back_ms=1_000)

    assert len(seen.suspects) == observation.STAYS_KEPT
    assert seen.suspect_ms == (observation.STAYS_KEPT + 20) * 1_000
    assert all(stay.fault() is None for stay in seen.suspects)
    ages = [stay.age_ms for stay in seen.suspects]
    assert ages == sorted(ages)


def test_every_reason_is_of_now() -> None:
    suspect = after(up(), (0, FIVE), (20 * SECOND_MS, Count(total=10)))
    assert suspect.reason == (
        "0 of 10 bookies available, at or under the low mark 0.5, 10 lost, for 20s"
    )
    lost = after(down(), (10 * MINUTE_MS, FIVE))
    assert lost.reason == "5 of 10 bookies available, down for 10m"
    back = after(returning(), (MINUTE_MS, NINE))
    assert back.reason == "9 of 10 bookies available, back for 1m; held up for 5m"
    fewer = after(up(), (HOUR_MS, NINE))
    assert fewer.reason == "9 of 10 bookies available, at or over the high mark 0.9"
