"""Load is even within noise: among bookies that are alike, and by weight among those that are not.

Each figure comes from 10,000 seeds. A chi-square sum over n alike bookies has mean n - 1 and
standard deviation sqrt(2 (n - 1)); drawing without replacement only makes it smaller. The bound is
five deviations, and the seeds are fixed, so a test fails for a reason or not at all.
"""

import math
import random
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace

import pytest

from tests.placement import clusters
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.topology import Topology
from zonekeeper.placement.ensembles import selector
from zonekeeper.placement.ensembles.candidates import Avoid

SEEDS = 10_000


def picks(topology: Topology, shape: tuple[int, int], seeds: int = SEEDS) -> Counter[BookieId]:
    """Count how often each bookie is a member."""
    asked = clusters.request(topology, shape)
    counted: Counter[BookieId] = Counter()
    for seed in range(seeds):
        counted.update(selector.choose(asked, random.Random(seed)).ensemble)
    return counted


def assert_even(counted: Mapping[BookieId, int], bookies: Collection[BookieId]) -> None:
    expected = sum(counted[bookie] for bookie in bookies) / len(bookies)
    assert expected > 100, "too few picks to judge"
    chi_square = sum((counted[bookie] - expected) ** 2 / expected for bookie in bookies)
    freedom = len(bookies) - 1
    assert chi_square <= freedom + 5 * math.sqrt(2 * freedom)


@pytest.mark.parametrize(
    ("zones", "domains", "each", "shape"),
    [
        ("abc", 3, 2, (3, 3)),
        ("abc", 3, 2, (6, 3)),
        ("abc", 3, 2, (6, 6)),
        ("abc", 3, 2, (8, 4)),
        ("abcde", 2, 2, (3, 3)),
        ("abcd", 3, 1, (4, 4)),
        ("ab", 3, 2, (3, 3)),
        ("ab", 3, 2, (6, 3)),
    ],
)
def test_bookies_of_even_clusters_are_chosen_evenly(
    zones: str, domains: int, each: int, shape: tuple[int, int]
) -> None:
    topology = clusters.even(zones, domains, each)

    assert_even(picks(topology, shape), [bookie.id for bookie in topology])


@pytest.mark.parametrize("shape", [(3, 3), (6, 3)], ids=str)
def test_bookies_of_one_unit_are_chosen_evenly_in_any_cluster(shape: tuple[int, int]) -> None:
    topology = clusters.cluster(
        {"a": {"1": 4, "2": 1}, "b": {"1": 2, "2": 2, "3": 2}, "c": {"1": 3}, "d": {"1": 1}}
    )

    counted = picks(topology, shape)

    for location in topology.pools:
        alike = [bookie.id for bookie in topology if bookie.location == location]
        assert_even(counted, alike) if len(alike) > 1 else None


def test_replacements_are_spread_evenly() -> None:
    topology = clusters.without_zone(clusters.even("abc", 3, 2), "c")
    before = clusters.ids("a-1-0", "b-1-0", "c-1-0")
    asked = clusters.request(topology, (3, 3))
    counted = Counter(
        selector.replace(asked, before, [2], random.Random(seed)).ensemble[2]
        for seed in range(SEEDS)
    )

    assert_even(counted, [b.id for b in topology if b.id[:3] in ("a-2", "a-3", "b-2", "b-3")])
    assert len(counted) == 8


def test_within_a_zone_members_are_chosen_by_free_space_up_to_the_cap() -> None:
    free = {"a-1-0": 10, "a-1-1": 20, "a-2-0": 30, "a-3-0": 10_000}
    whole = clusters.cluster({"a": {"1": 2, "2": 1, "3": 1}, "b": {"1": 5}, "c": {"1": 5}})
    topology = Topology(replace(b, free_bytes=free.get(b.id, 20)) for b in whole)

    counted = picks(topology, (3, 3))

    # The median is 20 and the cap three times that: weights 10, 20, 30, 60.
    for bookie, weight in (("a-1-0", 10), ("a-1-1", 20), ("a-2-0", 30), ("a-3-0", 60)):
        expected = SEEDS * weight / 120
        assert abs(counted[BookieId(bookie)] - expected) < 5 * math.sqrt(expected)


def test_among_quarantined_bookies_the_weights_count_too() -> None:
    whole = clusters.cluster({"a": {"1": 2}, "b": {"1": 1}, "c": {"1": 1}})
    free = {"a-1-0": 10, "a-1-1": 30}
    topology = Topology(replace(b, free_bytes=free.get(b.id, 20)) for b in whole)
    avoid = Avoid(quarantined=frozenset(clusters.ids("a-1-0", "a-1-1")))
    asked = clusters.request(topology, (3, 3), avoid=avoid)

    counted = Counter[BookieId]()
    for seed in range(1_000):
        counted.update(selector.choose(asked, random.Random(seed)).ensemble)

    assert abs(counted[BookieId("a-1-1")] - 750) < 5 * math.sqrt(1_000 * 0.75 * 0.25)


def test_weights_never_cost_a_zone() -> None:
    whole = clusters.even("abc", 2, 2)
    topology = Topology(replace(b, free_bytes=1 if b.id[0] == "c" else 1_000) for b in whole)
    asked = clusters.request(topology, (3, 3))

    for seed in range(500):
        members = selector.choose(asked, random.Random(seed)).ensemble
        assert set(clusters.zones_of(topology, members)) == {"a", "b", "c"}
