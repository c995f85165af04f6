"""The cluster as a whole: when everything is held, what ends it, and the switch."""

from dataclasses import replace

import pytest

from tests.placement.zone_world import (
    ANNA,
    HOUR,
    MINUTE,
    SECOND,
    A,
    B,
    C,
    World,
    members,
    policy,
    settled,
)
from zonekeeper.placement.policy.rules import (
    OnZoneLoss,
    RepairRules,
    RepairScope,
    Resume,
    ZoneWatchRules,
)
from zonekeeper.placement.zones.freeze import ClusterObservation
from zonekeeper.placement.zones.gate import Permission
from zonekeeper.placement.zones.losses import HeldBy
from zonekeeper.placement.zones.observation import Observation
from zonekeeper.placement.zones.zone_effects import Alert, SwitchOff

CLUSTER = RepairRules(scope=RepairScope.CLUSTER, resume=Resume.MANUAL)


def two_zones_gone(repair: RepairRules | None = None) -> World:
    world = settled(policy(repair=repair))
    world.lose(members(A))
    world.lose(members(B))
    world.wait(2 * MINUTE)
    assert world.freeze() is ClusterObservation.FROZEN
    return world


# ── grounds ──


def test_one_zone_down_freezes_nothing() -> None:
    world = settled()
    world.lose(members(A))
    world.wait(HOUR, every_ms=MINUTE)

    assert world.freeze() is ClusterObservation.CALM
    assert world.permission(None) is Permission.OPEN


def test_too_few_bookies_in_all_freeze_though_no_zone_fails() -> None:
    world = settled(policy(ZoneWatchRules(low_mark=0.2)))
    for zone in (A, B, C):
        world.lose(members(zone, *range(5)))
    assert world.freeze() is ClusterObservation.CALM  # 15 of 30 is not under 0.5

    world.lose(members(A, 5))
    assert world.freeze() is ClusterObservation.SUSPECT
    assert "14 of 30 bookies available in all" in world.cluster.observed.reason
    world.wait(MINUTE)
    assert world.freeze() is ClusterObservation.FROZEN


def test_a_freeze_that_was_only_a_doubt_ends_at_once() -> None:
    world = settled(policy(repair=RepairRules(resume=Resume.MANUAL)))
    world.lose(members(A))
    world.lose(members(B))
    assert world.freeze() is ClusterObservation.SUSPECT
    world.wait(50 * SECOND)
    world.come(members(B))

    assert world.freeze() is ClusterObservation.CALM
    assert world.permission(None) is Permission.OPEN
    assert not world.raised(Alert.CLUSTER_FROZEN)


def test_a_zone_on_its_way_back_keeps_a_freeze_and_begins_none() -> None:
    world = two_zones_gone()
    world.come(members(B))
    world.wait(4 * MINUTE)
    assert world.zone(B).observed.state is Observation.RETURNING
    assert world.freeze() is ClusterObservation.FROZEN
    world.wait(MINUTE)
    assert world.freeze() is ClusterObservation.CALM

    world.come(members(A))
    world.lose(members(C))
    assert world.zone(A).observed.state is Observation.RETURNING
    assert world.freeze() is ClusterObservation.CALM


def test_a_zone_in_which_nothing_is_counted_is_no_evidence_for_a_freeze() -> None:
    world = settled()
    world.lose(members(A))
    world.wait(2 * MINUTE)
    for domain in range(3):
        world.declare(A, domain, lasts_ms=HOUR)
    world.lose(members(B))
    world.wait(2 * MINUTE)

    assert world.zone(A).observed.state is Observation.DOWN
    assert world.zone(B).observed.state is Observation.DOWN
    assert world.freeze() is ClusterObservation.CALM


# ── ways out ──


def test_with_manual_resume_a_person_ends_a_freeze_that_was_real() -> None:
    world = two_zones_gone(RepairRules(resume=Resume.MANUAL))
    world.come([*members(A), *members(B)])
    world.wait(HOUR, every_ms=MINUTE)

    assert world.permission(None) is Permission.HELD
    epoch = world.cluster.delays_epoch
    world.release(None)
    assert world.permission(None) is Permission.OPEN
    assert world.cluster.delays_epoch == epoch + 1


