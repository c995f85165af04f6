"""What crossed zones is counted; and what is outstanding, over all of a client's readers."""

import asyncio
import dataclasses

from tests.client.api.test_writer import fill
from tests.client.lab import Lab, played, policy
from zonekeeper.client.api.client import Client
from zonekeeper.client.api.reader import Reader
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.client.base.counters import ClientCounters
from zonekeeper.placement.base.ids import LedgerId, ZoneName
from zonekeeper.placement.ensembles.read_order import Reason
from zonekeeper.placement.policy.rules import ReadRules

READS_OUTSTANDING = 8


async def one(client: Client, count: int) -> LedgerId:
    async with await client.create() as writer:
        await fill(writer, count)
    return writer.ledger_id


async def read(reader: Reader) -> int:
    return len([entry async for entry in reader.read_entries()])


@played()
async def test_the_bytes_of_one_zone_and_of_the_others_are_told_apart(lab: Lab) -> None:
    async with lab.client() as client:
        written = await one(client, 100)
        counters = client.counters
        assert counters.bytes_written_remote == 2 * counters.bytes_written_local > 0
        assert await read(await client.open(written)) == 100
        assert (counters.bytes_read_remote, counters.spill_ratio) == (0, 0.0)
        assert counters.bytes_read_local > 0
    async with lab.client(config=ClientConfig(zone=ZoneName("elsewhere"))) as client:
        assert await read(await client.open(written)) == 100
        assert client.counters.bytes_read_local == 0
        assert client.counters.bytes_read_remote > 0
        assert client.counters.reads_remote == {Reason.NO_LOCAL_REPLICA: 1}
        assert client.counters.spill_ratio == 0.0


SPILLING = dataclasses.replace(
    policy(), reads=ReadRules(pending_limit=READS_OUTSTANDING, hedge_after_ms=60_000)
)


@played(rules=SPILLING)
async def test_what_is_outstanding_is_counted_over_all_readers_and_then_spills(lab: Lab) -> None:
    async with lab.client() as client:
        written = await one(client, 10)
        readers = [await client.open(written) for _ in range(2 * READS_OUTSTANDING)]
        ensemble = readers[0].metadata.last_fragment.ensemble
        local = lab.door(next(who for who in ensemble if "-a-" in who))
        local.hold_reads = asyncio.Event()
        async with asyncio.TaskGroup() as all_of_them:
            for reader in readers:
                all_of_them.create_task(read(reader))
                await asyncio.sleep(0.01)
            counters = client.counters
            assert counters.reads_local == READS_OUTSTANDING
            assert counters.reads_remote == {Reason.BUSY: READS_OUTSTANDING}
            assert counters.spill_ratio == 0.5
            local.hold_reads.set()


def test_nothing_read_is_no_spill() -> None:
    assert ClientCounters().spill_ratio == 0.0
