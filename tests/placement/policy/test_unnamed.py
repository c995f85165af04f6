"""Zones that the policy does not name: found, counted, told, and never chosen."""

import random

import pytest

from tests.placement import clusters
from zonekeeper.placement.base.ids import BookieId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.topology import Bookie, Registration
from zonekeeper.placement.ensembles import selector
from zonekeeper.placement.ensembles.failures import NotEnoughBookies
from zonekeeper.placement.policy import unnamed
from zonekeeper.placement.policy.rules import PlacementRules
from zonekeeper.placement.policy.unnamed import NeverNamedError

RULES = PlacementRules(zones=(ZoneName("a"), ZoneName("b")), min_zones=1, desired_zones=2)
UNRESOLVED = Bookie(id=BookieId("nowhere"), location=None)


def test_bookies_of_zones_that_are_not_named_are_counted_and_others_are_not() -> None:
    topology = clusters.even("abyx", 2, 2).updated(put=[UNRESOLVED])

    assert unnamed.zones(topology, RULES) == {"x": 4, "y": 4}
    assert unnamed.zones(clusters.even("ab", 2, 2), RULES) == {}


def test_a_warning_names_the_zone_the_number_and_what_to_do() -> None:
    both = clusters.cluster({"x": {"1": 1}, "y": {"1": 2}})

    assert unnamed.warnings(both, RULES) == {
        "x": "1 bookie stands where none is used: the policy does not name zone x, only a, b: no "
        "ledger is placed there; add x to placement.zones, or empty these bookies and remove them",
        "y": "2 bookies stand where none is used: the policy does not name zone y, only a, b: no "
        "ledger is placed there; add y to placement.zones, or empty these bookies and remove them",
    }


@pytest.mark.parametrize("zone", ["A", "a_b", "a.b", "-a", "a" * 64, "zone a"])
def test_a_name_that_no_policy_can_hold_is_refused(zone: str) -> None:
    with pytest.raises(NeverNamedError, match=r"--zone: '.*' can be a zone of no policy"):
        unnamed.refuse_never_named(ZoneName(zone), "--zone")


@pytest.mark.parametrize("zone", ["a", "eu-west-1a", "0", "a" * 63])
def test_a_name_that_some_policy_can_hold_is_not(zone: str) -> None:
    unnamed.refuse_never_named(ZoneName(zone), "--zone")


def test_the_placement_error_names_the_zones_that_would_do() -> None:
    absent = Bookie(
        id=BookieId("y-0"),
        location=Location(ZoneName("y"), UpgradeDomain("1")),
        registration=Registration.ABSENT,
    )
    topology = clusters.cluster({"a": {"1": 2}, "x": {"1": 1, "2": 1}}).updated(put=[absent])
    asked = clusters.request(topology, (2, 2), RULES)

    with pytest.raises(NotEnoughBookies) as raised:
        selector.choose(asked, random.Random(1))

    assert "; in zones that the policy does not name: x x2;" in str(raised.value)
    rules = PlacementRules(zones=(ZoneName("a"), ZoneName("x")), min_zones=1, desired_zones=2)
    named = clusters.request(topology, (2, 2), rules)
    chosen = selector.choose(named, random.Random(1)).ensemble
    assert sorted(clusters.zones_of(topology, chosen)) == ["a", "x"]


def test_an_error_without_such_zones_says_nothing_of_them() -> None:
    asked = clusters.request(clusters.cluster({"a": {"1": 2}}), (2, 2), RULES)
    with pytest.raises(NotEnoughBookies) as raised:
        selector.choose(asked, random.Random(1))
    assert "does not name" not in str(raised.value)
