"""The zone watch at work: outages as they happen, in the store and by what an observer may publish.

Four bookies a zone unless said otherwise, the marks 0.5 and 0.9, the default times.
"""

import pytest

from tests.replication.gate_world import (
    HOUR,
    MINUTE,
    SECOND,
    A,
    B,
    C,
    GateWorld,
    members,
    play,
    policy,
)
from zonekeeper.metadata.bookies import bookie_records, cookie_store
from zonekeeper.metadata.bookies.bookie_records import Mark
from zonekeeper.metadata.cluster import repair_controls
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.policy.rules import OnZoneLoss, RepairRules, RepairScope, Resume
from zonekeeper.placement.zones.freeze import ClusterObservation
from zonekeeper.placement.zones.gate import Permission
from zonekeeper.placement.zones.losses import HeldBy
from zonekeeper.placement.zones.observation import Observation
from zonekeeper.placement.zones.zone_effects import Alert

UP_OPEN = (Observation.UP, Permission.OPEN)
DEGRADED_OPEN = (Observation.DEGRADED, Permission.OPEN)
SUSPECT_HELD = (Observation.SUSPECT, Permission.HELD)
DOWN_HELD = (Observation.DOWN, Permission.HELD)
RETURNING_HELD = (Observation.RETURNING, Permission.HELD)

REPAIRED = Mark(at_ms=1, by="auditor", reason="every ledger is repaired")


def test_s1_one_bookie_of_ten_may_be_published_after_its_delay() -> None:
    async def scenario(world: GateWorld) -> None:
        await world.lose(members(A, 0))
        await world.wait(5 * MINUTE - 35 * SECOND)
        assert world.publishable() == []
        await world.wait(70 * SECOND)
        assert world.publishable() == members(A, 0)
        assert await world.state(A) == UP_OPEN

    play(scenario, per_zone=10)


def test_s2_written_off_losses_never_add_up_to_a_zone() -> None:
    async def scenario(world: GateWorld) -> None:
        for number in range(3):
            await world.lose(members(A, number))
            await world.wait(6 * MINUTE)
            assert members(A, number)[0] in world.publishable()
            await bookie_records.write_off(world.cluster, members(A, number)[0], REPAIRED)
            await world.wait(SECOND)
            assert (await world.zone(A)).observed.state is Observation.UP
        assert Alert.ZONE_SHRUNK in await world.alerts(A)

    play(scenario)


def test_s2b_some_lost_one_after_the_other_are_node_losses() -> None:
    async def scenario(world: GateWorld) -> None:
        for number in range(4):
            await world.lose(members(A, number))
            await world.wait(25 * SECOND)
        assert await world.state(A) == DEGRADED_OPEN
        await world.wait(5 * MINUTE + 40 * SECOND)
        assert world.publishable() == members(A, 0, 1, 2, 3)

    play(scenario, per_zone=10)


def test_s3_and_s83_a_zone_that_vanishes_is_held_at_once_and_publishes_nothing() -> None:
    async def scenario(world: GateWorld) -> None:
        await world.lose(members(A))
        assert await world.state(A) == SUSPECT_HELD
        assert await world.state(B) == UP_OPEN
        await world.wait(95 * SECOND)
        assert await world.state(A) == DOWN_HELD
        assert await world.alerts(A) == (Alert.ZONE_DOWN,)
        await world.wait(30 * MINUTE)
        assert world.publishable() == []
        assert await world.state(A) == DOWN_HELD

    play(scenario)


def test_s4_a_zone_that_is_back_after_40_s_was_only_suspect() -> None:
    async def scenario(world: GateWorld) -> None:
        await world.lose(members(A))
        await world.wait(40 * SECOND)
        await world.come(members(A))
        await world.wait(SECOND)
        assert await world.state(A) == UP_OPEN
        await world.wait(6 * MINUTE)
        assert world.publishable() == []
        assert not any("down" in text for text in await world.told_of("changed"))

    play(scenario)


