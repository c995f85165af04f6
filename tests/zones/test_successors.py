"""The auditor's and the zone watch's process is killed in each state of a lost zone.

Another process goes on each time: what was held stays held, held time goes on from where it was,
and what was released is repaired to the end. The owner's rule is ``repairAfter`` a minute, so a
held time that began again with each successor would open the gate minutes late, and one that was
lost sight of never.
"""

from dataclasses import replace

import pytest

from tests.zones import copies
from tests.zones.world import REPAIR, A, B, Ground, World, world
from zonekeeper.placement.base.units import KIB, MINUTE_MS
from zonekeeper.placement.policy.rules import OnZoneLoss
from zonekeeper.placement.zones.gate import RULE, Permission
from zonekeeper.placement.zones.observation import Observation

pytestmark = pytest.mark.processes

#: Slow enough for a repair to be met at work.
SLOW = replace(REPAIR, bytes_per_second=200 * KIB)
AFTER = replace(SLOW, on_zone_loss=OnZoneLoss.REPAIR_AFTER, after_ms=MINUTE_MS)


async def succeeded(made: World) -> None:
    """Kill the leader, and wait until another process leads and evaluates."""
    await made.kill_leaders()
    await made.evaluations(2)
    await made.leaders()


async def repairing(made: World) -> None:
    """Wait until ledgers are being repaired."""

    async def so() -> bool:
        metrics = (await made.metrics()).values()
        return any(one.sum_of("zonekeeper_repair_under_way") for one in metrics)

    await made.until(so, "a repair is under way")


async def test_a_hold_outlives_its_watchers_and_opens_by_the_rule_when_it_is_time(
    ground: Ground,
) -> None:
    async with world(ground, repair=AFTER) as made:
        made.kill_zone(A)
        suspect = await made.zone_is(A, Observation.SUSPECT, permission=Permission.HELD)
        await succeeded(made)
        await made.zone_is(A, Observation.DOWN, permission=Permission.HELD)
        await succeeded(made)
        await succeeded(made)
        had = await copies.every(made.client.cluster)
        held = await made.zone_is(A, Observation.DOWN, permission=Permission.HELD)
        assert held.gate.token == suspect.gate.token
        await made.has_moved(0)
        assert A in {copies.zone_of(one) for one in await copies.named(made.client.cluster)}

        released = await made.zone_is(A, Observation.DOWN, permission=Permission.RELEASED)
        assert (released.gate.set_by, released.gate.token) == (RULE, suspect.gate.token)
        assert MINUTE_MS <= released.gate.held_ms < 2 * MINUTE_MS
        await repairing(made)
        await succeeded(made)
        assert (await made.zone_is(A, Observation.DOWN)).gate.permission is Permission.RELEASED
        await made.unnamed(*made.members(A))
        repaired = await copies.newcomers(made.client.cluster, had)
        assert await copies.check_there(made.client, repaired) > 0


async def test_a_return_is_held_up_whoever_watches(ground: Ground) -> None:
    async with world(ground) as made:
        held = {one for one in await copies.every(made.client.cluster) if one.zone == B}
        made.kill_zone(B)
        await made.zone_is(B, Observation.DOWN, permission=Permission.HELD)
        await made.start(made.members(B))
        await made.zone_is(B, Observation.RETURNING, permission=Permission.HELD)
        await made.kill_leaders()
        await made.zone_is(B, Observation.UP, permission=Permission.OPEN)

        lost = made.members(B)[0]
        await made.holds(lost)
        person = ("--by", "anna", "--reason", "a switch is changed")
        await made.shell("autorecovery", "hold", "--zone", B, *person)
        made.kill(lost)
        await succeeded(made)
        await made.evaluations()
        assert made.gates.zone(B).gate.held_by is not None
        await made.has_moved(0)
        assert held <= await copies.every(made.client.cluster)
        await made.shell("autorecovery", "release", "--zone", B, "--yes", *person)
        await made.unnamed(lost)
        assert await made.moved() > 0
