"""What is avoided, what is given up for a legal ensemble, and what is refused in words."""

import random
from dataclasses import replace

import pytest

from tests.placement import clusters
from tests.placement.clusters import ids
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.topology import Bookie, Topology
from zonekeeper.placement.ensembles import selector
from zonekeeper.placement.ensembles.adherence import Level
from zonekeeper.placement.ensembles.candidates import Avoid
from zonekeeper.placement.ensembles.failures import Constraint, IllegalPlacement, NotEnoughBookies
from zonekeeper.placement.ensembles.selector import Concession

SEEDS = range(50)
WIDE = clusters.even("abc", domains=3, each=2)
DOWN_C = Avoid(zones=frozenset([ZoneName("c")]))


def chosen(
    topology: Topology, shape: tuple[int, int] = (3, 3), avoid: Avoid | None = None
) -> list[selector.Choice]:
    """Choose a new ensemble under each of some seeds."""
    asked = clusters.request(topology, shape, avoid=avoid)
    return [selector.choose(asked, random.Random(seed)) for seed in SEEDS]


def quarantine(topology: Topology, prefix: str) -> Avoid:
    return Avoid(quarantined=frozenset(b.id for b in topology if b.id.startswith(prefix)))


# ── who is a candidate ──


def test_bookies_that_take_no_ensembles_are_never_chosen() -> None:
    for choice in chosen(clusters.with_noise(clusters.even("abc", 2, 1)), (6, 3)):
        assert all(member[1:2] == "-" for member in choice.ensemble)


def test_excluded_bookies_are_never_chosen() -> None:
    excluded = frozenset(ids("a-1-0", "a-1-1", "a-2-0", "b-3-1"))
    for choice in chosen(WIDE, (6, 3), Avoid(bookies=excluded)):
        assert not excluded & set(choice.ensemble)
        assert choice.judgement.level is Level.STRICT


def test_a_zone_that_the_policy_does_not_name_gets_nothing_under_strict_placement() -> None:
    topology = clusters.cluster({"a": {"1": 2, "2": 2}, "b": {"1": 2}, "typo": {"1": 5}})
    for choice in chosen(topology):
        assert "typo" not in clusters.zones_of(topology, choice.ensemble)
        assert choice.judgement.level is Level.SOFT


# ── quarantine ──


def test_quarantined_bookies_are_passed_over_even_if_that_costs_a_zone() -> None:
    for choice in chosen(WIDE, avoid=quarantine(WIDE, "c-")):
        assert "c" not in clusters.zones_of(WIDE, choice.ensemble)
        assert choice.judgement.level is Level.SOFT
        assert not choice.concessions


def test_quarantined_bookies_serve_where_nothing_legal_exists_without_them() -> None:
    topology = clusters.even("ab", domains=2, each=1)
    for choice in chosen(topology, avoid=quarantine(topology, "b-")):
        assert sorted(clusters.zones_of(topology, choice.ensemble)) == ["a", "a", "b"]
        assert choice.concessions == {Concession.QUARANTINED_MEMBER}


def test_fresh_bookies_of_a_unit_go_before_its_quarantined_ones() -> None:
    topology = clusters.cluster({"a": {"1": 3, "2": 1}, "b": {"1": 1}})
    avoid = Avoid(quarantined=frozenset(ids("a-1-0", "a-1-1", "b-1-0")))
    for choice in chosen(topology, avoid=avoid):
        assert sorted(choice.ensemble) == ["a-1-2", "a-2-0", "b-1-0"]


def test_a_bookie_that_is_excluded_and_quarantined_is_excluded() -> None:
    topology = clusters.even("abc", domains=1, each=1)
    both = Avoid(bookies=frozenset(ids("c-1-0")), quarantined=frozenset(ids("c-1-0")))

    with pytest.raises(NotEnoughBookies):
        selector.choose(clusters.request(topology, (3, 3), avoid=both), random.Random(0))


# ── zones that are down ──