def test_s5_a_zone_stuck_between_the_marks_returns_and_the_rest_are_node_losses() -> None:
    async def scenario(world: GateWorld) -> None:
        await world.lose(members(A))
        await world.wait(2 * MINUTE)
        await world.come(members(A, 0, 1, 2))
        await world.wait(28 * MINUTE)
        assert await world.state(A) == DOWN_HELD
        await world.wait(3 * MINUTE)
        assert await world.state(A) == RETURNING_HELD
        await world.wait(3 * MINUTE)
        assert world.publishable() == []
        await world.wait(3 * MINUTE)
        assert await world.state(A) == DEGRADED_OPEN
        assert world.publishable() == members(A, 3)

    play(scenario)


def test_s6_a_zone_that_comes_back_whole_opens_after_its_hold_up() -> None:
    async def scenario(world: GateWorld) -> None:
        await world.lose(members(A))
        await world.wait(10 * MINUTE)
        await world.come(members(A))
        await world.wait(SECOND)
        assert await world.state(A) == RETURNING_HELD
        await world.wait(5 * MINUTE + 40 * SECOND)
        assert await world.state(A) == UP_OPEN
        assert await world.alerts(A) == ()
        gate = [text for text in await world.told_of("changed") if text.startswith("repair")]
        assert [text.split(":")[0] for text in gate[-2:]] == [
            "repair open → held",
            "repair held → open",
        ]

    play(scenario)


