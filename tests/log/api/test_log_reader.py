"""Readers of a log: from anywhere on, over rotations and takeovers, each message once."""

import asyncio
import random
from collections.abc import Coroutine
from contextlib import aclosing, suppress
from dataclasses import replace

import pytest

from tests.client.lab import Lab, played
from tests.log.logging_lab import (
    LOG_ID,
    NAME,
    NEW,
    SHORT,
    WallClock,
    check_whole,
    create,
    message,
    numbers,
    read_all,
    reader_of,
    record_of,
    writing,
)
from tests.simulation.patching import patched
from zonekeeper.client.api.client import Client, Surroundings
from zonekeeper.client.api.reader import Reader
from zonekeeper.log.api.log_client import LogClient
from zonekeeper.log.api.log_reader import ReadMessage
from zonekeeper.log.base.errors import LogDamaged, LogTrimmed, NotInLog
from zonekeeper.log.formats import batches, openings
from zonekeeper.log.formats.openings import ChainedOpening, Predecessor
from zonekeeper.log.sessions import chain, locating
from zonekeeper.metadata.formats.log_record import (
    LogClaim,
    LogDeleting,
    LogRules,
    LogWriterMark,
    OtherIncarnation,
)
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.metadata.logs import logs
from zonekeeper.metadata.logs.logs import NoLogError
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.placement.base.troubles import Trouble


async def fill(lab: Lab, first: int, count: int, token: str, wall: WallClock | None = None) -> None:
    """Write messages three by three, so that batches have several."""
    async with lab.client(token) as client, writing(client, token, wall) as writer:
        for number in range(first, first + count, 3):
            last = await writer.append_many(numbers(number, min(3, first + count - number)))
            await writer.stored(last - 1)
            if wall is not None:
                wall.ms += 1_000


async def followed(lab: Lab, name: str, count: int, start: MessageId | None = None) -> list[int]:
    """Follow a log until so many messages were given."""
    found = list[ReadMessage]()
    async with lab.client(name) as client:
        async for many in reader_of(client).follow(start):
            found += many
            if len(found) >= count:
                break
    assert [one.message for one in found] == list(numbers(found[0].sequence, count))
    return [one.sequence for one in found]


@played()
async def test_a_follower_sees_every_message_over_rotations_and_takeovers(lab: Lab) -> None:
    await create(lab, SHORT)
    async with asyncio.TaskGroup() as tasks:
        tails = [tasks.create_task(followed(lab, f"tail-{at}", 90)) for at in range(3)]
        for round_ in range(3):
            await fill(lab, round_ * 30, 30, f"writer-{round_}")
    for tail in tails:
        assert tail.result() == list(range(90))


@played()
async def test_reading_from_each_message_on_gives_the_rest(lab: Lab) -> None:
    """The place in a batch is not lost at a seek: batches have three messages here."""
    await create(lab, SHORT)
    await fill(lab, 0, 35, "writer")
    found = await check_whole(lab, 35)
    assert max(one.id.index for one in found) == 2
    async with lab.client("seeker") as client:
        reader = reader_of(client)
        for one in found:
            assert await reader.at_sequence(one.sequence) == one.id
            assert await read_all(client, one.id) == found[one.sequence :]


@played()
async def test_reading_begins_at_a_time(lab: Lab) -> None:
    await create(lab, SHORT)
    await fill(lab, 0, 36, "writer", WallClock())  # three messages at 1,000 ms, 2,000 ms, …
    found = await check_whole(lab, 36)
    async with lab.client("seeker") as client:
        reader = reader_of(client)
        for wall_ms, first in ((0, 0), (1_000, 0), (1_001, 3), (4_000, 9), (12_000, 33)):
            assert await reader.at_time(wall_ms) == found[first].id
        assert await reader.at_time(12_001) is None


@played()
async def test_a_clock_that_goes_back_hides_nothing_behind_it(lab: Lab) -> None:
    await create(lab, SHORT)
    wall = WallClock()
    wall.ms = 50_000
    await fill(lab, 0, 12, "ahead", wall)
    await fill(lab, 12, 12, "behind", WallClock())
    found = await check_whole(lab, 24)
    async with lab.client("seeker") as client:
        assert await reader_of(client).at_time(50_000) == found[0].id
        at = await reader_of(client).at_time(2_000)
    assert at == found[0].id, "a message of that time may be behind one of a later time"


