"""A time is found in a log of batches, whatever was trimmed before it."""

from tests.client.lab import Lab, played
from tests.log.logging_lab import (
    NAME,
    WallClock,
    create,
    reader_of,
    record_of,
)
from tests.log.publishing.query_lab import (
    batch,
    committed,
    large,
    payloads,
    querying,
    written,
)
from zonekeeper.log.publishing.query_logs import QueryLogs
from zonekeeper.log.sessions import trimming


@played()
async def test_a_time_is_found_behind_ledgers_whose_latest_message_was_trimmed(lab: Lab) -> None:
    """A ledger's latest time may be that of an attempt before it, as tasks have many clocks."""
    await create(lab)
    wall = WallClock()
    async with lab.client("query") as client:
        logs = QueryLogs(client, wall)
        parts = []
        for partition, ms in enumerate([3_000, 1_000, 2_000]):
            wall.ms = ms
            many = [large(2 * partition), large(2 * partition + 1)]
            parts.append(await written(logs, batch(0), partition, many))
        await logs.publish(parts)
        wall.ms = 4_000
        await committed(logs, batch(1), 9)
        reader = reader_of(client)
        assert await reader.at_time(2_500) == await reader.at_sequence(0)
        await trimming.to_sequence(client, NAME, await record_of(lab), 2)
        assert await reader.at_time(2_500) == await reader.at_sequence(6), "none is left of 3,000"
        assert await reader.at_time(1_500) == await reader.at_sequence(4)
        assert await reader.at_time(4_001) is None
        await trimming.to_time(client, NAME, await record_of(lab), 2_500)
        assert await payloads(client) == [b"message 9"]


@played()
async def test_a_time_is_found_where_all_was_trimmed_up_to_a_manifest(lab: Lab) -> None:
    await create(lab)
    async with querying(lab) as logs:
        await logs.publish([await written(logs, batch(0), 0, map(large, range(2)))])
        await trimming.to_time(logs.client, NAME, await record_of(lab), 9_000)
        assert [one.end.messages for one in (await record_of(lab)).ledgers if one.end] == [0]
        await committed(logs, batch(1), 2, 3)
        reader = reader_of(logs.client)
        assert await reader.at_time(0) == await reader.at_sequence(2)
        await trimming.to_time(logs.client, NAME, await record_of(lab), 1_000)
        assert await payloads(logs.client) == [b"message 2", b"message 3"]