def test_s7_and_s85_a_flapping_zone_is_one_incident_with_a_growing_hold_up() -> None:
    async def scenario(world: GateWorld) -> None:
        tokens, hold_ups = set(), []
        for _ in range(3):
            await world.lose(members(A))
            await world.wait(2 * MINUTE)
            assert await world.state(A) == DOWN_HELD
            await world.come(members(A))
            await world.wait(2 * MINUTE)
            record = await world.zone(A)
            tokens.add(record.gate.token)
            hold_ups.append(record.observed.hold_up_ms // MINUTE)
            assert world.publishable() == []
        assert hold_ups == [5, 10, 20]
        assert len(tokens) == 1
        await world.wait(20 * MINUTE)
        assert await world.state(A) == UP_OPEN

    play(scenario)


def test_s8_two_zones_lost_freeze_the_cluster_and_hold_a_loss_in_the_third() -> None:
    async def scenario(world: GateWorld) -> None:
        await world.lose([*members(A), *members(B)])
        await world.wait(2 * MINUTE)
        assert await world.state(A) == await world.state(B) == DOWN_HELD
        record = await world.cluster_record()
        assert record.observed.state is ClusterObservation.FROZEN
        await world.lose(members(C, 0))
        await world.wait(10 * MINUTE)
        held = world.observer.what_holds_publishing(members(C, 0)[0])
        assert held is not None
        assert held.by is HeldBy.CLUSTER_HELD

    play(scenario)


def test_s9_all_zones_lost_is_also_a_doubt_about_the_view() -> None:
    async def scenario(world: GateWorld) -> None:
        for zone in (A, B, C):
            await world.lose(members(zone))
        await world.wait(2 * MINUTE)
        assert Alert.VIEW_SUSPECT in await world.alerts(None)
        assert world.publishable() == []
        for zone in (A, B, C):
            await world.come(members(zone))
        await world.wait(6 * MINUTE)
        assert Alert.VIEW_SUSPECT not in await world.alerts(None)
        assert [await world.state(zone) for zone in (A, B, C)] == [UP_OPEN] * 3

    play(scenario)


def test_s10_scaling_down_by_decommission_never_leaves_up() -> None:
    async def scenario(world: GateWorld) -> None:
        for number in (3, 2):
            (bookie,) = members(A, number)
            await bookie_records.drain(world.cluster, bookie, REPAIRED)
            await world.wait(SECOND)
            await world.lose([bookie])
            assert await world.state(A) == UP_OPEN
            stored = await cookie_store.read(world.cluster, bookie)
            assert stored is not None
            await cookie_store.delete(world.cluster, bookie, version=stored.version)
            await world.wait(MINUTE)
            assert await world.state(A) == UP_OPEN
        assert (await world.zone(A)).evidence.total == 2

    play(scenario)


def test_s11_and_s92_some_of_a_zone_and_one_elsewhere_are_node_losses() -> None:
    async def scenario(world: GateWorld) -> None:
        await world.lose([*members(A, 3), *members(B, 0)])
        assert await world.state(A) == await world.state(B) == DEGRADED_OPEN
        await world.wait(5 * MINUTE + 40 * SECOND)
        assert world.publishable() == [*members(A, 3), *members(B, 0)]

    play(scenario)


def test_s12_the_only_bookie_of_a_zone_is_a_node_loss() -> None:
    async def scenario(world: GateWorld) -> None:
        await world.lose(members(A, 0))
        assert await world.state(A) == DEGRADED_OPEN
        await world.wait(5 * MINUTE + 40 * SECOND)
        assert world.publishable() == members(A, 0)

    play(scenario, per_zone=1)


def test_s87_a_loss_in_another_zone_is_not_held_with_the_zone() -> None:
    async def scenario(world: GateWorld) -> None:
        await world.lose(members(A))
        await world.wait(2 * MINUTE)
        await world.lose(members(B, 0))
        await world.wait(5 * MINUTE + 40 * SECOND)
        assert world.publishable() == members(B, 0)

    play(scenario)


def test_s86_under_repair_after_a_zone_that_stays_away_is_released_by_the_rule() -> None:
    rules = RepairRules(on_zone_loss=OnZoneLoss.REPAIR_AFTER, after_ms=20 * MINUTE)

    async def scenario(world: GateWorld) -> None:
        await world.lose(members(A))
        await world.wait(18 * MINUTE)
        assert await world.state(A) == DOWN_HELD
        assert world.publishable() == []
        await world.wait(3 * MINUTE)
        assert await world.state(A) == (Observation.DOWN, Permission.RELEASED)
        assert world.publishable() == members(A)

    play(scenario, rules=policy(repair=rules))


def test_a_hold_is_reminded_of_at_every_interval() -> None:
    async def scenario(world: GateWorld) -> None:
        await world.lose(members(A))
        await world.wait(16 * MINUTE)
        assert len(await world.told_of("reminded")) == 3
        assert world.watches[0].watch.counters.reminders_total == 3

    play(scenario, rules=policy(repair=RepairRules(remind_every_ms=5 * MINUTE)))


# ── the article: the whole cluster by the switch ──


ARTICLE = policy(repair=RepairRules(scope=RepairScope.CLUSTER, resume=Resume.MANUAL))


def test_s21_the_article_switches_replication_off_and_a_person_switches_it_on() -> None:
    async def scenario(world: GateWorld) -> None:
        await world.lose(members(B, 0))
        await world.lose(members(A))
        await world.wait(50 * SECOND)
        assert await world.enabled()  # a doubt switches nothing off
        await world.wait(40 * SECOND)
        assert not await world.enabled()
        assert await world.alerts(None) == (Alert.CLUSTER_FROZEN, Alert.SWITCHED_OFF)

        await world.come(members(A))
        await world.wait(20 * MINUTE)
        assert not await world.enabled()
        assert world.publishable() == []  # not even the loss in the healthy zone
        assert len(await world.told_of("switched off")) == 1

        await repair_controls.set_enabled(world.cluster, enabled=True)
        await world.wait(6 * MINUTE)
        assert await world.enabled()
        assert await world.state(A) == UP_OPEN
        assert world.publishable() == members(B, 0)

    play(scenario, rules=ARTICLE)


def test_s21_enabling_while_the_zone_is_gone_is_the_release_of_the_incident() -> None:
    async def scenario(world: GateWorld) -> None:
        await world.lose(members(A))
        await world.wait(10 * MINUTE)
        await repair_controls.set_enabled(world.cluster, enabled=True)
        await world.wait(SECOND)
        assert await world.state(A) == (Observation.DOWN, Permission.RELEASED)
        await world.wait(10 * MINUTE)
        assert await world.enabled()  # not switched off again for the same incident
        assert world.publishable() == members(A)

        await world.lose(members(B))
        await world.wait(2 * MINUTE)
        assert not await world.enabled()  # another zone's outage is another incident

    play(scenario, rules=ARTICLE)


def test_s21_enabling_at_the_very_moment_it_was_switched_off_is_still_seen() -> None:
    """The evaluation behind the switch has seen it off: a person's hand is told from its own."""

    async def scenario(world: GateWorld) -> None:
        await world.lose(members(A))
        async with repair_controls.watch_enabled(world.cluster) as states:
            await anext(state async for state in states if not state)
        await repair_controls.set_enabled(world.cluster, enabled=True)
        await world.wait(31 * SECOND)
        assert await world.enabled()
        assert await world.state(A) == (Observation.DOWN, Permission.RELEASED)

    play(scenario, rules=ARTICLE)


# ── maintenance ──


@pytest.mark.parametrize("comes_back", [True, False])
def test_planned_work_on_a_unit_is_no_loss_until_it_has_run_out(comes_back: bool) -> None:
    async def scenario(world: GateWorld) -> None:
        await world.declare("a", "ud-0", lasts_ms=10 * MINUTE)
        await world.lose(members(A, 0, 2))
        await world.wait(9 * MINUTE)
        assert await world.state(A) == UP_OPEN
        assert world.publishable() == []
        if comes_back:
            await world.come(members(A, 0, 2))
        await world.wait(2 * MINUTE)
        assert len(await world.told_of("ended")) == 1
        assert dict(world.observer.maintenance) == {}
        expected = Observation.UP if comes_back else Observation.DOWN
        await world.wait(MINUTE)
        assert (await world.zone(A)).observed.state is expected

    play(scenario)


def test_a_bookie_outside_the_planned_unit_is_a_loss_of_its_own() -> None:
    async def scenario(world: GateWorld) -> None:
        await world.declare("a", "ud-0", lasts_ms=HOUR)
        await world.lose(members(A, 0, 1, 2))
        await world.wait(5 * MINUTE + 40 * SECOND)
        assert world.publishable() == members(A, 1)

    play(scenario)


# ── a person ──


def test_a_release_lets_go_what_the_person_saw_and_ends_with_the_incident() -> None:
    async def scenario(world: GateWorld) -> None:
        await world.lose(members(A))
        await world.wait(6 * MINUTE)
        await world.release(A)
        await world.wait(40 * SECOND)
        assert await world.state(A) == (Observation.DOWN, Permission.RELEASED)
        assert world.publishable() == members(A)
        await world.come(members(A))
        await world.wait(6 * MINUTE)
        assert await world.state(A) == UP_OPEN
        await world.lose(members(A))
        assert await world.state(A) == SUSPECT_HELD

    play(scenario)


def test_a_persons_hold_outlives_everything_but_a_persons_release() -> None:
    async def scenario(world: GateWorld) -> None:
        await world.hold(B)
        await world.lose(members(B, 0))
        await world.wait(20 * MINUTE)
        assert (await world.zone(B)).gate.permission is Permission.HELD
        assert world.publishable() == []
        await world.release(B)
        await world.wait(40 * SECOND)
        assert world.publishable() == members(B, 0)

    play(scenario)


def test_a_bookie_that_is_written_off_and_comes_back_counts_at_once() -> None:
    async def scenario(world: GateWorld) -> None:
        (bookie,) = members(A, 0)
        await world.lose([bookie])
        await bookie_records.write_off(world.cluster, bookie, REPAIRED)
        await world.wait(SECOND)
        assert (await world.zone(A)).evidence.total == 3
        await world.come([bookie])
        await world.wait(SECOND)
        assert (await world.zone(A)).evidence.total == 4

    play(scenario)


def test_s93_a_bookie_without_a_location_is_held_while_any_zone_is() -> None:
    async def scenario(world: GateWorld) -> None:
        lost = BookieId("x-0")
        await world.add(lost, located=False)
        await world.lose([lost])
        await world.wait(6 * MINUTE)
        assert world.publishable() == [lost]
        await world.lose(members(A))
        held = world.observer.what_holds_publishing(lost)
        assert held is not None
        assert held.by is HeldBy.ZONE_HELD

    play(scenario)
