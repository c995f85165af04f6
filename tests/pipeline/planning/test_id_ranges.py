"""Ids cut into ranges, and ranges dealt to tasks: each id once, and none left out."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from zonekeeper.metadata.formats.ledger_paths import LEDGER_ID_MAX
from zonekeeper.pipeline.planning import id_ranges
from zonekeeper.pipeline.planning.id_ranges import IdRange, RangeCutter
from zonekeeper.placement.base.ids import LedgerId

EVERY = IdRange(LedgerId(0), LedgerId(LEDGER_ID_MAX))


def cut(ids: list[int], per_range: int, ranges_max: int, wanted: IdRange = EVERY) -> list[IdRange]:
    cutter = RangeCutter(wanted, per_range, ranges_max)
    for one in ids:
        cutter.add(LedgerId(one))
    return cutter.ranges()


@given(
    st.sets(st.integers(0, 10_000) | st.integers(0, LEDGER_ID_MAX), max_size=200).map(sorted),
    st.integers(1, 20),
    st.integers(1, 9),
    st.integers(1, 7),
)
def test_each_id_is_in_one_range_of_one_task_also_one_that_is_not_there_yet(
    ids: list[int], per_range: int, ranges_max: int, hands: int
) -> None:
    ranges = cut(ids, per_range, ranges_max)

    assert ranges[0].first == 0
    assert ranges[-1].last == LEDGER_ID_MAX
    for before, after in pairwise(ranges):
        assert after.first == before.last + 1, "no id between two ranges, and none in both"
    dealt = id_ranges.deal(ranges, hands)
    assert sorted(one for hand in dealt for one in hand) == ranges
    assert len(dealt) == min(hands, len(ranges)), "no task without a range"


@given(st.integers(0, 500), st.integers(1, 20), st.integers(1, 9))
def test_ranges_have_alike_many_ids_and_are_never_more_than_the_limit(
    count: int, per_range: int, ranges_max: int
) -> None:
    ranges = cut(list(range(count)), per_range, ranges_max)

    assert len(ranges) <= ranges_max
    sizes = [min(one.last, count - 1) - one.first + 1 for one in ranges]
    assert len(set(sizes[:-1])) <= 1, "all but the last have the same number"
    assert sizes[-1] <= max(sizes[0], per_range)
    if count > per_range and ranges_max > 2:
        assert len(ranges) > 1


def test_only_what_is_wanted_is_covered() -> None:
    wanted = IdRange(LedgerId(7), LedgerId(20))
    found = [tuple(one) for one in cut([7, 9, 12, 20], 2, 10, wanted)]
    assert found == [(7, 11), (12, 20)]
    assert cut([], 2, 10, wanted) == [wanted]


def test_neighbours_go_to_different_tasks() -> None:
    ranges = cut(list(range(10)), 2, 10)
    assert id_ranges.deal(ranges, 2) == [tuple(ranges[::2]), tuple(ranges[1::2])]
