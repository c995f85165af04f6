"""Planning and reading over real bookies in virtual time: exactly what was asked for, each time."""

from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace

import pytest

from tests.client.lab import Lab, played
from tests.log.logging_lab import (
    NAME,
    NEW,
    SHORT,
    SILENT,
    WallClock,
    create,
    message,
    numbers,
    writing,
)
from zonekeeper.client.api.client import Client, Surroundings
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.client.base.errors import NoSuchLedger, Unauthorized
from zonekeeper.log.api.log_client import LogClient
from zonekeeper.log.base.errors import LogDamaged, LogTrimmed, NotInLog
from zonekeeper.metadata.formats.log_record import LogDeleting, OtherIncarnation
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.metadata.logs import logs
from zonekeeper.metadata.logs.logs import NoLogError
from zonekeeper.pipeline.base.connection_options import ConnectionOptions
from zonekeeper.pipeline.reading.options import ReadOptions
from zonekeeper.pipeline.reading.slices import EntrySlice, LogSpan, NotReadable, ReadTask
from zonekeeper.pipeline.reading.wanted import (
    AtSequence,
    AtTime,
    LedgersInRange,
    LedgersWith,
    OneLedger,
    OneLog,
    ReadEdge,
    ReadPlace,
    Wanted,
)
from zonekeeper.pipeline.source import planning, task_reading
from zonekeeper.placement.base.ids import EntryId, LedgerId, ZoneName
from zonekeeper.wire.formats.entries import Entry

ELSEWHERE = ConnectionOptions(metadata="memory:")


def asked(wanted: Wanted, partitions: int | None = None) -> ReadOptions:
    return ReadOptions(connection=ELSEWHERE, wanted=wanted, partitions=partitions)


def of_log(first: ReadPlace | None = None, last: ReadPlace | None = None) -> OneLog:
    return OneLog(name=NAME, first=first, last=last)


@asynccontextmanager
async def opened(lab: Lab, name: str = "spark", password: bytes = b"") -> AsyncIterator[LogClient]:
    config = ClientConfig(zone=ZoneName("a"), password=password)
    async with lab.client(name, config) as client:
        yield LogClient(client, Surroundings(lab.chance, lambda: 1))


async def sequences(client: Client, tasks: Sequence[ReadTask]) -> list[int]:
    """Read tasks one after the other, check each message, and give the sequences."""
    found = []
    for task in tasks:
        assert task.span is not None
        async with aclosing(task_reading.log_on_loop(client, task)) as many:
            async for part, entries in many:
                for entry in entries:
                    piece = task_reading.piece_of(task.span, part, entry)
                    for at in range(piece.first, piece.end) if piece else ():
                        assert piece is not None
                        assert piece.batch.message(at) == message(piece.sequence + at)
                        found.append(piece.sequence + at)
    return found


async def entries(client: Client, tasks: Sequence[ReadTask]) -> list[Entry]:
    found: list[Entry] = []
    for task in tasks:
        async with aclosing(task_reading.entries_on_loop(client, task)) as many:
            async for some in many:
                found += some
    return found


async def fill(client: Client, wall: WallClock, token: str, first: int, count: int) -> None:
    """Write messages three by three, a second apart, and end like a process that dies."""
    mark = writing(client, token, wall)
    async with mark as writer:
        for number in range(first, first + count, 3):
            last = await writer.append_many(numbers(number, min(3, first + count - number)))
            await writer.flushed(last - 1)
            wall.ms += 1_000


@asynccontextmanager
async def growing(lab: Lab, count: int) -> AsyncIterator[WallClock]:
    """A log of so many messages in ledgers of ten; its last ledger is open inside the block."""
    await create(lab, SHORT)
    wall = WallClock()
    async with lab.client("first") as client, writing(client, "first", wall) as writer:
        for number in range(0, count, 3):
            last = await writer.append_many(numbers(number, min(3, count - number)))
            await writer.flushed(last - 1)
            wall.ms += 1_000
        yield wall


@played()
async def test_any_span_of_a_log_is_read_whole_in_any_number_of_tasks(lab: Lab) -> None:
    async with growing(lab, 32), opened(lab) as spark:
        reader = spark.reader(NAME)
        for first, last in ((0, 31), (4, 4), (9, 10), (11, 29), (24, 31), (30, 31)):
            ids = await reader.at_sequence(first), await reader.at_sequence(last)
            for start, stop in (ids, (AtSequence(first), AtSequence(last))):
                for partitions in (None, 1, 2, 5):
                    options = asked(of_log(start, stop), partitions)
                    tasks = await planning.planned(spark, options)
                    assert await sequences(spark.client, tasks) == list(range(first, last + 1))


