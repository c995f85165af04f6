"""New ensembles and replacements against brute force, in all small worlds.

The worlds are all topologies of up to four zones, three upgrade domains a zone and two bookies an
upgrade domain, isomorphic ones once.
"""

import functools
import itertools
import random
from collections.abc import Sequence

import pytest

from tests.placement import clusters, oracle
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.topology import Topology
from zonekeeper.placement.ensembles import selector
from zonekeeper.placement.ensembles.adherence import Level
from zonekeeper.placement.ensembles.candidates import Avoid, EnsembleRequest
from zonekeeper.placement.ensembles.failures import Constraint, NotEnoughBookies

SHAPES = [(size, write) for size in range(1, 7) for write in range(1, size + 1)]
STRICT_SHAPES = [(size, write) for size, write in SHAPES if size % write == 0]


@functools.cache
def built(world: oracle.World) -> Topology:
    spec = {
        zone: {str(domain): size for domain, size in enumerate(sizes)}
        for zone, sizes in zip("abcd", world, strict=False)
    }
    return clusters.with_noise(clusters.cluster(spec))


def unit_of(topology: Topology, member: BookieId) -> tuple[int, int]:
    location = topology.location(member)
    assert location is not None, f"{member} is unresolved"
    return "abcd".index(location.zone), int(location.upgrade_domain)


def pattern_of(topology: Topology, members: Sequence[BookieId]) -> oracle.Pattern:
    return tuple(unit_of(topology, member) for member in members)


def choice_or_shortage(
    asked: EnsembleRequest, chance: random.Random
) -> selector.Choice | NotEnoughBookies:
    try:
        return selector.choose(asked, chance)
    except NotEnoughBookies as shortage:
        return shortage


def best(reached: dict[int, int], minimum: int, desired: int) -> tuple[Level, int] | None:
    """Give the best level that brute force reaches, with its fewest clashes."""
    for level, zones in ((Level.STRICT, desired), (Level.SOFT, minimum)):
        costs = [fewest for spread, fewest in reached.items() if spread >= zones]
        if costs:
            return level, min(costs)
    return None


def zone_rules(write: int) -> list[tuple[int, int]]:
    """List minimum and desired zones that go with a write quorum and differ in effect."""
    return [
        (minimum, desired)
        for minimum in range(min(write, 4))
        for desired in range(max(1, minimum), min(write, 4) + 1)
    ]


@pytest.mark.parametrize("shape", STRICT_SHAPES, ids=str)
def test_a_new_ensemble_is_found_if_and_only_if_one_exists_and_is_the_best(
    shape: tuple[int, int],
) -> None:
    size, write = shape
    for world in oracle.worlds():
        reached, topology = oracle.reachable(world, size, write), built(world)
        for minimum, desired in zone_rules(write):
            asked = clusters.request(topology, shape, clusters.rules(minimum, desired))
            expected = best(reached, minimum, desired)
            choice = choice_or_shortage(asked, random.Random(size))
            if isinstance(choice, NotEnoughBookies):
                assert expected is None, (world, minimum, desired)
                assert choice.constraint is not Constraint.SEARCH_BOUND
                continue
            clashes = oracle.clashes(pattern_of(topology, choice.ensemble), write)
            assert (choice.judgement.level, clashes) == expected, (world, minimum, desired)
            assert len(set(choice.ensemble)) == size
            assert not choice.concessions


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_without_strict_placement_there_is_an_ensemble_as_long_as_there_are_bookies(
    shape: tuple[int, int],
) -> None:
    size, write = shape
    relaxed = clusters.rules(strict=False)
    for world in oracle.worlds()[::3]:
        topology = built(world)
        asked = clusters.request(topology, shape, relaxed)
        writable = sum(itertools.chain(*world)) + 2  # Two are unresolved.
        if writable < size:
            with pytest.raises(NotEnoughBookies):
                selector.choose(asked, random.Random(size))
            continue
        choice = selector.choose(asked, random.Random(size))
        assert len(set(choice.ensemble)) == size
        reached = oracle.reachable(world, size, write)
        if any(spread >= min(2, write) for spread in reached):
            zones = min(write, 3)
            wanted = max(spread for spread in reached)
            found = oracle.spread(pattern_of(topology, choice.ensemble), write)
            assert found >= min(zones, wanted), world


