"""S126. A zone that is too small to be seen failing is warned of, for ever or for now."""

import pytest

from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.policy import gating
from zonekeeper.placement.policy.legality import Code
from zonekeeper.placement.policy.rules import ZoneWatchRules
from zonekeeper.placement.zones import observation
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