@played()
async def test_the_times_of_a_ledger_do_not_go_back(lab: Lab) -> None:
    await create(lab)
    wall = WallClock()
    async with lab.client() as client, writing(client, wall=wall) as writer:
        for number, ms in enumerate((5_000, 3_000, 6_000)):
            wall.ms = ms
            await writer.append_and_wait(message(number))
        reader = reader_of(client)
        times = [many.batch.wall_ms async for many in reader.read()]
    assert times == [5_000, 5_000, 6_000]


@played()
async def test_an_open_ledger_is_read_up_to_what_is_confirmed(lab: Lab) -> None:
    await create(lab)
    async with lab.client() as client, lab.client("reader") as other, writing(client) as writer:
        assert await read_all(other) == []
        await writer.append_and_wait(message(0))
        assert [one.message for one in await read_all(other)] == [message(0)]


async def two_unended(lab: Lab, opening: ChainedOpening | None) -> None:
    """Leave a log with one ended ledger, and one without an end that has an opening and a batch."""
    await fill(lab, 0, 3, "before")
    async with lab.client("forger") as client:
        held = await chain.claimed(client, NAME, LogWriterMark(token="forger"))
        writer = await client.create()
        claim = LogClaim(log_id=LOG_ID, epoch=held.record.epoch, token="forger")
        await logs.add(client.cluster, NAME, claim, writer.ledger_id)
        if opening is not None:
            await writer.append_and_wait(openings.build(opening))
            many = list(numbers(3, 2))
            await writer.append_and_wait(batches.build(many, place=0, wall_ms=1_000))
            await writer.tell_confirmed()
        writer.halt()


STRAY = ChainedOpening(
    log_id=bytes.fromhex(LOG_ID),
    epoch=2,
    name=NAME,
    sequence=3,
    before=Predecessor(ledger=LedgerId(0), last_entry=EntryId(77)),
)


@played()
@pytest.mark.parametrize("opening", [None, STRAY])
async def test_a_ledger_that_does_not_continue_is_not_read_and_the_next_writer_drops_it(
    lab: Lab, opening: ChainedOpening | None
) -> None:
    await create(lab)
    await two_unended(lab, opening)
    stray = (await record_of(lab)).ledgers[-1].id
    await check_whole(lab, 3)
    with suppress(TimeoutError):
        async with asyncio.timeout(60):
            await followed(lab, "tail", 4)
            pytest.fail("it gave a message of a ledger that is no part of the log")

    await fill(lab, 3, 3, "after")

    await check_whole(lab, 6)
    assert stray not in [one.id for one in (await record_of(lab)).ledgers]


@played()
async def test_a_reader_passes_over_a_ledger_that_is_dropped_and_collected_meanwhile(
    lab: Lab,
) -> None:
    await create(lab)
    await two_unended(lab, None)
    stray = (await record_of(lab)).ledgers[-1].id
    async with lab.client("reader") as client:
        opened = client.open

        async def dropped_before(ledger_id: int, *, recover: bool) -> Reader:
            if ledger_id == stray and stray in [one.id for one in (await record_of(lab)).ledgers]:
                await fill(lab, 3, 3, "after")
                await client.delete(stray)
            return await opened(ledger_id, recover=recover)

        with patched([(client, "open", dropped_before)]):
            found = list[int]()
            await gathered(client, found)
    assert found == list(range(6))


@played()
async def test_a_ledger_of_another_log_is_named_and_not_dropped(lab: Lab) -> None:
    await create(lab)
    await two_unended(lab, replace(STRAY, log_id=bytes(16)))
    before = (await record_of(lab)).ledgers
    with pytest.raises(LogDamaged, match=f"ledger {before[-1].id} is in the record"):
        await fill(lab, 3, 3, "after")
    assert (await record_of(lab)).ledgers == before


async def gathered(client: Client, found: list[int]) -> None:
    async for many in reader_of(client).read():
        found += [one.sequence for one in many]