def test_a_released_freeze_lets_a_released_zone_be_repaired_and_the_other_not() -> None:
    world = two_zones_gone()
    world.release(A)
    world.wait(10 * MINUTE)
    assert not world.published

    world.release(None)
    released_ms = world.now_ms
    world.wait(10 * MINUTE)
    assert world.published == dict.fromkeys(members(A), released_ms + 5 * MINUTE)


def test_a_zone_that_fails_later_is_not_covered_by_a_release_of_the_cluster() -> None:
    world = two_zones_gone()
    world.release(None)
    token = world.cluster.gate.token
    world.wait(HOUR, every_ms=MINUTE)
    assert world.permission(None) is Permission.RELEASED

    world.lose(members(C))
    assert world.permission(None) is Permission.HELD
    assert world.cluster.gate.token != token


def test_repair_after_ends_a_freeze_too() -> None:
    rules = RepairRules(on_zone_loss=OnZoneLoss.REPAIR_AFTER, after_ms=HOUR)
    world = two_zones_gone(rules)
    world.wait(58 * MINUTE - SECOND)
    assert world.permission(None) is Permission.HELD
    world.wait(SECOND)
    assert world.permission(None) is Permission.RELEASED
    world.wait(10 * MINUTE)
    assert sorted(world.published) == sorted([*members(A), *members(B)])


def test_a_zone_that_fails_at_the_moment_of_the_rules_release_is_not_covered_by_it() -> None:
    rules = RepairRules(on_zone_loss=OnZoneLoss.REPAIR_AFTER, after_ms=HOUR)
    world = two_zones_gone(rules)
    world.wait(58 * MINUTE - SECOND)
    world.now_ms += SECOND
    world.lose(members(C))
    world.look()

    assert world.permission(None) is Permission.HELD


def test_a_persons_hold_of_the_cluster_holds_everything_until_the_release() -> None:
    world = settled()
    world.hold(None)
    world.lose(members(A, 0))
    world.wait(24 * HOUR, every_ms=MINUTE)

    held = world.what_holds(members(A, 0)[0])
    assert held is not None
    assert held.by is HeldBy.CLUSTER_HELD
    assert "anna" in held.text
    assert len(world.reminders()) == 24
    world.release(None)
    world.wait(10 * MINUTE)
    assert list(world.published) == members(A, 0)


# ── the switch ──


def test_one_zone_down_holds_everything_in_cluster_scope_and_a_doubt_does_not() -> None:
    world = settled(policy(repair=CLUSTER))
    world.lose(members(A))
    assert world.permission(None) is Permission.OPEN
    world.wait(MINUTE)
    assert world.permission(None) is Permission.HELD
    assert not world.enabled


@pytest.mark.parametrize(
    "rules",
    [
        replace(CLUSTER, resume=Resume.AUTOMATIC),
        replace(CLUSTER, on_zone_loss=OnZoneLoss.REPAIR_AFTER),
    ],
)
def test_the_switch_is_left_alone_where_a_rule_may_end_the_hold(rules: RepairRules) -> None:
    """The watch never turns it on, so turning it off would make the rule a dead letter."""
    world = settled(policy(repair=rules))
    world.lose([*members(A), *members(B, 0)])
    world.wait(2 * MINUTE)
    assert world.permission(None) is Permission.HELD

    world.wait(8 * HOUR, every_ms=MINUTE)
    assert world.enabled
    opens = rules.on_zone_loss is OnZoneLoss.REPAIR_AFTER
    assert bool(world.published) == opens


def test_a_lost_switch_off_is_asked_again() -> None:
    world = settled(policy(repair=CLUSTER))
    world.lose(members(A))
    world.wait(MINUTE)
    world.happened.clear()
    world.enabled = True  # it never arrived: no process has seen the switch off yet
    world.look()

    assert any(isinstance(effect, SwitchOff) for _, effect in world.happened)
    assert not world.enabled


