"""A shape gives names, places and a policy; one in which no ledger could be is refused."""

import pytest

from zonekeeper.placement import legality
from zonekeeper.shell import local_shape
from zonekeeper.shell.local_shape import BadShapeError, Shape


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
    ],
)
def test_what_one_machine_does_not_take_is_refused(shape: Shape, words: str) -> None:
    with pytest.raises(BadShapeError, match=words):
        local_shape.check(shape)
