"""Only bookies of zones that the policy does not name are left, or bookies without a zone.

Small worlds, enumerated to the end: each combination of rooms, room that is unknown included, and
of rules. Placement gives an ensemble or its named error; the error names the zones that would do.
"""

import itertools
import random
from collections import Counter
from collections.abc import Sequence
from typing import Final

import pytest

from tests.placement import clusters
from zonekeeper.placement.base.ids import BookieId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.topology import Bookie, Topology
from zonekeeper.placement.base.units import GIB
from zonekeeper.placement.ensembles import selector
from zonekeeper.placement.ensembles.candidates import Avoid
from zonekeeper.placement.ensembles.failures import NotEnoughBookies
from zonekeeper.placement.policy.rules import PlacementRules

NAMED: Final = (ZoneName("a"), ZoneName("b"))
Rooms = Sequence[int | None]
ROOMS: Final[Sequence[Rooms]] = ((), (None,), (0,), (1, None), (0, 5 * GIB, None))
CAPS: Final = (0, 0.1, 3)


def standing(zone: str | None, rooms: Rooms) -> list[Bookie]:
    found = []
    for number, free in enumerate(rooms):
        domain = UpgradeDomain(f"{number}")
        where = None if zone is None else Location(ZoneName(zone), domain)
        found.append(Bookie(id=BookieId(f"{zone}-{number}"), location=where, free_bytes=free))
    return found


def rules(cap: float, *, strict: bool) -> PlacementRules:
    return PlacementRules(zones=NAMED, min_zones=1, desired_zones=1, strict=strict, weight_cap=cap)


WORLDS: Final = tuple(itertools.product(ROOMS, ROOMS, ROOMS))


@pytest.mark.parametrize("cap", CAPS)
@pytest.mark.parametrize("strict", [True, False])
def test_s130_without_a_bookie_in_a_named_zone_there_is_an_ensemble_or_a_named_error(
    cap: float, strict: bool
) -> None:
    for unnamed, nowhere, named in WORLDS:
        bookies = [*standing("x", unnamed), *standing(None, nowhere), *standing("a", named)]
        topology = Topology(bookies)
        fit = len(named) if strict else len(bookies)
        for size in (2, 3) if strict else (1, 2, 3):  # strict quorums are above the zones
            quarantined = frozenset(one.id for one in bookies[::2])
            for avoid in (Avoid(), Avoid(quarantined=quarantined, zones=frozenset(NAMED))):
                asked = clusters.request(topology, (size, size), rules(cap, strict=strict), avoid)
                chance = random.Random(size)
                if fit >= size:
                    assert len(set(selector.choose(asked, chance).ensemble)) == size
                    continue
                with pytest.raises(NotEnoughBookies) as raised:
                    selector.choose(asked, chance)
                told = f"in zones that the policy does not name: x x{len(unnamed)};"
                assert (told in str(raised.value)) is bool(unnamed)


def members(topology: Topology) -> Counter[BookieId]:
    chance, counted = random.Random(7), Counter[BookieId]()
    asked = clusters.request(topology, (1, 1), rules(3, strict=False))
    for _ in range(4_000):
        counted.update(selector.choose(asked, chance).ensemble)
    return counted


@pytest.mark.parametrize("zone", ["x", None])
def test_without_strict_the_rules_of_weight_hold_among_those_that_are_left(
    zone: str | None,
) -> None:
    """Unknown room weighs the mean, and an empty disk at most the cap, wherever they stand."""
    rooms = (GIB, GIB, GIB, 100 * GIB, None)

    counted = members(Topology(standing(zone, rooms)))

    # The cap is three times the median, and the mean is that of 1, 1, 1 and 3.
    for number, weight in enumerate((1, 1, 1, 3, 1.5)):
        assert counted[BookieId(f"{zone}-{number}")] / 4_000 == pytest.approx(
            weight / 7.5, abs=0.04
        )
