"""Nothing ends, everything stands still for a while: a zone, all of autorecovery, ZooKeeper.

A frozen process does not know how much time has passed. It must not act on its old view.
"""

import pytest

from tests.zones import copies
from tests.zones.world import LONG_S, A, B, C, Ground, world
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.zones.gate import Permission
from zonekeeper.placement.zones.observation import Observation

pytestmark = pytest.mark.processes

ELSEWHERE = BookieId("bk-c-0")


async def test_zones_that_stand_still_are_held_and_cost_nothing(ground: Ground) -> None:
    async with world(ground) as made:
        held = await copies.every(made.client.cluster)
        made.freeze_zone(A)
        await made.zone_is(A, Observation.SUSPECT, permission=Permission.HELD)
        made.thaw_zone(A)
        await made.calm()
        made.freeze_zone(A)
        await made.zone_is(A, Observation.DOWN, permission=Permission.HELD)
        made.thaw_zone(A)
        await made.zone_is(A, Observation.RETURNING, permission=Permission.HELD)
        made.freeze_zone(A)
        await made.zone_is(A, Observation.DOWN, permission=Permission.HELD)

        # With another one the whole cluster is frozen, and so is what is lost elsewhere.
        made.freeze_zone(B)
        await made.zone_is(B, Observation.DOWN, permission=Permission.HELD)
        made.kill(ELSEWHERE)
        await made.kill_leaders()
        await made.evaluations()
        assert made.gates.cluster[-1].gate.permission is Permission.HELD
        await made.alert_stands("clusterFrozen")
        await made.has_moved(0)
        # A bookie that were still away when the zones are back would be an ordinary loss. On a
        # busy machine its start may take longer than their hold-up and the delay before repair.
        await made.start([ELSEWHERE])
        made.thaw_zone(A)
        made.thaw_zone(B)
        await made.calm()
        await made.has_moved(0)
        assert held <= await copies.every(made.client.cluster)


async def test_who_wakes_up_in_an_outage_does_not_trust_what_was_known(ground: Ground) -> None:
    async with world(ground) as made:
        held = await copies.every(made.client.cluster)
        made.freeze_autorecovery()
        made.kill_zone(B)
        await made.lasts(LONG_S)
        made.thaw_autorecovery()
        down = await made.zone_is(B, Observation.DOWN, permission=Permission.HELD)
        made.freeze_store()
        await made.lasts(LONG_S)
        made.zookeeper.go_on()
        await made.evaluations()
        assert made.gates.zone(B).gate.token == down.gate.token
        await made.has_moved(0)

        made.freeze_autorecovery()
        await made.start(made.members(B))
        await made.lasts(LONG_S)
        made.thaw_autorecovery()
        await made.zone_is(B, Observation.RETURNING, permission=Permission.HELD)
        await made.calm()

        made.freeze_store()
        made.kill_zone(C)
        await made.lasts(LONG_S)
        made.zookeeper.go_on()
        await made.zone_is(C, Observation.DOWN, permission=Permission.HELD)
        await made.start(made.members(C))
        await made.calm()
        await made.evaluations()
        await made.has_moved(0)
        assert held <= await copies.every(made.client.cluster)
