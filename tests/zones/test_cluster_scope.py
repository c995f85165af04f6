"""Cluster scope: one zone down switches all automatic replication off, until a person acts."""

from dataclasses import replace

import pytest

from tests.zones.world import REPAIR, A, C, Ground, World, world
from zonekeeper.metadata.cluster import repair_controls
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.policy.rules import RepairScope, Resume
from zonekeeper.placement.zones.gate import Permission
from zonekeeper.placement.zones.observation import Observation

pytestmark = pytest.mark.processes

BY_THE_SWITCH = replace(REPAIR, scope=RepairScope.CLUSTER, resume=Resume.MANUAL)
WHO = ("--by", "anna", "--reason", "the zone is back")
LOST = BookieId("bk-b-0")


async def switched(made: World, *, enabled: bool) -> None:
    """Wait until the switch stands so, and every process shows it."""

    async def so() -> bool:
        shown = [
            one.sum_of("zonekeeper_replication_enabled") == enabled
            for one in (await made.metrics()).values()
        ]
        return all(shown) and await repair_controls.is_enabled(made.client.cluster) is enabled

    await made.until(so, f"the switch is {'on' if enabled else 'off'}")


async def test_all_replication_is_off_until_a_person_switches_it_on(ground: Ground) -> None:
    async with world(ground, repair=BY_THE_SWITCH) as made:
        cluster = made.client.cluster
        made.kill_zone(A)
        first = await made.zone_is(A, Observation.DOWN, permission=Permission.HELD)
        await switched(made, enabled=False)
        await made.alert_stands("switchedOff")
        await made.holds(LOST)
        made.kill(LOST)
        await made.kill_leaders()
        await made.evaluations()
        await switched(made, enabled=False)
        await made.has_moved(0)

        await made.start(made.members(A))
        back = await made.zone_is(A, Observation.UP, permission=Permission.HELD)
        assert back.gate.awaits_person
        await made.alert_stands("awaitsPerson")
        await made.has_moved(0)
        said = await made.shell("autorecovery", "enable", "--yes", *WHO)
        assert "automatic replication is on" in said
        await switched(made, enabled=True)
        await made.unnamed(LOST)
        moved = await made.moved()
        assert moved > 0
        await made.start([LOST])
        await made.calm()

        # Another incident: another token, and the switch is thrown again; once, and no more.
        made.kill_zone(C)
        second = await made.zone_is(C, Observation.DOWN, permission=Permission.HELD)
        assert second.gate.token != first.gate.token
        await switched(made, enabled=False)
        await made.has_moved(moved)
        apaches = cluster.root.below("underreplication/disable")
        await cluster.store.delete(apaches, version=None)
        await made.zone_is(C, Observation.DOWN, permission=Permission.RELEASED)
        await made.kill_leaders()
        await made.unnamed(*made.members(C))
        assert await made.moved() > moved
        await switched(made, enabled=True)
        assert made.gates.zone(C).observed.state is Observation.DOWN
        await made.start(made.members(C))
        await made.calm()
