"""Which upgrade domain a bookie is in, and in which order the units are worked on."""

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonekeeper.placement import upgrade_domains
from zonekeeper.placement.ids import BookieId, UpgradeDomain, ZoneName
from zonekeeper.placement.locations import Location
from zonekeeper.placement.upgrade_domains import Blocks, Formula, Interleaved, RoundRobin, Step

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


# ── formulas ──


@pytest.mark.parametrize(
    ("formula", "domains"),
    [
        (RoundRobin(upgrade_domains=3), "0 1 2 0 1 2 0 1"),
        (RoundRobin(upgrade_domains=2, zones_in_set=3), "0 1 0 1 0 1 0 1"),
        (Blocks(upgrade_domains=3, size=3), "0 0 0 1 1 1 2 2"),
        (Interleaved(upgrade_domains=2, zones_in_set=3), "0 0 0 1 1 1 0 0"),
    ],
)
def test_each_formula_lays_out_ordinals(formula: Formula, domains: str) -> None:
    found = [upgrade_domains.of_ordinal(ordinal, formula) for ordinal in range(8)]

    assert found == [f"ud-{number}" for number in domains.split()]


@pytest.mark.parametrize(("domains", "zones"), [(3, 3), (2, 4), (6, 3), (6, 4), (4, 2)])
def test_round_robin_over_zones_that_share_a_divisor_is_refused(domains: int, zones: int) -> None:
    with pytest.raises(ValueError, match="no common divisor") as refused:
        RoundRobin(upgrade_domains=domains, zones_in_set=zones)

    assert f"only {domains // math.gcd(domains, zones)} of the" in str(refused.value)


@given(st.integers(1, 12), st.integers(1, 6))
def test_a_round_robin_that_is_not_refused_gives_every_zone_every_domain(
    domains: int, zones: int
) -> None:
    try:
        formula = RoundRobin(upgrade_domains=domains, zones_in_set=zones)
    except ValueError:
        assert zones > 1
        return
    for zone in range(zones):
        ordinals = range(zone, domains * zones, zones)
        found = {upgrade_domains.of_ordinal(ordinal, formula) for ordinal in ordinals}
        assert len(found) == domains


@given(st.integers(1, 12), st.integers(0, 500))
def test_round_robin_sizes_differ_by_one_at_most_and_growing_moves_nobody(
    domains: int, bookies: int
) -> None:
    formula = RoundRobin(upgrade_domains=domains)
    found = [upgrade_domains.of_ordinal(ordinal, formula) for ordinal in range(bookies)]
    sizes = [found.count(UpgradeDomain(f"ud-{number}")) for number in range(domains)]

    assert max(sizes) - min(sizes) <= 1
    assert sum(sizes) == bookies


def test_blocks_that_are_full_are_an_error_and_not_one_more_domain() -> None:
    formula = Blocks(upgrade_domains=3, size=4)

    assert upgrade_domains.of_ordinal(11, formula) == "ud-2"
    with pytest.raises(ValueError, match="ordinal: 12: must be below 12"):
        upgrade_domains.of_ordinal(12, formula)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: RoundRobin(upgrade_domains=0),
        lambda: RoundRobin(upgrade_domains=3, zones_in_set=0),
        lambda: Blocks(upgrade_domains=3, size=0),
        lambda: Blocks(upgrade_domains=-1, size=2),
        lambda: Interleaved(upgrade_domains=0, zones_in_set=3),
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
            Step(unit=unit("b", 0), bookies=ids("bk-b-0"), canary=True),
            Step(unit=unit("b", 0), bookies=ids("bk-b-2")),
            Step(unit=unit("b", 1), bookies=ids("bk-b-1", "bk-b-3")),
            Step(unit=unit("a", 0), bookies=ids("bk-a-0", "bk-a-2")),
            Step(unit=unit("a", 1), bookies=ids("bk-a-1", "bk-a-3")),
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
    assert found.steps == (Step(unit=unit("a", 0), bookies=ids("bk-a-0"), canary=True),)


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
