"""Ratios are of laps of one round that count; others are marked."""

from dataclasses import replace

import pytest

from benchmarks.apache import comparing
from benchmarks.apache.cases import Cost
from benchmarks.apache.comparing import Compared
from tests.benchmarks.apache.results import GOOD, OURS, TUNED, pair


def compared(*found: object, cost: Cost = Cost.CPU) -> Compared | None:
    return comparing.compare(found, "append-1024", cost, OURS, TUNED)  # type: ignore[arg-type]  # laps


def test_a_ratio_is_of_the_costs_of_one_round() -> None:
    one = compared(*pair(1, 1.0, 2.0), *pair(2, 10.0, 40.0), *pair(3, 1.0, 3.0))
    assert one is not None
    assert (one.ratio.middle, one.ratio.least, one.ratio.most) == pytest.approx((3.0, 2.0, 4.0))
    assert (one.rounds, one.of_rounds, one.counts) == (3, 3, True)
    assert one.our_cost.middle == pytest.approx(10.0)
    assert one.apache_cost.middle == pytest.approx(30.0)


def test_above_one_we_are_better_in_every_cost() -> None:
    quick = replace(GOOD, latencies_ms={"p50_ms": 1.0}, wall_s=1.0)
    slow = replace(GOOD, side=TUNED, latencies_ms={"p50_ms": 2.0}, wall_s=2.0)
    for cost in (Cost.P50, Cost.WALL):
        one = compared(quick, slow, cost=cost)
        assert one is not None
        assert one.ratio.middle == pytest.approx(2.0)


def test_a_round_counts_only_if_both_of_its_laps_do() -> None:
    ours, apache = pair(2, 1.0, 9.0)
    one = compared(*pair(1, 1.0, 2.0), ours, replace(apache, others_cpus=1.0))
    assert one is not None
    assert one.ratio.most == pytest.approx(2.0)
    assert (one.rounds, one.of_rounds, one.counts) == (1, 2, True)


def test_where_no_round_counts_the_ratio_says_so() -> None:
    one = compared(*[replace(lap, warm=False) for lap in pair(1, 1.0, 2.0)])
    assert one is not None
    assert (one.rounds, one.of_rounds, one.counts) == (1, 1, False)


def test_a_lap_that_failed_has_no_ratio_and_is_a_round_all_the_same() -> None:
    ours, apache = pair(2, 1.0, 9.0)
    one = compared(*pair(1, 1.0, 2.0), replace(ours, failure="gone"), apache)
    assert one is not None
    assert (one.rounds, one.of_rounds) == (1, 2)
    assert compared(replace(ours, failure="gone"), apache) is None


def test_rounds_are_not_mixed() -> None:
    assert compared(pair(1, 1.0, 2.0)[0], pair(2, 1.0, 2.0)[1]) is None


def test_a_cost_that_no_lap_has_is_not_compared() -> None:
    assert compared(*pair(1, 1.0, 2.0), cost=Cost.P50) is None


def test_all_sides_are_compared_in_the_order_of_the_cases() -> None:
    other = replace(GOOD, case="rate-1000", latencies_ms={"p50_ms": 1.0})
    found = [other, replace(other, side=TUNED), *pair(1, 1.0, 2.0)]
    costs = {"append-1024": [Cost.CPU, Cost.WALL], "rate-1000": [Cost.P50], "tail": [Cost.P50]}
    every = comparing.every(found, costs, [OURS])
    assert [(one.case, one.cost) for one in every] == [
        ("append-1024", Cost.CPU),
        ("append-1024", Cost.WALL),
        ("rate-1000", Cost.P50),
    ]


def test_a_spread_is_spelled_like_those_of_the_benchmarks() -> None:
    one = comparing.spread([1.0, 3.0, 250.0])
    assert one is not None
    assert one.spelled() == "3.00 (1.00-250)"
    same = comparing.spread([2.0])
    assert same is not None
    assert same.spelled() == "2.00"
    assert comparing.spread([]) is None
