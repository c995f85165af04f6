"""New ensembles and replacements when zones are lost, and the traps of a greedy fill."""

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from tests.placement import clusters
from tests.placement.clusters import ids
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.topology import Registration, Topology
from zonekeeper.placement.ensembles import adherence, selector
from zonekeeper.placement.ensembles.adherence import Level
from zonekeeper.placement.ensembles.failures import Constraint, NotEnoughBookies

SEEDS = range(40)

#: Upgrade domains a zone, E/Qw: new ensemble; replacement and new ensemble once zone c is lost;
#: None where there is no legal one. Twelve bookies a zone. Striped over two upgrade domains, the
#: members that stay leave room for newcomers or not, as chance laid them out.
TABLE = [
    (1, (3, 3), Level.STRICT, None, None),
    (1, (6, 3), Level.STRICT, None, None),
    (1, (9, 3), Level.STRICT, None, None),
    (1, (4, 4), None, None, None),
    (1, (6, 6), None, None, None),
    (1, (8, 4), None, None, None),
    (2, (3, 3), Level.STRICT, Level.SOFT, Level.SOFT),
    (2, (4, 4), Level.STRICT, Level.SOFT, Level.SOFT),
    (2, (6, 6), Level.STRICT, Level.SOFT, Level.SOFT),
    (2, (6, 3), Level.STRICT, "by chance", Level.SOFT),
    (2, (9, 3), Level.STRICT, "by chance", Level.SOFT),
    (2, (8, 4), Level.STRICT, Level.SOFT, Level.SOFT),
    (3, (3, 3), Level.STRICT, Level.SOFT, Level.SOFT),
    (3, (6, 3), Level.STRICT, Level.SOFT, Level.SOFT),
    (3, (9, 3), Level.STRICT, Level.SOFT, Level.SOFT),
    (3, (4, 4), Level.STRICT, Level.SOFT, Level.SOFT),
    (3, (6, 6), Level.STRICT, Level.SOFT, Level.SOFT),
    (3, (8, 4), Level.STRICT, Level.SOFT, Level.SOFT),
    (4, (6, 3), Level.STRICT, Level.SOFT, Level.SOFT),
    (6, (9, 3), Level.STRICT, Level.SOFT, Level.SOFT),
    (12, (6, 6), Level.STRICT, Level.SOFT, Level.SOFT),
]


def level(asked: Callable[[], selector.Choice]) -> Level | None:
    """Give the level of a choice; None if there is no legal one, and the search knows it."""
    try:
        return asked().judgement.level
    except NotEnoughBookies as shortage:
        return {Constraint.UPGRADE_DOMAINS: None, Constraint.ZONES: None}[shortage.constraint]


def levels_of_new(topology: Topology, shape: tuple[int, int]) -> set[Level | None]:
    """Give the levels that new ensembles have, over some seeds."""
    asked = clusters.request(topology, shape)
    return {level(partial(selector.choose, asked, random.Random(seed))) for seed in SEEDS}