@played()
async def test_a_ledger_that_somebody_deleted_is_named_and_never_a_gap(lab: Lab) -> None:
    await create(lab, SHORT)
    await fill(lab, 0, 30, "writer")
    gone = (await record_of(lab)).ledgers[1].id
    async with lab.client("eraser") as client:
        await client.delete(gone)
        found = list[int]()
        with pytest.raises(LogDamaged, match=f"ledger {gone} is in the record"):
            await gathered(client, found)
    first = (await record_of(lab)).ledgers[0].end
    assert first is not None
    assert found == list(range(first.messages))


@played()
async def test_a_reader_behind_the_start_is_told_which_is_the_earliest(lab: Lab) -> None:
    await create(lab, SHORT)
    await fill(lab, 0, 30, "writer")
    found = await check_whole(lab, 30)
    start = found[13]
    await logs.trim(await lab.cluster(), NAME, LOG_ID, start.id, start.sequence)
    async with lab.client("reader") as client:
        reader = reader_of(client)
        assert await reader.earliest() == start.id
        assert await read_all(client) == found[13:]
        with pytest.raises(LogTrimmed, match=rf"{start.id}, with sequence 13"):
            await read_all(client, found[12].id)
        with pytest.raises(LogTrimmed, match="message 12"):
            await reader.at_sequence(12)
        assert await reader.at_sequence(13) == start.id


@played()
async def test_a_trimmed_and_reclaimed_log_is_opened_and_read(lab: Lab) -> None:
    await create(lab, SHORT)
    await fill(lab, 0, 30, "writer")
    found = await check_whole(lab, 30)
    async with lab.client("collector") as client:
        await logs.trim(client.cluster, NAME, LOG_ID, found[29].id, 29)
        step = await logs.reclaiming(client.cluster, NAME, await record_of(lab))
        assert step is not None
        for ledger_id in step.ledgers:
            await client.delete(ledger_id)
        await logs.reclaimed(client.cluster, NAME, LOG_ID, step.up_to)
        assert len((await record_of(lab)).ledgers) == 1
    await fill(lab, 30, 12, "after")
    async with lab.client("reader") as client:
        assert [one.sequence for one in await read_all(client)] == list(range(29, 42))


@played()
async def test_what_is_not_in_the_log_is_refused(lab: Lab) -> None:
    async with lab.client() as client:
        reader = reader_of(client)
        with pytest.raises(NoLogError):
            await read_all(client)
        await create(lab)
        await fill(lab, 0, 3, "writer")
        for sequence in (3, 100):
            with pytest.raises(NotInLog, match="ahead of its end"):
                await reader.at_sequence(sequence)
        with pytest.raises(NotInLog, match="ahead of its end"):
            await read_all(client, MessageId(LedgerId(1 << 40), EntryId(1), 0))
        await logs.begin_deletion(client.cluster, NAME, LOG_ID)
        with pytest.raises(LogDeleting):
            await read_all(client)


@played()
async def test_an_id_that_the_log_does_not_have_is_refused(lab: Lab) -> None:
    """A ledger of another log, and one that was given out to no log; an entry and a place ahead."""
    await create(lab, SHORT)
    await create(lab, SHORT, "other")
    await fill(lab, 0, 15, "first")
    async with lab.client() as client:
        writer = await client.create()
        writer.halt()
        foreign = writer.ledger_id
    await fill(lab, 15, 15, "second")
    found = await check_whole(lab, 30)
    async with lab.client("reader") as client:
        reader = reader_of(client)
        for one in found:
            assert await reader.sequence_of(one.id) == one.sequence
        last = found[-1].id
        for wrong in (
            MessageId(foreign, EntryId(1), 0),
            MessageId(LedgerId(1 << 40), last.entry, 0),
        ):
            with pytest.raises(NotInLog, match="is not one of its ledgers"):
                await reader.sequence_of(wrong)
        with pytest.raises(NotInLog, match="is not one of its ledgers"):
            await read_all(client, MessageId(foreign, EntryId(1), 0))
        for wrong in (
            MessageId(last.ledger, EntryId(last.entry + 1), 0),
            MessageId(last.ledger, EntryId(0), 0),
            MessageId(last.ledger, last.entry, last.index + 1),
        ):
            with pytest.raises(NotInLog, match="or not yet"):
                await reader.sequence_of(wrong)
        await LogClient(client, Surroundings(random.Random(1), WallClock())).trim(NAME, 12)
        with pytest.raises(LogTrimmed):
            await reader.sequence_of(found[11].id)
        assert await reader.sequence_of(found[12].id) == 12


