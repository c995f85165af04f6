"""A process that is told to stop in the middle of its work."""

import asyncio

from tests.replication import recovery_lab
from tests.replication.recovery_lab import Recovering
from zonekeeper.metadata.cluster import elections
from zonekeeper.metadata.ledgers import underreplication
from zonekeeper.replication.run import process


@recovery_lab.played()
async def test_a_copy_in_flight_is_given_up_and_the_claim_given_back_within_the_limit(
    world: Recovering,
) -> None:
    loop = asyncio.get_running_loop()
    writer = await world.written(10)
    before = await world.ledger(writer.ledger_id)
    lost = writer.ensemble[0]
    async with world.process("auto-0") as running:
        await world.lab.machines[lost].crash()
        for machine in world.lab.machines.values():
            if machine.door is not None:
                machine.door.holding = True

        async def copying() -> bool:
            return running.replicator.metrics.all_bytes_moved > 0

        await world.until(copying, 600)
        assert [one.ledger_id for one in await underreplication.held(world.cluster)] == [
            writer.ledger_id
        ]
        began_s = loop.time()
    assert loop.time() - began_s < process.STOP_LIMIT_S
    assert await underreplication.held(world.cluster) == []
    assert await world.ledger(writer.ledger_id) == before
    store = world.cluster.store
    for votes in (elections.auditor_votes, elections.zone_watch_votes):
        assert await elections.leader(store, votes(world.cluster)) is None
    for machine in world.lab.machines.values():
        if machine.door is not None:
            machine.door.release()
    async with world.process("auto-1", "b"):

        async def repaired() -> bool:
            return lost not in (await world.ledger(writer.ledger_id)).bookies

        await world.until(repaired, 600)
    assert await world.readable(writer.ledger_id) == 10
