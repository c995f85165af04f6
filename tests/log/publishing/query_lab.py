"""Queries in a small cluster in virtual time: their tasks, and what they publish."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from tests.client.lab import Lab
from tests.log.logging_lab import NAME, WallClock, message, read_all
from zonekeeper.client.api.client import Client
from zonekeeper.log.formats.messages import LogMessage
from zonekeeper.log.publishing.partitions import BatchPart, QueryBatch
from zonekeeper.log.publishing.query_logs import QueryLogs
from zonekeeper.metadata.logs.log_queries import QueryRun

#: Larger than what travels in a part.
LARGE = b"x" * (300 << 10)


def batch(number: int, run: str = "r1", query: str = "q", *, is_job: bool = False) -> QueryBatch:
    return QueryBatch(log=NAME, run=QueryRun(query=query, run=run), batch=number, is_job=is_job)


def large(number: int) -> LogMessage:
    return LogMessage(payload=b"%d/" % number + LARGE)


@asynccontextmanager
async def querying(lab: Lab, who: str = "query") -> AsyncIterator[QueryLogs]:
    async with lab.client(who) as client:
        yield QueryLogs(client, WallClock())


async def written(
    logs: QueryLogs, of: QueryBatch, partition: int, many: Iterable[LogMessage]
) -> BatchPart:
    """Write a partition, as one attempt of its task."""
    attempt = logs.attempt(of, partition)
    await attempt.append_many(many)
    return await attempt.finish()


async def committed(logs: QueryLogs, of: QueryBatch, *numbers: int) -> None:
    """Publish a batch of one small partition, whose messages have these numbers."""
    await logs.publish([await written(logs, of, 0, map(message, numbers))])


async def payloads(client: Client) -> list[bytes]:
    """Read the log; of a large message the beginning."""
    found = await read_all(client)
    assert [one.sequence for one in found] == list(
        range(found[0].sequence, found[0].sequence + len(found)) if found else []
    )
    assert [one.id for one in found] == sorted({one.id for one in found})
    return [bytes(one.message.payload).removesuffix(LARGE) for one in found]