@played()
async def test_the_edges_and_times_of_a_log(lab: Lab) -> None:
    async with growing(lab, 32) as wall, opened(lab) as spark:

        async def read(first: ReadPlace | None, last: ReadPlace | None = None) -> list[int]:
            tasks = await planning.planned(spark, asked(of_log(first, last)))
            return await sequences(spark.client, tasks)

        assert await read(None) == list(range(32))
        assert await read(ReadEdge.EARLIEST, ReadEdge.LATEST) == list(range(32))
        assert await read(ReadEdge.LATEST) == []
        assert await read(AtSequence(32)) == []
        assert await read(AtTime(0), AtTime(1_000)) == [0, 1, 2]
        assert await read(AtTime(1_001), AtTime(3_000)) == list(range(3, 9))
        assert await read(AtTime(wall.ms + 1)) == []
        assert await read(AtTime(3_000), AtTime(wall.ms + 1)) == list(range(6, 32))
        with pytest.raises(NotInLog, match="message 33 is ahead of its end"):
            await read(AtSequence(33))
        with pytest.raises(NotInLog, match="is ahead of its end"):
            await read(None, AtSequence(32))
        id_of_5 = await spark.reader(NAME).at_sequence(5)
        with pytest.raises(NotInLog, match="to stands before from: message 5 before message 20"):
            await read(AtSequence(20), id_of_5)
        with pytest.raises(NotInLog, match=r"has no message 999999:"):
            await read(MessageId(LedgerId(999_999), id_of_5.entry, 0))
        await spark.trim(NAME, 14)
        assert await read(None) == list(range(14, 32))
        with pytest.raises(LogTrimmed):
            await read(AtSequence(13))


@played()
async def test_a_task_gives_the_same_rows_whatever_becomes_of_the_log(lab: Lab) -> None:
    async with opened(lab) as spark:
        async with growing(lab, 32):
            tasks = await planning.planned(spark, asked(of_log(), 3))
            assert any(part.was_open for task in tasks for part in task.slices)
            async with opened(lab, "another") as other:  # its bookies may have told it less
                assert await sequences(other.client, tasks) == list(range(32))
        async with lab.client("second") as client:
            await fill(client, WallClock(), "second", 32, 20)
        for _ in range(2):
            assert await sequences(spark.client, tasks) == list(range(32))


@played()
async def test_what_was_confirmed_is_read_also_where_bookies_have_not_told_of_it(lab: Lab) -> None:
    await create(lab)
    async with (
        lab.client("first", SILENT) as client,
        writing(client, "first") as writer,
        opened(lab) as spark,
    ):
        await writer.stored(await writer.append_many(numbers(0, 3)) - 1)
        record = await spark.record(NAME)
        ledger = record.ledgers[-1].id
        reader = await spark.client.open(ledger, recover=False)
        assert reader.last_confirmed < 1  # the writer knows that entry 1 is, and tells nobody
        part = EntrySlice(
            ledger=ledger, first=EntryId(1), last=EntryId(1), sequence=0, was_open=True
        )
        stop = MessageId(ledger, EntryId(2), 0)
        span = LogSpan(name=NAME, log_id=record.id, start=None, first=0, stop=stop, end=3)
        assert await sequences(spark.client, [ReadTask(slices=(part,), span=span)]) == [0, 1, 2]
        lost = ReadTask(slices=(replace(part, last=EntryId(9)),), span=span)
        with pytest.raises(LogDamaged, match=r"had entries up to 9 .* has none from 2 on"):
            await sequences(spark.client, [lost])