def test_a_zone_that_is_down_gets_nothing_while_the_others_make_a_legal_ensemble() -> None:
    for shape in ((3, 3), (6, 3), (6, 6)):
        for choice in chosen(WIDE, shape, DOWN_C):
            assert "c" not in clusters.zones_of(WIDE, choice.ensemble)
            assert choice.judgement.level is Level.SOFT
            assert not choice.concessions


@pytest.mark.parametrize(("shape", "in_c"), [((3, 3), 1), ((4, 4), 1), ((6, 3), 2), ((6, 6), 1)])
def test_a_zone_that_is_down_gets_as_little_as_legality_needs(
    shape: tuple[int, int], in_c: int
) -> None:
    topology = clusters.even("ac", domains=3, each=2)
    for choice in chosen(topology, shape, DOWN_C):
        assert clusters.zones_of(topology, choice.ensemble).count("c") == in_c
        assert choice.judgement.level is Level.SOFT
        assert choice.concessions == {Concession.AVOIDED_ZONE}


def test_quarantine_is_given_up_before_a_zone_that_is_down_is_used() -> None:
    avoid = replace(quarantine(WIDE, "b-"), zones=DOWN_C.zones)
    for choice in chosen(WIDE, avoid=avoid):
        assert sorted(clusters.zones_of(WIDE, choice.ensemble)) == ["a", "a", "b"]
        assert choice.concessions == {Concession.QUARANTINED_MEMBER}


def test_members_that_stay_in_a_zone_that_is_down_cost_nothing() -> None:
    before = ids("a-1-0", "b-1-0", "c-1-0")
    asked = clusters.request(WIDE, (3, 3), avoid=DOWN_C)
    for seed in SEEDS:
        choice = selector.replace(asked, before, [0], random.Random(seed))
        assert choice.judgement.level is Level.STRICT
        assert not choice.concessions


# ── without strict placement ──


@pytest.mark.parametrize("shape", [(5, 3), (3, 2), (4, 3), (2, 2)], ids=str)
def test_what_strict_placement_refuses_can_be_built_and_is_spread_as_well_as_can_be(
    shape: tuple[int, int],
) -> None:
    relaxed = clusters.request(WIDE, shape, clusters.rules(strict=False))
    strict = clusters.request(WIDE, shape, clusters.rules())

    choice = selector.choose(relaxed, random.Random(0))

    zones = clusters.zones_of(WIDE, choice.ensemble)
    for first in range(shape[0]):
        write_set = {zones[(first + step) % shape[0]] for step in range(shape[1])}
        assert len(write_set) >= 2
    assert choice.judgement.level is Level.FAIL
    assert choice.judgement.reasons
    with pytest.raises(IllegalPlacement) as refusal:
        selector.choose(strict, random.Random(0))
    assert refusal.value.refusals
    assert "for example" in str(refusal.value)
    assert not refusal.value.retryable


def test_without_strict_placement_the_rules_are_kept_where_they_can_be() -> None:
    asked = clusters.request(clusters.with_noise(WIDE), (3, 3), clusters.rules(strict=False))
    for seed in SEEDS:
        assert selector.choose(asked, random.Random(seed)).judgement.level is Level.STRICT


def test_without_strict_placement_upgrade_domains_go_before_zones() -> None:
    topology = clusters.even("ab", domains=1, each=3)
    asked = clusters.request(topology, (3, 3), clusters.rules(strict=False))
    for seed in SEEDS:
        choice = selector.choose(asked, random.Random(seed))
        assert set(clusters.zones_of(topology, choice.ensemble)) == {"a", "b"}
        assert "all in upgrade domain 1" in choice.judgement.reasons[0]


def test_without_strict_placement_unresolved_bookies_serve_last() -> None:
    topology = clusters.with_noise(clusters.even("ab", domains=1, each=1))
    asked = clusters.request(topology, (3, 3), clusters.rules(strict=False))
    members: set[BookieId] = set()
    for seed in SEEDS:
        ensemble = selector.choose(asked, random.Random(seed)).ensemble
        assert {"a-1-0", "b-1-0"} < set(ensemble)
        members.update(ensemble)
    assert members == {"a-1-0", "b-1-0", "unresolved-0", "unresolved-1"}


