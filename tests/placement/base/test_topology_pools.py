"""A pool draws by weight, exactly, under any cap and with any weight of what is unknown."""

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
    ("free_bytes", "unknown", "cap", "expected"),
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
    free_bytes: list[int], unknown: int, cap: int | None, expected: list[int]
) -> None:
    weighting = Weighting(unknown=unknown, cap=cap)

    assert shares(pool(free_bytes), weighting) == expected
    assert [weighting.of(free) for free in free_bytes] == expected


def test_barred_bookies_are_never_drawn_and_the_rest_keep_their_shares() -> None:
    drawn_from, weighting = pool([1, 2, 3, 4]), Weighting(unknown=1, cap=None)
    barred = {BookieId("3")}

    chance = Sweep(1000)
    drawn = Counter(drawn_from.draw(chance, weighting, barred)[0] for _ in range(600))
    assert drawn == {"0": 100, "1": 200, "2": 300}


def test_when_nearly_all_are_barred_the_pool_is_looked_through() -> None:
    drawn_from = pool([1] * 100)
    barred = {BookieId(f"{number}") for number in range(1, 100)}

    drawn, looked_at = drawn_from.draw(Sweep(2), Weighting(unknown=1, cap=None), barred)

    assert (drawn, looked_at) == ("0", DRAWS_MAX + 100)


def test_a_change_of_a_pool_is_a_new_pool() -> None:
    before = pool([1, 2])

    after = before.changed({BookieId("0")}, [(9, BookieId("9"))])

    assert (len(before), before.total(Weighting(unknown=1, cap=None))) == (2, 3)
    assert (len(after), after.total(Weighting(unknown=1, cap=None))) == (2, 11)


def test_drawing_from_a_few_goes_by_weight() -> None:
    chance = Sweep(4)

    drawn = Counter(draw_from({BookieId("x"): 1, BookieId("y"): 3}, chance) for _ in range(4))

    assert drawn == {"x": 1, "y": 3}


def standing(free_bytes: Iterable[int | None], where: Location = HERE) -> list[Bookie]:
    return [
        Bookie(id=BookieId(f"{where.zone}-{number}"), location=where, free_bytes=free)
        for number, free in enumerate(free_bytes)
    ]


@pytest.mark.parametrize(
    ("free_bytes", "cap", "expected"),
    [
        ([None, None], 3, Weighting(unknown=1, cap=None)),
        ([0, 0], 3, Weighting(unknown=1, cap=3)),
        ([10, None, 30, 20], 3, Weighting(unknown=20, cap=60)),
        ([10, 20], 1.5, Weighting(unknown=15, cap=22)),
        ([10, 20, 90], 2, Weighting(unknown=23, cap=40)),
        ([10, 1_000], 0, Weighting(unknown=505, cap=None)),
        ([1, 1, 1], 0.1, Weighting(unknown=1, cap=1)),
    ],
)
def test_unknown_room_weighs_the_mean_and_the_cap_is_a_multiple_of_the_median(
    free_bytes: list[int | None], cap: float, expected: Weighting
) -> None:
    assert Topology(standing(free_bytes)).weighting(cap, (HERE.zone,)) == expected


@pytest.mark.parametrize("free_bytes", [[2, 3, 4, None], [0, 5, 1_000, None]], ids=str)
def test_a_bookie_of_unknown_room_comes_up_as_often_as_if_there_were_no_weights(
    free_bytes: list[int | None],
) -> None:
    topology = Topology(standing(free_bytes))
    weighting = topology.weighting(3, (HERE.zone,))
    drawn_from = topology.pools[HERE]
    total = drawn_from.total(weighting)
    chance = Sweep(total)

    drawn = Counter(drawn_from.draw(chance, weighting, ())[0] for _ in range(total))

    assert abs(drawn[BookieId("a-3")] - total / 4) < 1


def test_a_full_bookie_is_known_to_be_full_and_weighs_next_to_nothing() -> None:
    topology = Topology(standing([0, 500, None]))
    weighting = topology.weighting(0, (HERE.zone,))
    drawn_from = topology.pools[HERE]

    chance = Sweep(drawn_from.total(weighting))
    drawn = Counter(
        drawn_from.draw(chance, weighting, ())[0] for _ in range(drawn_from.total(weighting))
    )

    assert drawn == {"a-0": 1, "a-1": 500, "a-2": 250}


def test_bookies_that_take_no_ensembles_have_no_say_in_the_weights() -> None:
    elsewhere = Location(ZoneName("not-named"), UpgradeDomain("1"))
    topology = clusters.with_noise(
        Topology(
            [
                Bookie(id=BookieId("x"), location=HERE, free_bytes=4),
                Bookie(id=BookieId("y"), location=HERE, free_bytes=1_000, draining=True),
                *standing([1_000_000], elsewhere),
            ]
        )
    )

    assert topology.weighting(2, (HERE.zone,)) == Weighting(unknown=4, cap=8)
    both = topology.weighting(2, (HERE.zone, elsewhere.zone))
    assert both == Weighting(unknown=500_002, cap=1_000_004)