def test_a_switch_off_that_was_lost_is_not_asked_again_once_its_incident_is_released() -> None:
    world = settled(policy(repair=CLUSTER))
    world.lose(members(A))
    world.wait(MINUTE)
    world.enabled = True  # it never arrived
    world.happened.clear()
    world.release(None)
    world.wait(HOUR, every_ms=MINUTE)

    assert not any(isinstance(effect, SwitchOff) for _, effect in world.happened)
    assert world.enabled
    assert Alert.SWITCHED_OFF not in world.cluster.alerts


def test_a_switch_off_that_arrives_after_the_release_is_a_persons_to_take_back() -> None:
    world = settled(policy(repair=CLUSTER))
    world.lose(members(A))
    world.wait(MINUTE)
    world.enabled = True
    world.release(None)
    world.enabled = False  # it was only late
    world.look()

    assert Alert.SWITCHED_OFF in world.cluster.alerts
    world.enabled = True
    world.look()
    assert Alert.SWITCHED_OFF not in world.cluster.alerts
    assert world.permission(A) is Permission.RELEASED


def test_a_switch_off_that_was_lost_is_asked_for_the_next_incident() -> None:
    world = settled(policy(repair=CLUSTER))
    world.lose(members(A))
    world.wait(MINUTE)
    world.enabled = True
    world.release(None)
    world.release(A)
    world.come(members(A))
    world.wait(10 * MINUTE)
    assert world.enabled

    world.lose(members(B))
    world.wait(MINUTE)
    assert not world.enabled


def test_enabling_releases_what_the_watch_holds_and_not_what_a_person_holds() -> None:
    world = settled(policy(repair=CLUSTER))
    world.lose(members(A))
    world.wait(2 * MINUTE)
    world.hold(C)
    world.change_watcher()
    world.enabled = True
    world.look()  # a person's act counts, in the start grace too

    assert world.permission(A) is Permission.RELEASED
    assert world.permission(C) is Permission.HELD
    assert world.permission(None) is Permission.RELEASED


def test_a_zone_that_fails_while_somebody_enables_is_held() -> None:
    world = settled(policy(repair=CLUSTER))
    world.lose(members(A))
    world.wait(2 * MINUTE)
    world.enabled = True
    world.lose(members(B))

    assert world.permission(A) is Permission.RELEASED
    assert world.permission(B) is Permission.HELD
    assert world.permission(None) is Permission.HELD


def test_switched_off_by_a_person_before_the_outage_it_is_theirs_to_enable() -> None:
    world = settled(policy(repair=CLUSTER))
    world.enabled = False
    world.lose(members(A))
    world.wait(2 * MINUTE)
    world.enabled = True
    world.look()

    assert world.permission(A) is Permission.RELEASED
    assert world.zone(A).gate.set_by != ANNA.name


# ── what is said ──


def test_the_reason_of_a_freeze_is_of_now() -> None:
    world = two_zones_gone()
    world.wait(10 * MINUTE)
    assert world.cluster.observed.reason.endswith("0.5, frozen for 11m")

    world.come(members(A, 0, 1, 2))
    assert "13 of 30 bookies available in all" in world.cluster.observed.reason
    assert "13 of 30 bookies available in all" in world.cluster.gate.reason


def test_the_reason_of_an_open_gate_is_of_now_and_a_persons_words_stay() -> None:
    world = settled(policy(ZoneWatchRules(low_mark=0.3)))
    world.lose(members(A, 0, 1, 2, 3))
    assert world.zone(A).gate.reason == f"zone a is degraded: {world.zone(A).observed.reason}"
    assert world.zone(A).evidence.available == 6
    assert "6 of 10" in world.zone(A).gate.reason

    world.hold(B)
    world.release(B)
    world.lose(members(B, 0))
    assert world.zone(B).gate.reason == f"released by {ANNA}"


def test_the_reason_of_the_owners_rule_has_no_numbers_of_then() -> None:
    after = RepairRules(on_zone_loss=OnZoneLoss.REPAIR_AFTER, after_ms=10 * MINUTE)
    world = settled(policy(repair=after))
    world.lose(members(A))
    world.wait(HOUR, every_ms=MINUTE)

    assert world.zone(A).gate.permission is Permission.RELEASED
    assert world.zone(A).gate.reason == "held for 10m, and repair.after is 10m"
