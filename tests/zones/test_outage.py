"""A zone is killed under load and comes back; meanwhile a bookie elsewhere is lost for good."""

import pytest

from tests.zones import copies
from tests.zones.world import A, Ground, world
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.zones.gate import Permission
from zonekeeper.placement.zones.observation import Observation

pytestmark = pytest.mark.processes

LOST = BookieId("bk-b-0")


async def test_nothing_is_moved_for_a_zone_that_comes_back_and_a_bookie_elsewhere_is_repaired(
    ground: Ground,
) -> None:
    async with world(ground) as made:
        made.kill_zone(A)
        await made.zone_is(A, Observation.SUSPECT, permission=Permission.HELD)
        await made.zone_is(A, Observation.DOWN, permission=Permission.HELD)
        await made.alert_stands("zoneDown")
        await made.written()
        await made.has_moved(0)
        await made.holds(LOST)
        had = await copies.every(made.client.cluster)
        held = {one for one in had if one.zone == A}
        before = await copies.closed(made.client.cluster)

        made.kill(LOST)
        await made.unnamed(LOST)
        moved = await made.moved()
        assert moved > 0
        repaired = await copies.newcomers(made.client.cluster, had)
        assert await copies.check_there(made.client, repaired) > 0
        assert held <= await copies.every(made.client.cluster)
        after = await copies.closed(made.client.cluster)
        for ledger_id, ledger in before.items():
            assert copies.zones_of(after[ledger_id]) == copies.zones_of(ledger)
            if LOST not in ledger.bookies:
                assert after[ledger_id] == ledger

        await made.start(made.members(A))
        await made.zone_is(A, Observation.RETURNING, permission=Permission.HELD)
        await made.zone_is(A, Observation.UP, permission=Permission.OPEN)
        await made.evaluations()
        await made.has_moved(moved)
        assert held <= await copies.every(made.client.cluster)
