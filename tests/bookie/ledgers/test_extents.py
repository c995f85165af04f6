"""Extents against a plain dictionary: an entry is where it came first."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from zonekeeper.bookie.ledgers import extents
from zonekeeper.bookie.ledgers.extents import Extents
from zonekeeper.placement.base.ids import EntryId

_IDS = st.sets(st.integers(0, 30), min_size=1, max_size=12).map(sorted)


def filled(added: list[list[int]]) -> tuple[Extents, dict[int, int]]:
    """The extents of frames that came in this order, and a model: entry to its frame's number."""
    found, model = Extents(), dict[int, int]()
    for number, ids in enumerate(added):
        found.add([EntryId(entry) for entry in ids], number * 100, number + 1)
        for entry in ids:
            model.setdefault(entry, number)
    return found, model


@given(st.lists(_IDS, max_size=8), st.integers(0, 30), st.integers(0, 30))
def test_every_entry_is_found_in_the_frame_in_which_it_came_first(
    added: list[list[int]], one: int, other: int
) -> None:
    first, last = sorted((one, other))
    found, model = filled(added)

    got = {
        entry: extent.offset // 100
        for extent in found.between(first, last)
        for entry in range(extent.first, extent.last + 1)
    }

    assert got == {entry: n for entry, n in model.items() if first <= entry <= last}
    assert found.last == max(model, default=None)


@given(st.lists(_IDS, max_size=8))
def test_extents_are_disjoint_and_ascend(added: list[list[int]]) -> None:
    found, _ = filled(added)

    all_of_them = list(found.between(0, 1 << 62))

    assert all(one.last < other.first for one, other in itertools.pairwise(all_of_them))
    assert all(extent.size == extent.offset // 100 + 1 for extent in all_of_them)


@given(st.lists(_IDS, max_size=8))
def test_runs_join_across_frames(added: list[list[int]]) -> None:
    found, model = filled(added)

    joined = list(extents.joined(found.between(0, 1 << 62)))

    ids = {entry for first, last in joined for entry in range(first, last + 1)}
    assert ids == set(model)
    assert all(one[1] + 1 < other[0] for one, other in itertools.pairwise(joined))


@given(st.lists(_IDS, max_size=8), st.integers(0, 30), st.integers(0, 12), st.integers(1, 5))
def test_the_first_missing_entry_is_found_whatever_the_step(
    added: list[list[int]], start: int, length: int, step: int
) -> None:
    found, model = filled(added)
    wanted = range(start, start + length, step)

    missing = extents.first_missing(found.between(start, start + length), wanted)

    assert missing == next((entry for entry in wanted if entry not in model), None)


def test_the_highest_entry_id_there_is_has_its_place() -> None:
    highest = EntryId((1 << 63) - 1)
    found = Extents()

    found.add(range(highest, highest + 1), 20, 70)  # type: ignore[arg-type] # ranges are of int

    assert found.last == highest
    assert [extent.first for extent in found.between(highest, highest)] == [highest]


def test_ledgers_without_extents_in_memory_share_nothing_that_changes() -> None:
    one, other = Extents(), Extents()
    one.add(range(3), 0, 10)  # type: ignore[arg-type]  # plain ids

    assert other.last is None
    assert not list(Extents().between(0, 9))
    assert one.last == 2
