"""The checker says what is true of an ensemble, and why."""

import pytest

from tests.placement import clusters
from tests.placement.clusters import ids
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.topology import Bookie, Topology
from zonekeeper.placement.ensembles import adherence
from zonekeeper.placement.ensembles.adherence import Level

THREE = clusters.even("abc", domains=3, each=3)


def judge(
    members: tuple[BookieId, ...],
    shape: tuple[int, int],
    minimum: int = 2,
    desired: int = 3,
    topology: Topology = THREE,
) -> adherence.Adherence:
    return adherence.judge(
        members, clusters.quorums(*shape), clusters.rules(minimum, desired), topology
    )


def test_a_zone_for_each_copy_is_strict() -> None:
    assert judge(ids("a-1-0", "b-1-0", "c-1-0"), (3, 3)) == adherence.Adherence(level=Level.STRICT)


def test_upgrade_domains_of_different_zones_may_share_a_name() -> None:
    assert judge(ids("a-2-0", "b-2-0", "c-2-0"), (3, 3)).level is Level.STRICT


def test_fewer_zones_than_desired_is_soft_and_says_where() -> None:
    found = judge(ids("a-1-0", "b-1-0", "a-2-0"), (3, 3))

    assert found.level is Level.SOFT
    assert found.reasons == ("write set a-1-0, b-1-0, a-2-0: in 2 zones (a, b), 3 are desired",)


def test_fewer_zones_than_required_fails() -> None:
    found = judge(ids("a-1-0", "a-2-0", "a-3-0"), (3, 3))

    assert found.level is Level.FAIL
    assert found.reasons == ("write set a-1-0, a-2-0, a-3-0: in 1 zone (a), 2 are required",)


def test_two_members_of_a_zone_in_one_upgrade_domain_fail() -> None:
    found = judge(ids("a-1-0", "b-1-0", "a-1-1"), (3, 3))

    assert found.level is Level.FAIL
    assert found.reasons == (
        "write set a-1-0, b-1-0, a-1-1: 2 members in zone a, all in upgrade domain 1",
    )


def test_two_distinct_upgrade_domains_are_enough_however_many_members() -> None:
    members = ids("a-1-0", "a-1-1", "a-2-0", "b-1-0", "b-2-0", "c-1-0")

    assert judge(members, (6, 6)).level is Level.STRICT


def test_each_write_set_counts_also_those_that_wrap() -> None:
    # Positions 2, 3, 0 are a write set, and it holds zone a twice in one upgrade domain.
    members = ids("a-1-0", "b-1-0", "c-1-0", "a-1-1", "b-2-0", "c-2-0")

    assert judge(members, (6, 3)).level is Level.STRICT
    assert judge((*members[:2], members[3], members[2], *members[4:]), (6, 3)).level is Level.FAIL


def test_a_write_quorum_smaller_than_the_desired_zones_is_strict_with_a_zone_each() -> None:
    assert judge(ids("a-1-0", "b-1-0"), (2, 2), minimum=1).level is Level.STRICT


def test_desired_zones_beyond_three_make_three_zones_soft() -> None:
    members = ids("a-1-0", "b-1-0", "c-1-0", "a-2-0")

    assert judge(members, (4, 4), desired=3).level is Level.STRICT
    assert judge(members, (4, 4), desired=4).level is Level.SOFT


def test_an_unresolved_member_fails() -> None:
    topology = THREE.updated(put=[Bookie(id=BookieId("lost"), location=None)])

    found = judge(ids("a-1-0", "b-1-0", "lost"), (3, 3), topology=topology)

    assert found.level is Level.FAIL
    assert "lost has no known location" in found.reasons


def test_a_member_that_no_cookie_names_fails_the_same_way() -> None:
    found = judge(ids("a-1-0", "b-1-0", "nobody"), (3, 3))

    assert found.level is Level.FAIL
    assert "nobody has no known location" in found.reasons


def test_a_member_that_is_down_keeps_its_zone() -> None:
    down = clusters.without_zone(THREE, "c")

    assert judge(ids("a-1-0", "b-1-0", "c-1-0"), (3, 3), topology=down).level is Level.STRICT


@pytest.mark.parametrize(
    ("members", "shape", "minimum", "reason"),
    [
        pytest.param((), (3, 3), 2, "is empty", id="no members"),
        pytest.param(
            ids("a-1-0", "b-1-0", "c-1-0", "a-2-0", "b-2-0"),
            (5, 3),
            2,
            "not a multiple",
            id="E mod Qw: the write set at 3 is a, b, a and loses the rotation",
        ),
        pytest.param(
            ids("a-1-0", "b-1-0", "c-1-0", "a-2-0", "b-2-0", "c-2-0"),
            (6, 2),
            2,
            "not above the 2 zones required",
            id="Qw <= m: nobody can follow a lost member",
        ),
        pytest.param(
            ids("a-1-0", "b-1-0", "c-1-0"), (3, 3), 3, "not above the 3 zones", id="Qw = m = 3"
        ),
        pytest.param(
            ids("a-1-0", "b-1-0"), (3, 3), 2, "2 members, its quorums say 3", id="too short"
        ),
        pytest.param(
            ids("a-1-0", "b-1-0", "a-1-0"), (3, 3), 2, "more than once", id="one bookie twice"
        ),
    ],
)
def test_what_no_choice_of_bookies_mends_fails_first(
    members: tuple[BookieId, ...], shape: tuple[int, int], minimum: int, reason: str
) -> None:
    found = judge(members, shape, minimum)

    assert found.level is Level.FAIL
    assert reason in found.reasons[0]


def test_requiring_no_zones_still_forbids_one_upgrade_domain() -> None:
    assert judge(ids("a-1-0", "a-2-0"), (2, 2), minimum=0, desired=1).level is Level.STRICT
    assert judge(ids("a-1-0", "a-1-1"), (2, 2), minimum=0, desired=1).level is Level.FAIL


def test_levels_are_ordered_and_a_judgement_is_not_a_truth_value() -> None:
    assert Level.FAIL < Level.SOFT < Level.STRICT
    with pytest.raises(TypeError, match="three levels"):
        bool(judge(ids("a-1-0", "b-1-0", "c-1-0"), (3, 3)))
