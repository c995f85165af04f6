"""S126. A zone that is too small to be seen failing is warned of, for ever or for now."""

import pytest

from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.policy import gating
from zonekeeper.placement.policy.legality import Code
from zonekeeper.placement.policy.rules import ZoneWatchRules
from zonekeeper.placement.zones import observation
from zonekeeper.placement.zones.counted_time import Moment
from zonekeeper.placement.zones.zone_counts import Count

A, B, C = (ZoneName(name) for name in "abc")
RULES = ZoneWatchRules()


def codes(
    sizes: dict[ZoneName, int], counted: dict[ZoneName, int] | None = None, min_lost: int = 2
) -> list[str]:
    rules = ZoneWatchRules(min_lost=min_lost)
    return [
        f"{one.code}: {one.reason.split(': ')[2].split(',')[0]}"
        for one in gating.judge(rules, sizes, counted)
    ]


def test_a_zone_of_one_bookie_is_never_gated_by_default() -> None:
    (found,) = gating.judge(RULES, {A: 3, B: 2, C: 1})

    assert found.code is Code.ZONE_NEVER_GATED
    assert found.reason == (
        "zoneWatch.minLost: 2: zone c has 1 bookie, so its loss is never held, whatever is lost of "
        "it; lower minLost to 1, or give it 2 bookies or more"
    )
    assert gating.never_gated(RULES, {A: 3, B: 2, C: 1}) == (C,)


def test_a_mark_above_every_size_is_warned_of_for_every_zone() -> None:
    assert codes({A: 3, B: 4}, min_lost=4) == ["zone-never-gated: zone a has 3 bookies"]
    assert len(codes({A: 3, B: 4}, min_lost=5)) == 2
    assert codes({C: 1}, min_lost=1) == []


def test_a_zone_of_which_too_few_are_counted_now_is_warned_of() -> None:
    assert codes({A: 10, B: 10}, {A: 1, B: 2}) == [
        "zone-not-gated-now: only 1 of the 10 bookies of zone a are counted now (the others drain"
    ]
    assert codes({A: 10}, {}) == []


@pytest.mark.parametrize(("window_s", "warned"), [(179, True), (180, True), (181, False)])
def test_a_flap_window_that_can_never_see_flapping_is_warned_of(
    window_s: int, warned: bool
) -> None:
    """S123. A minute of ``suspectFor`` wants three in sum, which a window of three never has."""
    rules = ZoneWatchRules(suspect_for_ms=60_000, flap_window_ms=window_s * 1_000)
    found = gating.judge(rules, {A: 3})
    assert [one.code for one in found] == [Code.FLAPPING_NOT_SEEN] * warned
    assert all(f"flapWindow: {'3m' if window_s == 180 else '179s'}: " in f.reason for f in found)
    assert all("set flapWindow above 3m" in one.reason for one in found)


@pytest.mark.parametrize("window_s", [179, 180, 200, 3_600])
def test_the_flap_window_is_warned_of_exactly_where_flapping_is_never_seen(window_s: int) -> None:
    """59 s away, 1 s back, for as long as it takes: told by the observation itself."""
    rules = ZoneWatchRules(suspect_for_ms=60_000, flap_window_ms=window_s * 1_000)
    seen = observation.first(Moment(step_ms=0, in_grace=False, wall_ms=0))
    went_down = False
    for second in range(2 * window_s):
        moment = Moment(step_ms=1_000, in_grace=False, wall_ms=second * 1_000)
        count = Count(total=3, available=3 if second % 60 == 0 else 0)
        seen = observation.observe(seen, count, rules, moment)
        went_down = went_down or seen.state is observation.Observation.DOWN
    warned = any(one.code is Code.FLAPPING_NOT_SEEN for one in gating.judge(rules, {A: 3}))
    assert went_down is not warned


def test_no_debounce_needs_no_flap_window() -> None:
    rules = ZoneWatchRules(suspect_for_ms=0, flap_window_ms=0)
    assert gating.judge(rules, {A: 3}) == ()


def test_a_zone_without_bookies_has_nothing_to_hold() -> None:
    assert codes({A: 0}) == []
    assert gating.never_gated(RULES, {A: 0}) == ()


@pytest.mark.parametrize("size", range(1, 6))
@pytest.mark.parametrize("min_lost", range(1, 6))
def test_the_warning_is_there_exactly_where_a_whole_zone_gone_is_not_failing(
    size: int, min_lost: int
) -> None:
    rules = ZoneWatchRules(min_lost=min_lost)
    seen_failing = observation.failing(Count(total=size), rules)

    assert bool(gating.judge(rules, {A: size})) is not seen_failing
