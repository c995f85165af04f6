"""A lost record is made anew with the batches of queries, and each of them is in the log once."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from tests.client.lab import Lab, played
from tests.log.api.test_log_client import connected, fill
from tests.log.logging_lab import NAME, message
from tests.log.publishing.query_lab import batch, committed, large, payloads, written
from tests.log.sessions.test_rebuilding import lose, told
from tests.simulation.patching import patched
from zonekeeper.log.api.log_client import LogClient
from zonekeeper.log.base.errors import LogDamaged
from zonekeeper.log.formats import batches
from zonekeeper.log.publishing import publishing
from zonekeeper.log.publishing.partitions import (
    AttemptEnd,
    BatchPart,
    IdlePartition,
    QueryBatch,
    WholeBatch,
)
from zonekeeper.log.publishing.query_logs import QueryLogs
from zonekeeper.metadata.formats.log_record import LogQuery, LogRecord, LogTaken
from zonekeeper.metadata.logs import log_queries, logs
from zonekeeper.placement.base.ids import LedgerId


@asynccontextmanager
async def queried(lab: Lab) -> AsyncIterator[tuple[LogClient, QueryLogs]]:
    """Give a log, and queries of it; with messages of an application first."""
    async with connected(lab) as log:
        await log.create(NAME)
        await fill(log, 2)
        yield log, QueryLogs(log.client, lambda: 5_000)


async def parts_of(queries: QueryLogs, of: QueryBatch) -> list[BatchPart]:
    """Write three partitions, two of them large; messages of batch n begin with 10 * n."""
    first = 10 * of.batch
    return [
        await written(queries, of, 0, map(large, range(first, first + 2))),
        await written(queries, of, 1, map(large, range(first + 2, first + 4))),
        await written(queries, of, 2, map(message, range(first + 4, first + 6))),
    ]


def expected(*batches: int) -> list[bytes]:
    return [
        value
        for number in batches
        for value in (
            *(b"%d/" % one for one in range(10 * number, 10 * number + 4)),
            *(b"message %d" % one for one in range(10 * number + 4, 10 * number + 6)),
        )
    ]


BEGUN = [b"message 0", b"message 1"]


async def attempts_in(log: LogClient) -> list[LedgerId]:
    """Give the attempts of the last batch that came in."""
    return [one.id for one in (await log.record(NAME)).ledgers[-3:-1]]


@played()
async def test_batches_and_what_the_record_says_of_queries_are_made_anew(lab: Lab) -> None:
    async with queried(lab) as (log, queries):
        await queries.publish(await parts_of(queries, batch(1)))
        await committed(queries, batch(2), 7)
        await fill(log, 1)
        await queries.publish(await parts_of(queries, batch(3, "r2")))
        await committed(queries, batch(0, "j", "j", is_job=True), 8)
        before = await log.record(NAME)
        known = await payloads(log.client)
        await lose(log)

        rebuilt = await log.rebuild(NAME)

        assert rebuilt.left_out == ()
        assert told(rebuilt.record) == told(before)
        assert rebuilt.record.queries == (
            LogQuery(query="q", run="r2", lost_runs=("r1",), published=3),
            LogQuery(query="j", run="j", published=0, is_over=True),
        )
        assert await payloads(log.client) == known
        assert len(known) == 2 + 6 + 1 + 1 + 6 + 1
        part = await written(queries, batch(3, "r3"), 0, [message(0)])
        assert part == IdlePartition(of=batch(3, "r3"), partition=0, is_known=True)
        with pytest.raises(LogTaken):
            await written(queries, batch(4, "r2"), 0, [message(0)])
        await committed(queries, batch(4, "r3"), 9)
        await fill(log, 1)
        assert (await payloads(log.client))[: len(known)] == known


@played()
async def test_attempts_that_no_manifest_names_do_not_count(lab: Lab) -> None:
    async with queried(lab) as (log, queries):
        lost = await parts_of(queries, batch(1))
        await queries.publish(await parts_of(queries, batch(1)))
        ahead = await parts_of(queries, batch(2))
        await lose(log)
        rebuilt = await log.rebuild(NAME)
        made = [one.ledger for one in (*lost, *ahead) if isinstance(one, AttemptEnd)]
        assert list(rebuilt.left_out) == sorted(made)
        assert await payloads(log.client) == BEGUN + expected(1)
        with pytest.raises(LogTaken):
            await queries.publish(ahead)
        await queries.publish(await parts_of(queries, batch(2, "r2")))
        assert await payloads(log.client) == BEGUN + expected(1, 2)


class Died(Exception):
    """The publisher died."""


async def dies_before_the_change(queries: QueryLogs, parts: Sequence[BatchPart]) -> None:
    async def publish(*_: object) -> LogRecord:
        raise Died

    with patched([(logs, "publish", publish)]), pytest.raises(Died):
        await queries.publish(parts)


@played()
async def test_a_whole_manifest_ledger_counts_though_its_change_never_landed(lab: Lab) -> None:
    """Nothing tells it from the last batch, which was told as published."""
    async with queried(lab) as (log, queries):
        await dies_before_the_change(queries, await parts_of(queries, batch(1)))
        assert await payloads(log.client) == BEGUN
        await lose(log)
        rebuilt = await log.rebuild(NAME)
        assert await payloads(log.client) == BEGUN + expected(1)
        assert log_queries.is_known(rebuilt.record, "q", 1), "so its repetition is discarded"
        assert (await queries.publish(await parts_of(queries, batch(1, "r2")))).was_known
        assert await payloads(log.client) == BEGUN + expected(1)


@played()
async def test_a_manifest_ledger_that_a_later_claim_passed_over_does_not_count(lab: Lab) -> None:
    async with queried(lab) as (log, queries):
        await dies_before_the_change(queries, await parts_of(queries, batch(1)))
        await queries.publish(await parts_of(queries, batch(1, "r2")))
        await lose(log)
        rebuilt = await log.rebuild(NAME)
        assert len(rebuilt.left_out) == 3
        assert await payloads(log.client) == BEGUN + expected(1)
        await dies_before_the_change(queries, await parts_of(queries, batch(2, "r3")))
        await fill(log, 1)
        known = await payloads(log.client)
        await lose(log)
        record = (await log.rebuild(NAME)).record
        assert await payloads(log.client) == known
        assert not log_queries.is_known(record, "q", 2)


@played()
async def test_a_manifest_ledger_without_its_manifest_never_counts(lab: Lab) -> None:
    """Its publisher died when all but the manifest was written."""
    async with queried(lab) as (log, queries):
        parts = await parts_of(queries, batch(1))

        with patched([(publishing, "_manifest", no_manifest)]):
            await dies_before_the_change(queries, parts)
        await lose(log)
        rebuilt = await log.rebuild(NAME)
        assert len(rebuilt.left_out) == 3
        assert rebuilt.record.queries == ()
        assert await payloads(log.client) == BEGUN


def no_manifest(*_: object) -> bytes:
    """Give another entry in its place."""
    return batches.build([message(0)], place=2, wall_ms=5_000)


@played()
async def test_trimmed_attempts_are_where_the_log_begins(lab: Lab) -> None:
    async with queried(lab) as (log, queries):
        for number in (1, 2):
            await queries.publish(await parts_of(queries, batch(number)))
        every = BEGUN + expected(1, 2)
        for start in (2, 4, 6, 8, 10, 12):
            await log.trim(NAME, start)
            before = await log.record(NAME)
            await lose(log)
            record = (await log.rebuild(NAME)).record
            assert (record.start_sequence, record.gone) == (start, before.gone), start
            assert await payloads(log.client) == every[start:]
            assert log_queries.is_known(record, "q", 2)
        await fill(log, 1)
        assert await payloads(log.client) == [*every[12:], b"message 14"]


@played()
async def test_an_attempt_that_is_gone_or_otherwise_is_named_and_nothing_is_guessed(
    lab: Lab,
) -> None:
    async with queried(lab) as (log, queries):
        await queries.publish(await parts_of(queries, batch(1)))
        first, _ = await attempts_in(log)
        await lose(log)
        await log.client.delete(first)
        with pytest.raises(LogDamaged, match=f"ledger {first} is an attempt .* is gone"):
            await log.rebuild(NAME)
        with pytest.raises(LogDamaged, match="nothing was changed"):
            await log.rebuild(NAME)
        manifest = max([one async for one in log.client.ledgers()])
        await log.rebuild(NAME, without=[manifest])
        assert await payloads(log.client) == BEGUN


@played()
async def test_a_hole_in_the_attempts_of_a_trimmed_log_is_no_trim(lab: Lab) -> None:
    async with queried(lab) as (log, queries):
        await queries.publish(await parts_of(queries, batch(1)))
        await log.trim(NAME, 2)
        _, second = await attempts_in(log)
        await lose(log)
        await log.client.delete(second)
        with pytest.raises(LogDamaged, match=f"ledger {second} is an attempt"):
            await log.rebuild(NAME)


@played()
async def test_an_older_record_gets_the_batches_that_came_later(lab: Lab) -> None:
    async with queried(lab) as (log, queries):
        await queries.publish(await parts_of(queries, batch(1)))
        store, where = log.client.cluster.store, logs.path(log.client.cluster, NAME)
        older = await store.get(where, sync=True)
        assert older is not None
        await queries.publish(await parts_of(queries, batch(2)))
        await log.trim(NAME, 4)
        now = await store.get(where, sync=True)
        assert now is not None
        await store.put(where, older.value, version=now.version)
        with pytest.raises(LogDamaged):
            await log.rebuild(NAME)  # the trim deleted ledgers that the older record has
        now = await store.get(where, sync=True)
        assert now is not None
        await log.trim(NAME, 4)
        record = (await log.rebuild(NAME)).record
        assert log_queries.is_known(record, "q", 2)
        assert record.queries[0].run == "r1"
        assert await payloads(log.client) == (BEGUN + expected(1, 2))[4:]


@played()
async def test_what_the_manifest_says_must_be_what_its_ledgers_hold(lab: Lab) -> None:
    async with queried(lab) as (log, queries):
        parts = await parts_of(queries, batch(1))
        original = publishing._manifest

        def manifest(whole: WholeBatch, messages: int) -> bytes:
            attempts = tuple(replace(one, messages=one.messages + 1) for one in whole.attempts)
            return original(replace(whole, attempts=attempts), messages)

        with patched([(publishing, "_manifest", manifest)]):
            await queries.publish(parts)
        await lose(log)
        with pytest.raises(LogDamaged, match="has 2 messages, and the manifest"):
            await log.rebuild(NAME)