@pytest.mark.parametrize(
    ("domains", "shape", "new", "replaced", "new_in_two"),
    TABLE,
    ids=[f"U={domains} {shape[0]}/{shape[1]}" for domains, shape, *_ in TABLE],
)
def test_what_is_possible_with_so_many_upgrade_domains(
    domains: int,
    shape: tuple[int, int],
    new: Level | None,
    replaced: Level | str | None,
    new_in_two: Level | None,
) -> None:
    whole = clusters.even("abc", domains, 12 // domains)
    lost = clusters.without_zone(whole, "c")

    assert levels_of_new(whole, shape) == {new}
    assert levels_of_new(lost, shape) == {new_in_two}
    if new is None:
        return
    found: set[Level | None] = set()
    for seed in SEEDS:
        chance = random.Random(seed)
        before = selector.choose(clusters.request(whole, shape), chance).ensemble
        gone = clusters.in_zone(whole, before, "c")
        asked = clusters.request(lost, shape)
        found.add(level(partial(selector.replace, asked, before, gone, chance)))
    assert found == ({Level.SOFT, None} if replaced == "by chance" else {replaced})


@pytest.mark.parametrize("shape", [(3, 3), (6, 3), (9, 3), (4, 4), (6, 6)], ids=str)
@pytest.mark.parametrize("domains", [3, 4, 6, 12])
@pytest.mark.parametrize("zone", ["a", "b", "c"])
def test_with_three_upgrade_domains_a_lost_zone_is_always_replaced_softly(
    shape: tuple[int, int], domains: int, zone: str
) -> None:
    whole = clusters.even("abc", domains, 12 // domains)
    lost = clusters.without_zone(whole, zone)
    for seed in SEEDS:
        chance = random.Random(seed)
        before = selector.choose(clusters.request(whole, shape), chance).ensemble
        gone = clusters.in_zone(whole, before, zone)

        choice = selector.replace(clusters.request(lost, shape), before, gone, chance)

        assert choice.judgement.level is Level.SOFT
        assert not choice.concessions
        assert zone not in clusters.zones_of(lost, choice.ensemble)


@pytest.mark.parametrize(("zones", "each"), [("abc", 2), ("ab", 3)])
def test_copies_of_an_entry_are_shared_out_evenly_among_the_zones(zones: str, each: int) -> None:
    # So that a lost zone takes as few copies of an entry as can be.
    topology = clusters.even(zones, domains=3, each=4)
    for seed in SEEDS:
        choice = selector.choose(clusters.request(topology, (6, 6)), random.Random(seed))
        members = clusters.zones_of(topology, choice.ensemble)
        assert {members.count(zone) for zone in zones} == {each}


def test_requiring_as_many_zones_as_there_are_stops_at_the_first_loss() -> None:
    lost = clusters.without_zone(clusters.even("abc", 3, 4), "c")
    asked = clusters.request(lost, (4, 4), clusters.rules(minimum=3, desired=3))

    with pytest.raises(NotEnoughBookies, match="asks for 3 zones") as shortage:
        selector.choose(asked, random.Random(0))
    assert shortage.value.constraint is Constraint.ZONES


# ── members that are dead do not count as diversity of others that leave ──


def test_a_zone_and_a_unit_lost_together_are_replaced_at_once_but_not_one_by_one() -> None:
    whole = clusters.even("abc", domains=2, each=6)
    # A cookie outlives its bookie: the members of the lost unit still count where they stand.
    lost = clusters.without_zone(whole, "a").updated(
        put=[
            replace(bookie, registration=Registration.ABSENT)
            for bookie in whole
            if str(bookie.location) == "/c/1"
        ]
    )
    asked = clusters.request(lost, (6, 6))
    dead_ends = 0
    for seed in range(100):
        chance = random.Random(seed)
        before = selector.choose(clusters.request(whole, (6, 6)), chance).ensemble
        gone = [at for at, member in enumerate(before) if str(lost.location(member)) in
                ("/a/1", "/a/2", "/c/1")]  # fmt: skip

        assert selector.replace(asked, before, gone, chance).judgement.level is Level.SOFT

        one_by_one: tuple[BookieId, ...] = before
        try:
            for position in gone:
                one_by_one = selector.replace(asked, one_by_one, [position], chance).ensemble
        except NotEnoughBookies:
            dead_ends += 1
    assert dead_ends, "this world no longer shows why positions are replaced together"


def test_what_leaves_is_no_candidate_even_if_it_is_alive() -> None:
    topology = clusters.cluster({"a": {"1": 1}, "b": {"1": 1}, "c": {"1": 1}, "d": {"1": 1}})

    choice = selector.replace(
        clusters.request(topology, (3, 3)), ids("a-1-0", "b-1-0", "c-1-0"), [1], random.Random(0)
    )

    assert choice.ensemble == ids("a-1-0", "d-1-0", "c-1-0")


# ── a greedy fill is not complete ──


@pytest.mark.parametrize(
    ("spec", "shape", "expected"),
    [
        ({"a": {"1": 1}, "b": {"1": 2, "2": 1}, "c": {"1": 2}}, (6, 3), Level.SOFT),
        ({"a": {"1": 2, "2": 1}, "b": {"1": 2, "2": 1}}, (6, 3), Level.SOFT),
        ({zone: {"1": 4, "2": 4, "3": 4} for zone in "abc"}, (8, 4), Level.STRICT),
    ],
    ids=["six bookies in three zones", "six bookies in two zones", "8/4 over nine units"],
)
def test_what_greed_misses_is_found(
    spec: clusters.Spec, shape: tuple[int, int], expected: Level
) -> None:
    assert levels_of_new(clusters.cluster(spec), shape) == {expected}


@pytest.mark.parametrize(
    ("spec", "shape", "members", "expected"),
    [
        (
            {"a": {"1": 1}, "b": {"1": 2, "2": 1}, "c": {"1": 2}},
            (6, 3),
            ids("c-1-0", "b-1-0", "b-2-0", "c-1-1", "b-1-1", "a-1-0"),
            Level.SOFT,
        ),
        (
            {"a": {"1": 2, "2": 1}, "b": {"1": 2, "2": 1}},
            (6, 3),
            ids("b-2-0", "b-1-0", "a-1-0", "a-2-0", "b-1-1", "a-1-1"),
            Level.SOFT,
        ),
        (
            {zone: {"1": 4, "2": 4, "3": 4} for zone in "abc"},
            (8, 4),
            ids("a-1-0", "b-1-0", "c-1-0", "a-2-0", "a-3-0", "b-2-0", "c-2-0", "a-2-1"),
            Level.STRICT,
        ),
    ],
)
def test_the_checker_accepts_what_greed_misses(
    spec: clusters.Spec, shape: tuple[int, int], members: tuple[BookieId, ...], expected: Level
) -> None:
    judgement = adherence.judge(
        members, clusters.quorums(*shape), clusters.rules(), clusters.cluster(spec)
    )

    assert judgement.level is expected


# ── worked examples ──

PAIRS = clusters.even("abc", domains=2, each=1)


def test_six_bookies_in_three_zones_make_windows_of_three_zones() -> None:
    for seed in SEEDS:
        choice = selector.choose(clusters.request(PAIRS, (6, 3)), random.Random(seed))
        zones = clusters.zones_of(PAIRS, choice.ensemble)
        assert zones[:3] == zones[3:]
        assert set(zones) == {"a", "b", "c"}


def test_three_copies_in_the_two_zones_left_use_two_upgrade_domains_of_one() -> None:
    lost = clusters.without_zone(PAIRS, "c")
    for seed in SEEDS:
        choice = selector.choose(clusters.request(lost, (3, 3)), random.Random(seed))
        assert choice.judgement.level is Level.SOFT
        assert len({lost.location(member) for member in choice.ensemble}) == 3


def test_a_striped_replacement_needs_a_third_upgrade_domain() -> None:
    before = ids("a-1-0", "b-1-0", "c-1-0", "a-2-0", "b-2-0", "c-2-0")
    three = clusters.without_zone(clusters.even("abc", domains=3, each=4), "c")
    two = clusters.without_zone(clusters.even("abc", domains=2, each=4), "c")

    for seed in SEEDS:
        choice = selector.replace(clusters.request(three, (6, 3)), before, [2], random.Random(seed))
        location = three.location(choice.ensemble[2])
        assert location is not None
        assert (choice.judgement.level, location.upgrade_domain) == (Level.SOFT, "3")

    with pytest.raises(NotEnoughBookies, match="two upgrade domains") as shortage:
        selector.replace(clusters.request(two, (6, 3)), before, [2], random.Random(0))
    assert shortage.value.constraint is Constraint.UPGRADE_DOMAINS