def test_numbers_that_contradict_themselves_are_refused_even_then() -> None:
    asked = clusters.request(WIDE, (2, 3), clusters.rules(strict=False))

    with pytest.raises(IllegalPlacement, match=r"must not exceed quorums\.ensemble"):
        selector.choose(asked, random.Random(0))


# ── why there is none ──


def shortage_of(
    topology: Topology, shape: tuple[int, int], avoid: Avoid | None = None
) -> NotEnoughBookies:
    with pytest.raises(NotEnoughBookies) as shortage:
        selector.choose(clusters.request(topology, shape, avoid=avoid), random.Random(0))
    return shortage.value


def test_too_few_bookies_are_counted() -> None:
    topology = clusters.with_noise(clusters.even("ab", domains=2, each=1))
    avoid = Avoid(bookies=frozenset(ids("a-1-0")))

    shortage = shortage_of(topology, (6, 3), avoid)

    assert shortage.constraint is Constraint.BOOKIES
    assert "6 wanted for 6/3/1, 3 can be had of 9 known" in str(shortage)
    assert "/a/2 x1, /b/1 x1, /b/2 x1" in str(shortage)
    assert shortage.retryable
    assert not shortage.maybe_applied


def test_too_few_zones_are_named() -> None:
    shortage = shortage_of(clusters.even("a", domains=3, each=3), (3, 3))

    assert shortage.constraint is Constraint.ZONES
    assert "asks for 2 zones in each write set" in str(shortage)
    assert "/a/1 x3" in str(shortage)


def test_too_few_upgrade_domains_are_named() -> None:
    shortage = shortage_of(clusters.even("ab", domains=1, each=3), (3, 3))

    assert shortage.constraint is Constraint.UPGRADE_DOMAINS
    assert "must use two upgrade domains" in str(shortage)


def test_members_that_stay_and_break_the_rules_are_named() -> None:
    asked = clusters.request(WIDE, (6, 3))
    before = ids("a-1-0", "a-1-1", "a-2-0", "b-1-0", "c-1-0", "b-2-0")

    with pytest.raises(NotEnoughBookies) as shortage:
        selector.replace(asked, before, [4], random.Random(0))

    assert shortage.value.constraint is Constraint.KEPT_MEMBERS
    assert "0: /a/1, 1: /a/1, 2: /a/2, 3: /b/1, 5: /b/2" in str(shortage.value)
    assert "strict: false" in str(shortage.value)


@pytest.mark.parametrize("stays", ["lost", "nobody"])
def test_a_member_that_stays_without_a_location_is_named(stays: str) -> None:
    topology = WIDE.updated(put=[Bookie(id=BookieId("lost"), location=None)])
    before = ids("a-1-0", "b-1-0", stays)
    asked = clusters.request(topology, (3, 3))

    with pytest.raises(NotEnoughBookies, match="2: unresolved") as shortage:
        selector.replace(asked, before, [0], random.Random(0))
    assert shortage.value.constraint is Constraint.KEPT_MEMBERS

    relaxed = replace(asked, rules=clusters.rules(strict=False))
    choice = selector.replace(relaxed, before, [0], random.Random(0))
    assert choice.ensemble[1:] == before[1:]
    assert choice.judgement.level is Level.FAIL


def test_a_search_that_ends_at_its_bound_does_not_claim_that_there_is_nothing() -> None:
    # Twelve bookies for twelve positions, but zone a can place only three of its four: hopeless,
    # and it takes long to be sure.
    topology = clusters.cluster(
        {"a": {"1": 3, "2": 1}, "b": {"1": 1}, "c": {"1": 3, "2": 2}, "d": {"1": 1, "2": 1}}
    )

    shortage = shortage_of(topology, (12, 6))

    assert shortage.constraint is Constraint.SEARCH_BOUND
    assert "one may exist" in str(shortage)
