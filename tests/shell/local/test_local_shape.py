"""A shape gives names, places and a policy; one in which no ledger could be is refused."""

import pytest

from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.policy import legality, rules_data
from zonekeeper.shell.local import local_shape
from zonekeeper.shell.local.local_shape import BadShapeError, Shape, Timers


def test_bookies_are_named_by_zone_and_ordinal_and_the_ordinal_gives_the_upgrade_domain() -> None:
    places = local_shape.places(Shape(zones=2, bookies_per_zone=3, upgrade_domains=2))

    assert {name: str(place) for name, place in places.items()} == {
        "bk-a-0": "/a/ud-0",
        "bk-a-1": "/a/ud-1",
        "bk-a-2": "/a/ud-0",
        "bk-b-0": "/b/ud-0",
        "bk-b-1": "/b/ud-1",
        "bk-b-2": "/b/ud-0",
    }


def test_the_standard_shape_has_the_policy_that_is_the_default() -> None:
    policy = local_shape.policy(Shape())

    assert policy.quorums.ack_zones == 2
    assert (policy.placement.min_zones, policy.placement.desired_zones) == (2, 3)
    assert not legality.judge(policy.quorums, policy.placement).warnings


def test_timers_are_scaled_down_unless_those_of_production_are_wanted() -> None:
    policy = local_shape.policy(Shape())
    assert policy.zone_watch.suspect_for_ms < 10_000
    assert policy.repair.bookie_recovery_delay_ms < 30_000

    policy = local_shape.policy(Shape(timers=Timers.PRODUCTION))
    defaults = rules_data.from_rules({"placement": {"zones": ["a", "b", "c"]}})
    assert (policy.zone_watch, policy.repair) == (defaults.zone_watch, defaults.repair)


def test_autorecovery_processes_stand_in_the_zones_by_turns_and_go_with_them() -> None:
    shape = Shape(zones=2, bookies_per_zone=2, autorecovery=3)

    assert local_shape.autorecovery(shape) == {"auto-0": "a", "auto-1": "b", "auto-2": "a"}
    assert local_shape.in_zone(shape, ZoneName("a")) == ("bk-a-0", "bk-a-1", "auto-0", "auto-2")


@pytest.mark.parametrize("zones", range(1, 6))
@pytest.mark.parametrize("bookies", range(1, 5))
def test_whatever_has_three_bookies_can_be_had(zones: int, bookies: int) -> None:
    shape = Shape(zones=zones, bookies_per_zone=bookies)
    if zones * bookies >= 3:
        local_shape.check(shape)
    else:
        with pytest.raises(BadShapeError, match="there are too few bookies"):
            local_shape.check(shape)


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        (Shape(zones=27), "--zones 27: must be from 1 to 26"),
        (Shape(zones=3, bookies_per_zone=21), "--bookies-per-zone 21: with 3 zones that is 63"),
        (Shape(bookies_per_zone=0), "--bookies-per-zone 0"),
        (Shape(autorecovery=17), "--autorecovery 17: must be from 0 to 16"),
    ],
)
def test_what_one_machine_does_not_take_is_refused(shape: Shape, words: str) -> None:
    with pytest.raises(BadShapeError, match=words):
        local_shape.check(shape)
