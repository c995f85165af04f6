"""A pool draws by weight, exactly, whatever floor and cap hold."""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator

import pytest

from tests.placement import clusters
from zonekeeper.placement.base.ids import BookieId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.pools import DRAWS_MAX, Pool, Weighting, draw_from
from zonekeeper.placement.base.topology import Bookie, Topology

HERE = Location(ZoneName("a"), UpgradeDomain("1"))


class Sweep:
    """Chance that runs through [0, 1) in equal steps, to see each share of the weight."""

    def __init__(self, steps: int) -> None:
        self._numbers: Iterator[float] = itertools.cycle(
            (2 * step + 1) / (2 * steps) for step in range(steps)
        )

    def random(self) -> float:
        return next(self._numbers)


def pool(free_bytes: Iterable[int]) -> Pool:
    return Pool((free, BookieId(f"{number}")) for number, free in enumerate(free_bytes))


def shares(drawn_from: Pool, weighting: Weighting) -> list[int]:
    """Give how often each bookie comes up when each unit of weight is drawn once."""
    total = drawn_from.total(weighting)
    chance = Sweep(total)
    drawn = Counter(drawn_from.draw(chance, weighting, ())[0] for _ in range(total))
    return [drawn[BookieId(f"{number}")] for number in range(len(drawn_from))]


@pytest.mark.parametrize(
    ("free_bytes", "floor", "cap", "expected"),
    [
        ([5, 2, 3], 1, None, [5, 2, 3]),
        ([0, 4, 0, 9], 4, None, [4, 4, 4, 9]),
        ([5, 2, 30], 1, 6, [5, 2, 6]),
        ([50, 20, 30], 1, 6, [6, 6, 6]),
        ([0, 20, 3], 3, 2, [2, 2, 2]),
        ([0, 0], 1, None, [1, 1]),
        ([7], 7, 7, [7]),
    ],
)
def test_a_bookie_comes_up_as_often_as_its_weight(
    free_bytes: list[int], floor: int, cap: int | None, expected: list[int]
) -> None:
    weighting = Weighting(floor=floor, cap=cap)

    assert shares(pool(free_bytes), weighting) == expected
    assert [weighting.of(free) for free in free_bytes] == expected


def test_barred_bookies_are_never_drawn_and_the_rest_keep_their_shares() -> None:
    drawn_from, weighting = pool([1, 2, 3, 4]), Weighting(floor=1, cap=None)
    barred = {BookieId("3")}

    chance = Sweep(1000)
    drawn = Counter(drawn_from.draw(chance, weighting, barred)[0] for _ in range(600))
    assert drawn == {"0": 100, "1": 200, "2": 300}


def test_when_nearly_all_are_barred_the_pool_is_looked_through() -> None:
    drawn_from = pool([1] * 100)
    barred = {BookieId(f"{number}") for number in range(1, 100)}

    drawn, looked_at = drawn_from.draw(Sweep(2), Weighting(floor=1, cap=None), barred)

    assert (drawn, looked_at) == ("0", DRAWS_MAX + 100)


def test_a_change_of_a_pool_is_a_new_pool() -> None:
    before = pool([1, 2])

    after = before.changed({BookieId("0")}, [(9, BookieId("9"))])

    assert (len(before), before.total(Weighting(floor=1, cap=None))) == (2, 3)
    assert (len(after), after.total(Weighting(floor=1, cap=None))) == (2, 11)


def test_drawing_from_a_few_goes_by_weight() -> None:
    chance = Sweep(4)

    drawn = Counter(draw_from({BookieId("x"): 1, BookieId("y"): 3}, chance) for _ in range(4))

    assert drawn == {"x": 1, "y": 3}


@pytest.mark.parametrize(
    ("free_bytes", "cap", "expected"),
    [
        ([None, 0, None], 3, Weighting(floor=1, cap=None)),
        ([10, None, 30, 20], 3, Weighting(floor=10, cap=60)),
        ([10, 20], 1.5, Weighting(floor=10, cap=22)),
        ([10, 1_000], 0, Weighting(floor=10, cap=None)),
        ([1, 1, 1], 0.1, Weighting(floor=1, cap=1)),
    ],
)
def test_floor_is_the_least_known_and_cap_a_multiple_of_the_median(
    free_bytes: list[int | None], cap: float, expected: Weighting
) -> None:
    topology = Topology(
        Bookie(id=BookieId(f"{number}"), location=HERE, free_bytes=free)
        for number, free in enumerate(free_bytes)
    )

    assert topology.weighting(cap) == expected


def test_bookies_that_take_no_ensembles_have_no_say_in_the_median() -> None:
    topology = clusters.with_noise(
        Topology(
            [
                Bookie(id=BookieId("x"), location=HERE, free_bytes=4),
                Bookie(id=BookieId("y"), location=HERE, free_bytes=1_000, draining=True),
            ]
        )
    )

    assert topology.weighting(2) == Weighting(floor=4, cap=8)
