"""A copy of a log: its messages keep sequences and times, and come in in order, or not at all."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.client.lab import Lab, played
from tests.log.api.test_log_client import connected, fill
from tests.log.batching import columns
from tests.log.logging_lab import NAME, create, message, read_all, record_of
from tests.log.publishing.query_lab import batch, large, payloads, querying
from tests.log.sessions.test_rebuilding import lose, told
from zonekeeper.log.base.errors import BadBatch, LogTrimmed
from zonekeeper.log.formats.messages import BadMessageError, LogMessage
from zonekeeper.log.publishing.partitions import (
    AttemptEnd,
    BatchPart,
    CopyTaken,
    IdlePartition,
    QueryBatch,
    SmallPartition,
)
from zonekeeper.log.publishing.query_logs import QueryLogs
from zonekeeper.metadata.formats.log_record import LogRecord

FIRST = 500


def copy(at: int, run: str = "r1", query: str = "q", number: int | None = None) -> QueryBatch:
    of = batch(at if number is None else number, run=run, query=query)
    return replace(of, begins_at=at)


async def copied(
    logs: QueryLogs, of: QueryBatch, many: Sequence[LogMessage], times: Sequence[int]
) -> BatchPart:
    attempt = logs.attempt(of, 0)
    await attempt.append_columns(columns(many), times)
    return await attempt.finish()


@played()
async def test_messages_keep_their_sequences_and_their_times(lab: Lab) -> None:
    async with connected(lab) as log:
        await log.create(NAME, first_sequence=FIRST)
        assert await log.reader(NAME).end() == FIRST
        with pytest.raises(LogTrimmed, match="was never in it: its first message has sequence 500"):
            await log.reader(NAME).at_sequence(FIRST - 1)
        logs = QueryLogs(log.client, lambda: 9_000)
        small = [message(one) for one in range(4)]
        kept = await copied(logs, copy(FIRST), small, [7, 7, 8, 12])
        assert isinstance(kept, SmallPartition)
        assert (await logs.publish([kept])).sequence == FIRST
        many = [large(one) for one in range(4)]
        part = await copied(logs, copy(FIRST + 4), many, [3, 3, 5, 5])
        assert isinstance(part, AttemptEnd)
        await logs.publish([part])

        found = await read_all(log.client)
        assert [one.sequence for one in found] == list(range(FIRST, FIRST + 8))
        assert [one.message for one in found] == small + many
        read = [one async for one in log.reader(NAME).read()]
        times = [one.batch.wall_ms for one in read for _ in range(len(one.batch))]
        assert times == [7, 7, 8, 12, 3, 3, 5, 5]
        at = await log.reader(NAME).at_time(8)
        assert at is not None
        assert await log.reader(NAME).sequence_of(at) == FIRST + 2


@played()
async def test_a_time_that_falls_in_a_ledger_becomes_that_before_it(lab: Lab) -> None:
    await create(lab)
    async with querying(lab) as logs:
        many = [message(one) for one in range(3)]
        await logs.publish([await copied(logs, copy(0), many, [9, 4, 11])])
        ends = [one.end for one in (await record_of(lab)).ledgers]
        assert [(one.first_ms, one.last_ms) for one in ends if one] == [(9, 11)]
        assert len(await payloads(logs.client)) == 3


@played()
async def test_times_that_none_may_give_or_that_none_has_are_refused(lab: Lab) -> None:
    await create(lab)
    async with querying(lab) as logs:
        with pytest.raises(BadBatch, match="is no copy"):
            await copied(logs, batch(0), [message(0)], [5])
        for wrong in (-1, 1 << 63):
            with pytest.raises(BadMessageError, match="a time is 0 ms or later"):
                await copied(logs, copy(0), [message(0)], [wrong])
        assert (await record_of(lab)).ledgers == ()


@played()
async def test_a_copy_that_would_leave_a_gap_or_come_twice_is_refused(lab: Lab) -> None:
    await create(lab)
    async with querying(lab) as logs:
        await logs.publish([await copied(logs, copy(0), [message(0), message(1)], [1, 1])])
        before = await record_of(lab)
        for at, number in ((3, 3), (1, 1)):
            with pytest.raises(BadBatch, match=f"{at}, and the next one of the log is 2"):
                await copied(logs, copy(at, number=number), [message(at)], [1])
        again = await copied(logs, copy(0, run="r2"), [message(0)], [1])
        assert isinstance(again, IdlePartition)
        assert (await logs.publish([again])).was_known
        assert await record_of(lab) == before, "a refusal takes the log from nobody"


@played()
async def test_a_copy_is_refused_too_if_the_log_got_messages_after_its_tasks(lab: Lab) -> None:
    """Its parts were written while it would have fitted."""
    await create(lab)
    async with querying(lab) as logs:
        one = await copied(logs, copy(0), [message(0)], [1])
        other = await copied(logs, copy(0, number=1), [large(0)], [1])
        await logs.publish([one])
        with pytest.raises(BadBatch, match="has sequence 0, and the next one of the log is 1"):
            await logs.publish([other])
        assert await payloads(logs.client) == [b"message 0"]


@played()
async def test_a_log_that_another_writer_has_or_had_is_no_copy(lab: Lab) -> None:
    async with connected(lab) as log:
        await log.create(NAME)
        logs = QueryLogs(log.client, lambda: 9_000)
        await logs.publish([await copied(logs, copy(0), [message(0)], [1])])
        # A run of the same query takes over from the one before.
        await logs.publish([await copied(logs, copy(1, run="r2"), [message(1)], [1])])
        with pytest.raises(CopyTaken, match="copy into another log"):
            await copied(logs, copy(2, query="q2"), [message(2)], [1])
        await fill(log, 1)
        epoch = (await log.record(NAME)).epoch
        with pytest.raises(CopyTaken, match="is written by another writer"):
            await copied(logs, copy(3, run="r3"), [message(3)], [1])
        assert (await log.record(NAME)).epoch == epoch


@played()
async def test_partitions_that_are_never_small_come_in_their_order(lab: Lab) -> None:
    await create(lab)
    async with querying(lab) as logs:
        parts = []
        for partition, size in enumerate([2, 5, 1]):
            attempt = logs.attempt(copy(0), partition, small_bytes=0)
            many = [message(10 * partition + one) for one in range(size)]
            await attempt.append_columns(columns(many), [50 - partition] * size)
            parts.append(await attempt.finish())
        assert all(isinstance(one, AttemptEnd) for one in parts)
        await logs.publish(parts)
        expected = [0, 1, 10, 11, 12, 13, 14, 20]
        assert await payloads(logs.client) == [b"message %d" % one for one in expected]


@played()
async def test_a_lost_record_of_a_copy_begins_where_the_copy_does(lab: Lab) -> None:
    async with connected(lab) as log:
        await log.create(NAME, first_sequence=FIRST)
        logs = QueryLogs(log.client, lambda: 9_000)
        await logs.publish([await copied(logs, copy(FIRST), [large(0)], [1])])
        await logs.publish([await copied(logs, copy(FIRST + 1), [message(1)], [1])])
        before = await log.record(NAME)
        await lose(log)
        rebuilt = (await log.rebuild(NAME)).record
        assert rebuilt.start_sequence == FIRST
        assert told(rebuilt) == told(before)
        await logs.publish([await copied(logs, copy(FIRST + 2, run="r2"), [message(2)], [1])])
        assert len(await payloads(log.client)) == 3


@played()
async def test_a_copy_that_is_set_back_before_its_first_batch_keeps_its_first_sequence(
    lab: Lab,
) -> None:
    async with connected(lab) as log:
        await log.create(NAME, first_sequence=FIRST)
        logs = QueryLogs(log.client, lambda: 9_000)
        await copied(logs, copy(FIRST), [large(0)], [1])
        rebuilt: LogRecord = (await log.rebuild(NAME)).record
        assert (rebuilt.start_sequence, rebuilt.ledgers) == (FIRST, ())


@played()
async def test_a_log_begins_at_a_number(lab: Lab) -> None:
    async with connected(lab) as log:
        for wrong in (-1, 1 << 63):
            with pytest.raises(ValueError, match="first_sequence"):
                await log.create(NAME, first_sequence=wrong)
        await log.create(NAME, first_sequence=FIRST)
        await fill(log, 3)
        found = await read_all(log.client)
        assert [one.sequence for one in found] == [FIRST, FIRST + 1, FIRST + 2]
        await log.trim(NAME, FIRST + 2)
        assert [one.sequence for one in await read_all(log.client)] == [FIRST + 2]
