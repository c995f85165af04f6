"""Which upgrade domain a bookie is in, and in which order the units are worked on."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonekeeper.placement.base import upgrade_domains
from zonekeeper.placement.base.ids import BookieId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.upgrade_domains import RollStep, RoundRobin

A, B = ZoneName("a"), ZoneName("b")


def unit(zone: str, number: int) -> Location:
    return Location(ZoneName(zone), UpgradeDomain(f"ud-{number}"))


def ids(*names: str) -> tuple[BookieId, ...]:
    return tuple(BookieId(name) for name in names)


# ── the ordinal ──


@pytest.mark.parametrize(
    ("pod_name", "ordinal"),
    [("bk-a-0", 0), ("bk-a-12", 12), ("my-cluster-eu-west-1a-7", 7), ("bk-1-3", 3)],
)
def test_the_ordinal_is_the_number_at_the_end_of_the_pod_name(pod_name: str, ordinal: int) -> None:
    assert upgrade_domains.ordinal_of(pod_name) == ordinal


@pytest.mark.parametrize(
    "pod_name",
    ["", "0", "bk-a", "bk-a-", "bk-a-x", "bk-a3", "bk-a-03", "bk-a--", "bk-a-3 ", "bk-a-3\n",
     "bk-a-٣", "bk-a-1.5", "bk-a-3.svc", "bk-a-+3"],
)  # fmt: skip
def test_a_name_without_an_ordinal_is_an_error_and_not_nought(pod_name: str) -> None:
    with pytest.raises(ValueError, match="must end in '-' and the pod's ordinal"):
        upgrade_domains.ordinal_of(pod_name)


# ── the domain ──


def test_bookies_go_round_the_domains() -> None:
    formula = RoundRobin(upgrade_domains=3)
    found = [upgrade_domains.of_ordinal(ordinal, formula) for ordinal in range(8)]

    assert found == [f"ud-{number}" for number in (0, 1, 2, 0, 1, 2, 0, 1)]


@given(st.integers(1, 12), st.integers(0, 500))
def test_round_robin_sizes_differ_by_one_at_most_and_growing_moves_nobody(
    domains: int, bookies: int
) -> None:
    formula = RoundRobin(upgrade_domains=domains)
    found = [upgrade_domains.of_ordinal(ordinal, formula) for ordinal in range(bookies)]
    sizes = [found.count(UpgradeDomain(f"ud-{number}")) for number in range(domains)]

    assert max(sizes) - min(sizes) <= 1
    assert sum(sizes) == bookies


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: RoundRobin(upgrade_domains=0),
        lambda: upgrade_domains.of_ordinal(-1, RoundRobin(upgrade_domains=3)),
    ],
)
def test_numbers_that_cannot_be_are_refused(wrong: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match="must be at least"):
        wrong()


# ── the order of a roll ──


def test_a_roll_goes_zone_by_zone_and_domain_by_domain_with_a_canary_first() -> None:
    bookies = [
        (BookieId(f"bk-{zone}-{ordinal}"), unit(zone, ordinal % 2))
        for zone in "ab"
        for ordinal in range(4)
    ]
    random.Random(5).shuffle(bookies)

    found = upgrade_domains.roll([B, A], bookies)

    assert found == upgrade_domains.Roll(
        steps=(
            RollStep(unit=unit("b", 0), bookies=ids("bk-b-0"), canary=True),
            RollStep(unit=unit("b", 0), bookies=ids("bk-b-2")),
            RollStep(unit=unit("b", 1), bookies=ids("bk-b-1", "bk-b-3")),
            RollStep(unit=unit("a", 0), bookies=ids("bk-a-0", "bk-a-2")),
            RollStep(unit=unit("a", 1), bookies=ids("bk-a-1", "bk-a-3")),
        ),
        unplaced=(),
    )


def test_numbers_in_names_go_by_size() -> None:
    bookies = [(BookieId(f"bk-a-{n}"), unit("a", n)) for n in (10, 2, 1)]

    steps = upgrade_domains.roll([A], bookies).steps

    assert [step.unit.upgrade_domain for step in steps] == ["ud-1", "ud-2", "ud-10"]
    assert [step.canary for step in steps] == [True, False, False]


def test_bookies_in_no_unit_are_named_and_not_rolled() -> None:
    bookies = [
        (BookieId("lost"), None),
        (BookieId("foreign"), unit("elsewhere", 0)),
        (BookieId("bk-a-0"), unit("a", 0)),
    ]

    found = upgrade_domains.roll([A], bookies)

    assert found.unplaced == ids("foreign", "lost")
    assert found.steps == (RollStep(unit=unit("a", 0), bookies=ids("bk-a-0"), canary=True),)


def test_nothing_to_roll_is_no_step() -> None:
    assert upgrade_domains.roll([A], []) == upgrade_domains.Roll(steps=(), unplaced=())


LOCATIONS = st.none() | st.builds(unit, st.sampled_from("abc"), st.integers(0, 11))


@given(st.lists(LOCATIONS, max_size=40))
def test_a_roll_takes_everyone_once_and_never_two_units_at_once(
    locations: list[Location | None],
) -> None:
    where = {BookieId(f"bk-{n}"): location for n, location in enumerate(locations)}

    found = upgrade_domains.roll([A, B], where.items())

    rolled = [bookie for step in found.steps for bookie in step.bookies]
    assert sorted([*rolled, *found.unplaced]) == sorted(where)
    assert all(where[bookie] == step.unit for step in found.steps for bookie in step.bookies)
    zones = [step.unit.zone for step in found.steps]
    assert zones == sorted(zones)  # zone-major: a zone is finished before the next begins
    assert [step.canary for step in found.steps] == [n == 0 for n in range(len(found.steps))]
