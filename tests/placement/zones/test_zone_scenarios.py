"""Outages as they happen: ten bookies a zone, marks 0.5 and 0.9, the default times.

Each history is told bookie by bookie, and what counts is what people and ledgers would see: the two
machines' states, who was paged, and what was published for repair when.
"""

import pytest

from tests.placement.zone_world import HOUR, MINUTE, SECOND, A, B, C, members, policy, settled
from zonekeeper.placement.policy.rules import RepairRules, RepairScope, Resume
from zonekeeper.placement.zones.freeze import ClusterObservation
from zonekeeper.placement.zones.gate import Permission
from zonekeeper.placement.zones.losses import HeldBy
from zonekeeper.placement.zones.observation import Observation
from zonekeeper.placement.zones.zone_effects import Alert, SwitchOff

UP_OPEN = (Observation.UP, Permission.OPEN)
DEGRADED_OPEN = (Observation.DEGRADED, Permission.OPEN)
SUSPECT_HELD = (Observation.SUSPECT, Permission.HELD)
DOWN_HELD = (Observation.DOWN, Permission.HELD)
RETURNING_HELD = (Observation.RETURNING, Permission.HELD)


def test_s1_one_bookie_lost_is_repaired_after_its_delay_and_written_off() -> None:
    world = settled()
    lost_ms = world.now_ms
    world.lose(members(A, 0))

    assert world.state(A) == UP_OPEN  # 9 of 10 is at the high mark 0.9, not under it
    world.wait(5 * MINUTE)

    assert world.published == {members(A, 0)[0]: lost_ms + 5 * MINUTE}
    world.look()
    assert (world.zone(A).evidence.total, world.zone(A).evidence.written_off) == (9, 1)
    assert world.state(A) == UP_OPEN


def test_s2_single_losses_over_weeks_never_add_up_to_a_zone() -> None:
    world = settled()
    for number in range(4):
        world.lose(members(A, number))
        world.wait(3 * HOUR, every_ms=MINUTE)
        assert world.state(A) == UP_OPEN
        shrunk = bool(world.raised(Alert.ZONE_SHRUNK))
        assert shrunk == (number >= 2)  # 3 of 10 written off is over 0.25

    assert not world.raised(Alert.ZONE_SUSPECT)
    assert len(world.published) == 4


def test_s2b_four_lost_within_two_minutes_are_repaired_as_node_losses() -> None:
    world = settled()
    for number in range(4):
        world.lose(members(A, number))
        world.wait(30 * SECOND)

    assert world.state(A) == DEGRADED_OPEN
    world.wait(5 * MINUTE)
    assert len(world.published) == 4


def test_s3_a_zone_lost_within_30_s_is_down_after_a_minute_and_publishes_nothing() -> None:
    world = settled()
    for number in range(4):
        world.lose(members(A, number))
        world.wait(3 * SECOND)
    assert world.state(A) == DEGRADED_OPEN

    world.lose(members(A, 4))
    suspect_ms = world.now_ms
    assert world.state(A) == SUSPECT_HELD
    for number in range(5, 10):
        world.wait(3 * SECOND)
        world.lose(members(A, number))

    world.wait(suspect_ms + 59 * SECOND - world.now_ms)
    assert world.state(A) == SUSPECT_HELD
    world.wait(1 * SECOND)
    assert world.state(A) == DOWN_HELD
    assert world.raised(Alert.ZONE_DOWN) == [suspect_ms + MINUTE]

    world.wait(12 * HOUR, every_ms=MINUTE)
    assert world.state(A) == DOWN_HELD
    assert not world.published


def test_s4_a_zone_that_is_back_after_40_s_pages_nobody() -> None:
    world = settled()
    world.lose(members(A))
    assert world.state(A) == SUSPECT_HELD
    world.wait(40 * SECOND)
    world.come(members(A))

    assert world.state(A) == UP_OPEN
    world.wait(10 * MINUTE)
    assert not world.raised(Alert.ZONE_DOWN)
    assert world.cleared(Alert.ZONE_SUSPECT)
    assert not world.published


def test_s5_a_zone_stuck_between_the_marks_returns_and_the_rest_are_node_losses() -> None:
    world = settled()
    world.lose(members(A))
    world.wait(2 * MINUTE)
    world.come(members(A, *range(6)))
    came_ms = world.now_ms

    world.wait(30 * MINUTE - SECOND)
    assert world.state(A) == DOWN_HELD
    world.wait(SECOND)
    assert world.state(A) == RETURNING_HELD
    world.wait(5 * MINUTE - SECOND)
    assert world.state(A) == RETURNING_HELD
    assert not world.published
    world.wait(SECOND)
    assert world.state(A) == DEGRADED_OPEN
    assert world.published == dict.fromkeys(members(A, 6, 7, 8, 9), came_ms + 35 * MINUTE)