@played()
async def test_what_is_trimmed_or_deleted_after_the_plan_is_an_error_in_words(lab: Lab) -> None:
    async with opened(lab) as spark:
        async with growing(lab, 32):
            pass
        tasks = await planning.planned(spark, asked(of_log(), 1))
        await spark.trim(NAME, 25)
        with pytest.raises(LogTrimmed, match="was trimmed; the earliest that is kept is"):
            await sequences(spark.client, tasks)
        now = await planning.planned(spark, asked(of_log(), 1))
        gone = now[0].slices[0].ledger
        await spark.client.delete(gone)
        with pytest.raises(LogDamaged, match=f"ledger {gone} .* deleted by another"):
            await sequences(spark.client, now)
        await spark.delete(NAME)
        with pytest.raises(NoLogError):
            await sequences(spark.client, now)
        await logs.create(await lab.cluster(), NAME, replace(NEW, id="ab" * 16))
        with pytest.raises(OtherIncarnation, match="was deleted, and made anew"):
            await sequences(spark.client, now)
        assert now[0].span is not None
        with pytest.raises(OtherIncarnation, match="was deleted, and made anew"):
            await planning.of_span(spark, now[0].span, None)


@played()
async def test_a_log_that_is_trimmed_between_span_and_plan_is_an_error(lab: Lab) -> None:
    async with growing(lab, 32), opened(lab) as spark:
        span = await planning.span_of(spark, of_log())
        await spark.trim(NAME, 5)
        with pytest.raises(LogTrimmed, match="message 0 was trimmed"):
            await planning.of_span(spark, span, None)


@played()
async def test_what_cannot_be_read_is_refused_before_a_task_begins(lab: Lab) -> None:
    async with opened(lab) as spark:
        with pytest.raises(NoLogError, match="there is no log nosuch"):
            await planning.planned(spark, asked(OneLog(name="nosuch")))
        with pytest.raises(NoSuchLedger, match="there is no ledger 123"):
            await planning.planned(spark, asked(OneLedger(ledger=LedgerId(123))))
        async with growing(lab, 5):
            pass
    async with opened(lab, "stranger", b"wrong") as stranger:
        with pytest.raises(Unauthorized, match=f"of log {NAME} has another password"):
            await planning.planned(stranger, asked(of_log()))
        record = await stranger.record(NAME)
        await logs.begin_deletion(stranger.client.cluster, NAME, record.id)
        with pytest.raises(LogDeleting):
            await planning.planned(stranger, asked(of_log()))


@played()
async def test_a_log_without_messages_is_one_empty_task(lab: Lab) -> None:
    await create(lab, SHORT)
    async with opened(lab) as spark:
        (task,) = await planning.planned(spark, asked(of_log(), 4))
        assert task.slices == ()


async def wrote(client: Client, count: int, **custom: bytes) -> LedgerId:
    async with client.create(custom=custom) as writer:
        for number in range(count):
            await writer.append(b"%d" % number)
    return writer.ledger_id


@played()
async def test_several_ledgers_are_read_by_range_or_by_custom_metadata(lab: Lab) -> None:
    async with opened(lab) as spark:
        client = spark.client
        made = [await wrote(client, count, job=b"etl-%d" % (count % 2)) for count in range(6)]

        async def read(wanted: Wanted, partitions: int | None) -> list[tuple[int, bytes]]:
            tasks = await planning.planned(spark, asked(wanted, partitions))
            return [(one.ledger_id, one.payload) for one in await entries(client, tasks)]

        def whole(*counts: int) -> list[tuple[int, bytes]]:
            return [(made[count], b"%d" % at) for count in counts for at in range(count)]

        span = LedgersInRange(first=LedgerId(made[1] + 0), last=made[4])
        for partitions in (None, 1, 3, 100):
            assert await read(span, partitions) == whole(1, 2, 3, 4)
            odd = LedgersWith(key="job", value=b"etl-1")
            assert await read(odd, partitions) == whole(1, 3, 5)
        with pytest.raises(NotReadable, match="there is no ledger with job=etl-9 in its custom"):
            await read(LedgersWith(key="job", value=b"etl-9"), None)
        with pytest.raises(NotReadable, match=f"there is no ledger from {made[-1] + 1} to"):
            await read(
                LedgersInRange(first=LedgerId(made[-1] + 1), last=LedgerId(made[-1] + 9)), None
            )
        writer = await client.create(custom={"job": b"etl-1"})
        with pytest.raises(NotReadable, match=f"ledger {writer.ledger_id} is OPEN"):
            await read(LedgersWith(key="job", value=b"etl-1"), None)
        await writer.close()
        async with client.create(password=b"secret", custom={"job": b"etl-1"}) as locked:
            pass
        with pytest.raises(Unauthorized, match=f"ledger {locked.ledger_id} has another password"):
            await read(LedgersWith(key="job", value=b"etl-1"), None)
