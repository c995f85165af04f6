"""Thirty uneven bookies: the share of new ensembles follows the share of room, up to the cap.

Ten bookies a zone, three upgrade domains each, of devices from 1 to 8 TiB at any fill. Among them
stand one with a new and empty disk of 64 TiB, one that is all but full, one that is full, and one
of an older version that does not say its room. A copy of each entry goes into each zone. So the
shares are those within a zone.
"""

import math
import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Final

import pytest

from tests.placement import clusters
from zonekeeper.placement.base.ids import BookieId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.topology import Bookie, Topology
from zonekeeper.placement.base.units import GIB, MIB
from zonekeeper.placement.ensembles import selector
from zonekeeper.placement.policy.rules import PlacementRules

TIB: Final = 1024 * GIB
SEEDS: Final = 6_000
ZONES: Final = (ZoneName("a"), ZoneName("b"), ZoneName("c"))
HUGE, NEARLY_FULL, FULL = BookieId("a-0"), BookieId("b-0"), BookieId("c-0")
SILENT: Final = BookieId("c-9")


def thirty() -> Topology:
    chance = random.Random(30)
    found = []
    for zone in ZONES:
        for number in range(10):
            total = chance.choice([1, 2, 4, 8]) * TIB
            free = int(total * chance.uniform(0.1, 0.9))
            name = BookieId(f"{zone}-{number}")
            where = Location(zone, UpgradeDomain(f"ud-{number % 3}"))
            found.append(Bookie(id=name, location=where, free_bytes=free, total_bytes=total))
    special = {HUGE: 64 * TIB, NEARLY_FULL: 100 * MIB, FULL: 0, SILENT: None}
    return Topology(replace(one, free_bytes=special.get(one.id, one.free_bytes)) for one in found)


def rules(cap: float) -> PlacementRules:
    return PlacementRules(zones=ZONES, weight_cap=cap)


def members(topology: Topology, cap: float, shape: tuple[int, int] = (3, 3)) -> Counter[BookieId]:
    """Count how often each bookie is a member of ``SEEDS`` ensembles."""
    asked = clusters.request(topology, shape, rules(cap))
    chance, counted = random.Random(7), Counter[BookieId]()
    for _ in range(SEEDS):
        counted.update(selector.choose(asked, chance).ensemble)
    return counted


def expected_shares(topology: Topology, cap: float) -> dict[BookieId, float]:
    """Work out each bookie's share of its zone, in floating numbers and without the pools."""
    known = sorted(one.free_bytes for one in topology if one.free_bytes is not None)
    middle = len(known) // 2
    median = (known[middle] + known[~middle]) / 2
    most = cap * median if cap else math.inf
    mean = sum(min(free, most) for free in known) / len(known)
    weights = {
        one.id: min(most, mean if one.free_bytes is None else one.free_bytes) for one in topology
    }
    zones = {
        zone: sum(weight for name, weight in weights.items() if name[0] == zone) for zone in ZONES
    }
    return {name: weight / zones[ZoneName(name[0])] for name, weight in weights.items()}


@pytest.mark.parametrize("cap", [3, 1.5, 0])
def test_the_share_of_ensembles_is_the_share_of_room_up_to_the_cap(cap: float) -> None:
    topology = thirty()

    counted, shares = members(topology, cap), expected_shares(topology, cap)

    for bookie in topology:
        share = shares[bookie.id]
        noise = 5 * math.sqrt(share * (1 - share) / SEEDS) + 1 / SEEDS
        assert abs(counted[bookie.id] / SEEDS - share) <= noise, bookie


def test_a_new_and_empty_disk_gets_three_times_the_median_and_no_more() -> None:
    topology = thirty()

    counted = members(topology, 3)

    shares = expected_shares(topology, 3)
    known = sorted(one.free_bytes for one in topology if one.free_bytes is not None)
    like_the_median = shares[HUGE] / 3
    assert counted[HUGE] / SEEDS == pytest.approx(3 * like_the_median, abs=0.03)
    assert topology.weighting(3, ZONES).cap == pytest.approx(3 * known[len(known) // 2], rel=0.1)
    assert counted[FULL] <= 1
    assert counted[NEARLY_FULL] <= 5
    # The one that does not say its room gets about what each would get without weights.
    assert counted[SILENT] / SEEDS == pytest.approx(1 / 10, abs=0.03)


def test_a_stripe_takes_more_from_those_with_more_room() -> None:
    topology = thirty()

    counted = members(topology, 3, (6, 3))

    shares = expected_shares(topology, 3)
    for zone in ZONES:
        ranked = sorted((name for name in shares if name[0] == zone), key=shares.__getitem__)
        for less, more in pairwise(ranked):
            assert counted[more] >= counted[less] - 5 * math.sqrt(counted[less] + 1)