@pytest.mark.parametrize("shape", [(3, 3), (4, 4), (4, 2), (6, 3), (6, 6)], ids=str)
def test_replacements_are_found_if_and_only_if_they_exist_and_are_the_best(
    shape: tuple[int, int],
) -> None:
    size, write = shape
    minimum = min(2, write - 1)
    chance = random.Random(size)
    placement = clusters.rules(minimum)
    for world in oracle.worlds():
        topology = built(world)
        asked = clusters.request(topology, shape, placement)
        first = choice_or_shortage(asked, chance)
        if isinstance(first, NotEnoughBookies):
            continue
        before = first.ensemble
        for count in (1, 2, 3):
            leaving = sorted(chance.sample(range(size), count))
            free = [list(zone) for zone in world]
            for zone, domain in pattern_of(topology, before):
                free[zone][domain] -= 1
            kept = [
                None if at in leaving else unit_of(topology, member)
                for at, member in enumerate(before)
            ]
            expected = best(oracle.completions(free, kept, write), minimum, min(write, 3))
            if expected is None:
                with pytest.raises(NotEnoughBookies):
                    selector.replace(asked, before, leaving, chance)
                continue
            choice = selector.replace(asked, before, leaving, chance)
            clashes = oracle.clashes(pattern_of(topology, choice.ensemble), write)
            assert (choice.judgement.level, clashes) == expected, (world, before, leaving)


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (4, 4)], ids=str)
def test_no_more_is_given_up_than_a_legal_ensemble_needs_and_the_level_is_the_best_for_it(
    shape: tuple[int, int],
) -> None:
    # One bookie of every unit is in quarantine, and zone a is down.
    size, write = shape
    minimum, desired = min(2, write - 1), min(3, write)
    for world in oracle.worlds(3, ((2, 2), (2, 1), (1, 1), (2,), (1,), ())):
        topology = built(world)
        avoid = Avoid(
            quarantined=frozenset(bookie.id for bookie in topology if bookie.id.endswith("-0")),
            zones=frozenset([ZoneName("a")]),
        )
        asked = clusters.request(topology, shape, clusters.rules(minimum), avoid)
        needed = {
            (given_up(pattern, world), -(oracle.spread(pattern, write) >= desired))
            for pattern in itertools.product(units(world), repeat=size)
            if oracle.spread(pattern, write) >= minimum and not over(pattern, world)
        }
        choice = choice_or_shortage(asked, random.Random(size))
        if isinstance(choice, NotEnoughBookies):
            assert not needed, world
            continue
        in_a = sum(zone == 0 for zone, _ in pattern_of(topology, choice.ensemble))
        quarantined = len(avoid.quarantined.intersection(choice.ensemble))
        found = (in_a, quarantined), -(choice.judgement.level is Level.STRICT)
        assert found == min(needed), world


def units(world: oracle.World) -> list[tuple[int, int]]:
    return [(zone, domain) for zone, sizes in enumerate(world) for domain in range(len(sizes))]


def over(pattern: oracle.Pattern, world: oracle.World) -> bool:
    """Does a pattern take more from a unit than it has?"""
    return any(pattern.count((zone, domain)) > world[zone][domain] for zone, domain in pattern)


def given_up(pattern: oracle.Pattern, world: oracle.World) -> tuple[int, int]:
    """Count members in zone a, and members that must be the quarantined bookie of their unit."""
    in_a = sum(zone == 0 for zone, _ in pattern)
    full = sum(
        pattern.count((zone, domain)) == world[zone][domain] for zone, domain in set(pattern)
    )
    return in_a, full


def test_the_oracle_agrees_with_trying_every_bookie_at_every_position() -> None:
    sizes = ((2, 1), (1, 1), (2,), (1,), ())
    for world in oracle.worlds(3, sizes):
        units = [
            (zone, domain)
            for zone, domains in enumerate(world)
            for domain, size in enumerate(domains)
            for _ in range(size)
        ]
        for size, write in ((3, 3), (4, 2), (4, 4)):
            tried: dict[int, int] = {}
            for pattern in itertools.permutations(units, size):
                reached = oracle.spread(pattern, write)
                if reached >= 0:
                    fewest = oracle.clashes(pattern, write)
                    tried[reached] = min(tried.get(reached, fewest), fewest)
            assert oracle.reachable(world, size, write) == tried, world
            assert oracle.completions(world, [None] * size, write) == tried, world