def test_s5_with_manual_resume_a_person_ends_the_hold() -> None:
    world = settled(policy(repair=RepairRules(resume=Resume.MANUAL)))
    world.lose(members(A))
    world.wait(2 * MINUTE)
    world.come(members(A, *range(6)))
    world.wait(10 * HOUR, every_ms=MINUTE)

    assert world.state(A) == (Observation.DEGRADED, Permission.HELD)
    assert world.raised(Alert.AWAITS_PERSON)
    assert not world.published
    world.release(A)
    assert world.state(A) == DEGRADED_OPEN
    assert sorted(world.published) == members(A, 6, 7, 8, 9)


def test_s6_a_zone_that_comes_back_but_for_one_repairs_that_one() -> None:
    world = settled()
    world.lose(members(A))
    world.wait(10 * MINUTE)
    world.come(members(A, *range(9)))
    assert world.state(A) == RETURNING_HELD

    world.wait(5 * MINUTE - SECOND)
    assert world.state(A) == RETURNING_HELD
    world.wait(SECOND)
    assert world.state(A) == UP_OPEN
    assert list(world.published) == members(A, 9)


def test_s7_a_flapping_zone_is_one_incident_with_a_growing_hold_up() -> None:
    world = settled()
    tokens, hold_ups = set(), []
    for _ in range(6):
        world.lose(members(A))
        world.wait(2 * MINUTE)
        assert world.state(A) == DOWN_HELD
        world.come(members(A))
        tokens.add(world.zone(A).gate.token)
        hold_ups.append(world.zone(A).observed.hold_up_ms // MINUTE)
        world.wait(2 * MINUTE)
        assert world.state(A) == RETURNING_HELD

    assert hold_ups == [5, 10, 20, 40, 60, 60]
    assert len(tokens) == 1
    assert len(world.raised(Alert.ZONE_DOWN)) == 1
    world.wait(58 * MINUTE)
    assert world.state(A) == UP_OPEN
    assert not world.published


def test_s8_two_zones_lost_freeze_the_cluster_and_leaving_it_restarts_the_delays() -> None:
    world = settled()
    world.lose(members(A))
    world.lose(members(B))
    assert world.cluster.gate.permission is Permission.HELD
    world.wait(2 * MINUTE)
    assert world.state(A) == world.state(B) == DOWN_HELD
    assert world.freeze() is ClusterObservation.FROZEN
    assert len(world.raised(Alert.CLUSTER_FROZEN)) == 1

    world.lose(members(C, 0))
    world.wait(1 * HOUR, every_ms=MINUTE)
    held = world.what_holds(members(C, 0)[0])
    assert held is not None
    assert held.by is HeldBy.CLUSTER_HELD
    assert not world.published

    world.come(members(B))
    world.wait(5 * MINUTE)
    assert world.state(B) == UP_OPEN
    assert world.freeze() is ClusterObservation.CALM
    left_ms = world.now_ms
    world.wait(10 * MINUTE)
    assert world.published == {members(C, 0)[0]: left_ms + 5 * MINUTE}
    assert world.state(A) == DOWN_HELD


def test_s9_all_zones_lost_is_also_a_doubt_about_the_view() -> None:
    world = settled()
    for zone in (A, B, C):
        world.lose(members(zone))
    world.wait(2 * MINUTE)

    assert world.freeze() is ClusterObservation.FROZEN
    assert len(world.raised(Alert.VIEW_SUSPECT)) == 1
    for zone in (A, B, C):
        world.come(members(zone))
    world.wait(10 * MINUTE)
    assert len(world.cleared(Alert.VIEW_SUSPECT)) == 1
    assert all(world.state(zone) == UP_OPEN for zone in (A, B, C))
    assert not world.published


def test_s10_scaling_down_by_decommission_never_leaves_up() -> None:
    world = settled()
    for number in (9, 8, 7):
        world.decommission(*members(A, number))
        assert world.state(A) == UP_OPEN
        world.wait(10 * MINUTE)

    assert not world.happened
    assert world.zone(A).evidence.total == 7


def test_s11_scaling_down_by_deletion_is_three_node_losses() -> None:
    world = settled()
    world.lose(members(A, 7, 8, 9))

    assert world.state(A) == DEGRADED_OPEN
    world.wait(5 * MINUTE)
    assert sorted(world.published) == members(A, 7, 8, 9)


def test_s12_the_only_bookie_of_a_zone_is_a_node_loss() -> None:
    world = settled(per_zone=1)
    world.lose(members(A, 0))

    assert world.state(A) == DEGRADED_OPEN
    world.wait(5 * MINUTE)
    assert list(world.published) == members(A, 0)


def test_a_zone_that_was_let_go_for_good_calls_nobody_once_its_losses_are_dealt_with() -> None:
    world = settled(repair_ms=HOUR)
    world.lose(members(A))
    world.wait(5 * MINUTE)
    assert world.state(A) == (Observation.DOWN, Permission.HELD)
    world.release(A)
    world.wait(30 * MINUTE)
    assert Alert.ZONE_DOWN in world.zone(A).alerts, "it is being repaired"
    world.wait(2 * HOUR)
    assert world.zone(A).evidence.written_off == 10
    assert world.zone(A).alerts == (Alert.ZONE_SHRUNK,)
    assert len(world.cleared(Alert.ZONE_DOWN)) == 1
    for bookie in members(A):
        world.decommission(bookie)
    world.wait(24 * HOUR, every_ms=10 * MINUTE)
    assert world.zone(A).alerts == ()
    assert len(world.raised(Alert.ZONE_DOWN)) == 1


def test_nobody_is_called_when_a_zone_that_was_let_go_for_good_comes_back_after_all() -> None:
    world = settled(repair_ms=HOUR)
    world.lose(members(A))
    world.wait(5 * MINUTE)
    world.release(A)
    world.wait(3 * HOUR)
    assert world.zone(A).alerts == (Alert.ZONE_SHRUNK,)
    world.come(members(A))
    states = set()
    for _ in range(240):
        world.wait(30_000)
        states.add(world.state(A)[0])
    assert {Observation.RETURNING, Observation.UP} <= states
    assert len(world.raised(Alert.ZONE_DOWN)) == 1
    assert world.zone(A).alerts == ()


def test_a_zone_that_is_given_up_while_it_is_held_is_told_until_it_is_released() -> None:
    world = settled()
    world.lose(members(A))
    world.wait(5 * MINUTE)
    for bookie in members(A):
        world.decommission(bookie)
    world.wait(24 * HOUR, every_ms=10 * MINUTE)
    assert world.zone(A).alerts == (Alert.ZONE_DOWN,)
    world.release(A)
    assert world.zone(A).alerts == ()


def test_a_zone_whose_bookies_are_only_in_maintenance_is_told_whoever_let_it_go() -> None:
    world = settled()
    world.lose(members(A))
    world.wait(5 * MINUTE)
    for number in range(3):
        world.declare(A, number, HOUR, f"m-{number}")
    world.wait(MINUTE)
    world.release(A)
    assert world.zone(A).evidence.total == 0
    world.wait(MINUTE)
    assert Alert.ZONE_DOWN in world.zone(A).alerts


@pytest.fixture
def article() -> RepairRules:
    """The rules of the article: all automatic replication off, until a person enables it."""
    return RepairRules(scope=RepairScope.CLUSTER, resume=Resume.MANUAL)


def test_s21_the_article_switches_replication_off_once_and_a_person_switches_it_on(
    article: RepairRules,
) -> None:
    world = settled(policy(repair=article))
    world.lose(members(B, 0))
    world.lose(members(A))
    world.wait(59 * SECOND)
    assert world.enabled  # a doubt switches nothing off
    world.wait(SECOND)
    assert not world.enabled

    world.wait(HOUR, every_ms=MINUTE)
    world.come(members(A))
    world.wait(10 * HOUR, every_ms=MINUTE)
    assert world.state(A) == (Observation.UP, Permission.HELD)
    assert not world.enabled
    assert not world.published  # not even the loss in the healthy zone
    assert len(world.raised(Alert.SWITCHED_OFF)) == 1
    assert len([e for _, e in world.happened if isinstance(e, SwitchOff)]) == 1

    world.enabled = True
    world.look()
    assert world.state(A) == UP_OPEN
    assert world.cluster.gate.permission is Permission.OPEN
    assert len(world.cleared(Alert.SWITCHED_OFF)) == 1
    world.wait(10 * MINUTE)
    assert world.enabled
    assert list(world.published) == members(B, 0)


def test_s21_enabling_while_the_zone_is_gone_releases_the_incident_once(
    article: RepairRules,
) -> None:
    world = settled(policy(repair=article))
    world.lose(members(A))
    world.wait(10 * MINUTE)
    world.enabled = True
    world.look()

    assert world.state(A) == (Observation.DOWN, Permission.RELEASED)
    world.wait(HOUR, every_ms=MINUTE)
    assert world.enabled  # not switched off again for the same incident
    assert sorted(world.published) == members(A)

    world.lose(members(B))
    world.wait(2 * MINUTE)
    assert not world.enabled  # another zone's outage is another incident
    assert world.state(B) == DOWN_HELD