@played()
async def test_the_end_is_what_readers_see_and_the_latest_place_is_behind_it(lab: Lab) -> None:
    await create(lab, SHORT)
    async with lab.client("reader") as client:
        reader = reader_of(client)
        latest = await reader.latest()
        assert (await reader.end(), latest) == (0, None)
        for round_ in range(1, 4):
            async with (
                lab.client(f"writer {round_}") as other,
                writing(other, str(round_)) as writer,
            ):
                for number in range(12 * round_ - 12, 12 * round_):
                    await writer.append_and_wait(message(number))
                    assert await reader.end() == number + 1
                latest = await reader.latest()
                assert await read_all(client, latest) == []
            assert await reader.end() == 12 * round_
            assert await read_all(client, latest) == []
        await fill(lab, 36, 3, "last")
        assert [one.sequence for one in await read_all(client, latest)] == [36, 37, 38]


@played()
async def test_a_follower_of_a_log_that_is_made_anew_is_told(lab: Lab) -> None:
    await create(lab, LogRules())
    await fill(lab, 0, 3, "writer")
    cluster = await lab.cluster()

    async def made_anew() -> None:
        await logs.begin_deletion(cluster, NAME, LOG_ID)
        record = await record_of(lab)
        await logs.reclaimed(cluster, NAME, LOG_ID, record.ledgers[-1].id)
        await logs.remove(cluster, NAME, LOG_ID, now_ms=1)
        await logs.create(cluster, NAME, replace(NEW, id="ab" * 16))

    async with asyncio.TaskGroup() as tasks:
        tail = tasks.create_task(outcome(followed(lab, "tail", 4)))
        await asyncio.sleep(1)
        await made_anew()
    assert tail.result() in ("OtherIncarnation", "LogDeleting", "NoLogError")


@played()
async def test_a_reader_whose_log_was_made_anew_hears_of_it_and_not_of_damage(lab: Lab) -> None:
    """Its ledgers are gone, and the record of the name is that of another log."""
    await create(lab, SHORT)
    await fill(lab, 0, 30, "writer")
    async with lab.client("owner") as client:
        owner = LogClient(client, Surroundings(random.Random(1), lambda: 1))
        async with aclosing(reader_of(client).read()) as many:
            await anext(many)
            await owner.delete(NAME)
            await owner.create(NAME)
            with pytest.raises(OtherIncarnation, match="deleted, and made anew"):
                async for _ in many:
                    pass


async def outcome(work: Coroutine[None, None, list[int]]) -> str:
    """Give the name of the error that work ends with."""
    try:
        await work
    except Trouble as error:
        return type(error).__name__
    return "nothing"


@pytest.mark.parametrize(
    ("is_trimmed", "said"), [(True, LogTrimmed), (False, LogDamaged)], ids=["trimmed", "deleted"]
)
@played()
async def test_a_ledger_that_goes_while_it_is_read_says_why(
    lab: Lab, said: type[Trouble], *, is_trimmed: bool
) -> None:
    """Its bookies are silent, so the reader looks it up again, and finds no metadata."""
    await create(lab, SHORT)
    await fill(lab, 0, 35, "writer")
    async with lab.client("owner") as owner, lab.client("reader") as client:
        record = await logs.find(client.cluster, NAME)
        first = record.ledgers[0].id

        async def reads() -> None:
            async with locating.reading(client, NAME, first, record.id) as reader:
                if is_trimmed:
                    log = LogClient(owner, Surroundings(random.Random(1), WallClock()))
                    await log.trim(NAME, 30)
                else:
                    await owner.delete(first)
                for bookie in reader.metadata.bookies:
                    await lab.machines[bookie].crash()
                await locating.batch_of(reader, EntryId(1))

        with pytest.raises(said, match=f"ledger {first}"):
            await reads()
