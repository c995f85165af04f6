"""A log as a stream, over real bookies in virtual time: every message in one micro-batch."""

import itertools
from dataclasses import replace

import pytest

from tests.client.lab import Lab, played
from tests.log.logging_lab import NAME, NEW, SHORT, WallClock, create, numbers, writing
from tests.log.publishing.query_lab import batch, committed, querying, written
from tests.pipeline.source.test_planning import growing, opened, sequences
from zonekeeper.log.api.log_client import LogClient
from zonekeeper.log.base.errors import LogTrimmed
from zonekeeper.log.publishing.partitions import AttemptEnd
from zonekeeper.metadata.formats.log_record import OtherIncarnation
from zonekeeper.metadata.logs import logs
from zonekeeper.metadata.logs.log_cursor import CursorTaken
from zonekeeper.pipeline.reading.admission import StreamOffset
from zonekeeper.pipeline.reading.wanted import AtSequence, OneLog, OnTrimmed, ReadEdge
from zonekeeper.pipeline.source.log_stream import LogStream, StreamLimits

TOKENS = itertools.count()
NO_LIMIT = StreamLimits()
#: Messages that make a partition too large for a part: its task writes a ledger.
MANY = 20_000


def stream(client: LogClient, **wanted: object) -> LogStream:
    log = replace(OneLog(name=NAME), **wanted)  # type: ignore[arg-type]  # fields by their names
    return LogStream(client, log, f"token-{next(TOKENS)}", WallClock())


async def batches(one: LogStream, client: LogClient, limits: StreamLimits) -> list[list[int]]:
    """Run a query until it has all, and give the sequences of each micro-batch."""
    start, found = await one.initial(), []
    while (look := await one.look(start, limits)).end != start:
        tasks = await one.tasks(start, look.end, 2)
        found.append(await sequences(client.client, tasks))
        assert await sequences(client.client, await one.tasks(start, look.end, 1)) == found[-1]
        start = look.end
    assert (await one.look(start, limits)).available.sequence >= start.sequence
    return found


@played()
async def test_limits_of_rows_are_kept_to_the_message(lab: Lab) -> None:
    async with growing(lab, 32), opened(lab) as spark:
        for rows in (1, 7, 12, 24, 32, 100):
            found = await batches(stream(spark), spark, StreamLimits(rows=rows))
            assert [one for many in found for one in many] == list(range(32))
            assert all(len(many) == rows for many in found[:-1])
        assert await batches(stream(spark), spark, NO_LIMIT) == [list(range(32))]
        begun = await batches(stream(spark, first=AtSequence(30)), spark, NO_LIMIT)
        assert begun == [[30, 31]]


@played()
async def test_limits_of_bytes_are_kept_to_the_batch_of_the_log(lab: Lab) -> None:
    async with growing(lab, 32), opened(lab) as spark:
        reader = spark.reader(NAME)
        ends, sizes = [], []
        async for one in reader.read():
            ends.append(one.sequence + len(one.batch))
            ledger = await spark.client.open(one.ledger, recover=False)
            async for entry in ledger.read_entries(one.entry, one.entry):
                sizes.append((one.sequence, len(entry.payload)))
        previous = 0
        for most in (1, 150, 400, 1_000, 10_000):
            found = await batches(stream(spark), spark, StreamLimits(size_bytes=most))
            assert [one for many in found for one in many] == list(range(32))
            assert all(many[-1] + 1 in ends for many in found)
            nothing: list[int] = []
            for many, following in zip(found, [*found[1:], nothing], strict=True):
                have = [size for sequence, size in sizes if sequence in many]
                assert sum(have) <= most or len(have) == 1
                then = [size for sequence, size in sizes if sequence in following]
                assert not then or sum(have) + then[0] > most
            assert previous == 0 or len(found) <= previous
            previous = len(found)
            if most == 1:
                assert [many[-1] + 1 for many in found] == ends
        assert previous == 1
        both = await batches(stream(spark), spark, StreamLimits(size_bytes=10_000, rows=5))
        assert all(len(many) == 5 for many in both[:-1])


@played()
async def test_a_target_is_the_end_whatever_comes_later(lab: Lab) -> None:
    async with opened(lab) as spark:
        async with growing(lab, 12):
            target = await stream(spark).available()
        async with lab.client("second") as client, writing(client, "second") as writer:
            await writer.flushed(await writer.append_many(numbers(12, 5)) - 1)
            limits = StreamLimits(rows=5, target=target)
            assert (await batches(stream(spark), spark, limits))[-1] == [10, 11]
            everything = await batches(stream(spark), spark, NO_LIMIT)
            assert everything == [list(range(17))]


@played()
async def test_a_range_is_the_same_for_ever_and_a_query_goes_on_from_its_offset(lab: Lab) -> None:
    async with opened(lab) as spark:
        async with growing(lab, 20):
            one = stream(spark)
            start = await one.initial()
            first = (await one.look(start, NO_LIMIT)).end
        async with lab.client("second") as client, writing(client, "second") as writer:
            await writer.flushed(await writer.append_many(numbers(20, 15)) - 1)
            again = stream(spark)
            tasks = await again.tasks(start, first, 3)
            assert await sequences(spark.client, tasks) == list(range(20))
            second = (await again.look(first, NO_LIMIT)).end
            tasks = await again.tasks(first, second, 3)
            assert await sequences(spark.client, tasks) == list(range(20, 35))
            ahead = replace(second, sequence=second.sequence + 5)
            assert (await again.look(ahead, NO_LIMIT)).end == ahead  # an end never goes back


