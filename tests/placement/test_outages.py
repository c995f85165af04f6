"""What can still be built during an outage, asked of the real selector."""

import random

import pytest

from zonekeeper.placement import ensembles, failures, outages, survivability
from zonekeeper.placement.adherence import Level
from zonekeeper.placement.candidates import Request
from zonekeeper.placement.ids import BookieId, UpgradeDomain, ZoneName
from zonekeeper.placement.locations import Location
from zonekeeper.placement.outages import Rebuilding
from zonekeeper.placement.policy import PlacementRules
from zonekeeper.placement.quorums import Quorums
from zonekeeper.placement.survivability import Holds, Loss
from zonekeeper.placement.topology import Bookie, Topology

SIX_FOUR = Quorums(ensemble=6, write=6, ack=4, ack_zones=2)
THREE_TWO = Quorums(ensemble=3, write=3, ack=2, ack_zones=2)


def bookie(zone: str, ordinal: int, domains: int) -> Bookie:
    domain = UpgradeDomain(f"ud-{ordinal % domains}")
    return Bookie(id=BookieId(f"{zone}-{ordinal}"), location=Location(ZoneName(zone), domain))


def request(quorums: Quorums, each: int, *, domains: int = 3, strict: bool = True) -> Request:
    zones = (ZoneName("a"), ZoneName("b"), ZoneName("c"))
    return Request(
        topology=Topology(bookie(zone, i, domains) for zone in zones for i in range(each)),
        quorums=quorums,
        rules=PlacementRules(zones=zones, upgrade_domains=domains, strict=strict),
    )


def rebuilt(asked: Request) -> dict[Loss, Rebuilding]:
    chance = random.Random(7)
    ensemble = ensembles.choose(asked, chance).ensemble
    return {found.loss: found for found in outages.of_ensemble(asked, ensemble, chance)}


def levels(asked: Request) -> dict[Loss, tuple[Level | None, Level | None]]:
    return {loss: (one.changed.level, one.new.level) for loss, one in rebuilt(asked).items()}


def test_twelve_bookies_carry_six_four_through_a_zone_and_a_bookie() -> None:
    assert levels(request(SIX_FOUR, 4)) == {
        Loss.BOOKIE: (Level.STRICT, Level.STRICT),
        Loss.UPGRADE_DOMAIN: (Level.STRICT, Level.STRICT),
        Loss.ZONE: (Level.SOFT, Level.SOFT),
        Loss.ZONE_AND_BOOKIE: (Level.SOFT, Level.SOFT),
    }


def test_every_six_four_ensemble_over_twelve_bookies_keeps_a_copy_of_all_it_acknowledged() -> None:
    asked = request(SIX_FOUR, 4)
    for seed in range(100):
        chosen = ensembles.choose(asked, random.Random(seed)).ensemble
        places = [asked.topology.location(member) for member in chosen]
        *_, last = survivability.of_ensemble(SIX_FOUR, places)
        assert last.loss is Loss.ZONE_AND_BOOKIE
        assert (last.reads.holds, last.recovery.holds) == (Holds.YES, Holds.YES)


def test_six_bookies_are_too_few_for_six_four_once_one_is_lost() -> None:
    found = rebuilt(request(SIX_FOUR, 2))[Loss.BOOKIE]

    assert (found.changed.holds, found.new.holds) == (Holds.NO, Holds.NO)
    assert "there are too few bookies" in found.changed.why


def test_a_bookie_a_zone_leaves_nobody_to_take_over() -> None:
    assert levels(request(THREE_TWO, 1, domains=2)) == dict.fromkeys(Loss, (None, None))


def test_two_bookies_a_zone_take_over_for_a_zone_but_not_for_a_bookie_more() -> None:
    found = levels(request(THREE_TWO, 2, domains=2))

    assert found[Loss.ZONE] == (Level.SOFT, Level.SOFT)
    assert found[Loss.ZONE_AND_BOOKIE] == (Level.SOFT, Level.SOFT)


def test_without_strict_placement_anything_is_built_that_bookies_suffice_for() -> None:
    asked = request(Quorums(ensemble=3, write=3, ack=2, ack_zones=1), 2, domains=1, strict=False)

    assert levels(asked)[Loss.ZONE] == (Level.FAIL, Level.FAIL)


def test_what_is_illegal_is_refused_as_by_the_selector() -> None:
    asked = request(Quorums(ensemble=5, write=3, ack=2, ack_zones=2), 4)

    with pytest.raises(failures.IllegalPlacement):
        outages.of_ensemble(asked, [b.id for b in asked.topology][:5], random.Random(1))