@played()
async def test_what_was_trimmed_fails_or_is_passed_over(lab: Lab) -> None:
    async with growing(lab, 32), opened(lab) as spark:
        start = await stream(spark).initial()
        end = (await stream(spark).look(start, StreamLimits(rows=20))).end
        await spark.trim(NAME, 14)
        for ask in (stream(spark).look(start, NO_LIMIT), stream(spark).tasks(start, end, None)):
            with pytest.raises(LogTrimmed, match="goes on at message 0, and those before 14 were"):
                await ask
        goes_on = stream(spark, on_trimmed=OnTrimmed.EARLIEST)
        tasks = await goes_on.tasks(start, end, None)
        assert await sequences(spark.client, tasks) == list(range(14, 20))
        assert (await goes_on.look(start, StreamLimits(rows=3))).end.sequence == 17


@played()
async def test_a_new_query_at_the_latest_keeps_its_place_with_the_log(lab: Lab) -> None:
    await create(lab, SHORT)
    wanted = {"first": ReadEdge.LATEST, "cursor": "mine"}
    async with (
        opened(lab) as spark,
        lab.client("first") as client,
        writing(client, "first") as writer,
    ):
        await writer.flushed(await writer.append_many(numbers(0, 5)) - 1)
        start = await stream(spark, **wanted).initial()
        assert start.sequence == 5
        await writer.flushed(await writer.append_many(numbers(5, 5)) - 1)
        one = stream(spark, **wanted)
        assert await one.initial() == start  # as after a first micro-batch that failed
        end = (await one.look(start, StreamLimits(rows=3))).end
        assert await sequences(spark.client, await one.tasks(start, end, None)) == [5, 6, 7]
        assert (await spark.cursors(NAME))["mine"].position.sequence == 5
        await one.committed(end)
        assert (await spark.cursors(NAME))["mine"].position.sequence == 8
        await one.committed(start)  # what is committed again moves nothing back
        restarted = stream(spark, **wanted)
        await restarted.committed(end)
        assert (await restarted.look(end, NO_LIMIT)).end.sequence == 10
        another = await stream(spark, **wanted).initial()
        assert another == StreamOffset(log_id=end.log_id, at=end.at, sequence=8)
        later = (await one.look(end, NO_LIMIT)).end
        with pytest.raises(CursorTaken):
            await one.committed(later)
        await restarted.committed(later)


@played()
async def test_retention_passes_a_cursor_in_words_only(lab: Lab) -> None:
    async with growing(lab, 20), opened(lab) as spark:
        one = stream(spark, cursor="mine")
        await one.initial()
        await spark.trim(NAME, 5)
        start = await stream(spark, cursor="mine").initial()
        assert start.sequence == 0
        with pytest.raises(LogTrimmed, match="goes on at message 0"):
            await one.look(start, NO_LIMIT)


@played()
async def test_a_checkpoint_of_another_incarnation_is_refused(lab: Lab) -> None:
    async with opened(lab) as spark:
        async with growing(lab, 12):
            start = await stream(spark).initial()
            end = (await stream(spark).look(start, NO_LIMIT)).end
        await spark.delete(NAME)
        await logs.create(await lab.cluster(), NAME, replace(NEW, id="ab" * 16))
        one = stream(spark, cursor="mine")
        for ask in (one.look(start, NO_LIMIT), one.tasks(start, end, None), one.committed(end)):
            with pytest.raises(OtherIncarnation, match="was deleted and made anew"):
                await ask
        assert await spark.cursors(NAME) == {}


@played()
async def test_batches_of_queries_are_read_like_any_other_messages(lab: Lab) -> None:
    """Their ledgers end with manifests, which have no message; one has nothing else."""
    await create(lab)
    async with querying(lab) as queries, opened(lab) as spark:
        await committed(queries, batch(0), 0, 1)
        part = await written(queries, batch(1), 0, numbers(2, MANY))
        assert isinstance(part, AttemptEnd)
        await queries.publish([part])
        await committed(queries, batch(2), MANY + 2)
        for most in (30_000, 300_000, 10_000_000):
            found = await batches(stream(spark), spark, StreamLimits(size_bytes=most))
            assert [one for many in found for one in many] == list(range(MANY + 3))
        one = stream(spark, first=AtSequence(MANY))
        assert await batches(one, spark, StreamLimits(size_bytes=1)) == [
            [MANY, MANY + 1],
            [MANY + 2],
        ]
        async with writing(queries.client, "application") as writer:
            await writer.flushed(await writer.append_many(numbers(MANY + 3, 2)) - 1)
            for rows in (1, 2, 3, 100):
                one = stream(spark, first=AtSequence(MANY))
                found = await batches(one, spark, StreamLimits(rows=rows))
                assert [each for many in found for each in many] == list(range(MANY, MANY + 5))
