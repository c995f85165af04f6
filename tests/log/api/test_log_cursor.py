"""Consumers from an application's side: resume, take over, fall behind, and lose the log."""

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace

import pytest

from tests.client.lab import Lab, played
from tests.log.api.test_log_client import connected, fill
from tests.log.logging_lab import NAME, SHORT, numbers
from tests.simulation.patching import patched
from zonekeeper.log.api.log_client import LogClient
from zonekeeper.log.api.log_cursor import LogCursor
from zonekeeper.log.api.log_reader import ReadMessages
from zonekeeper.log.base.errors import LogTrimmed, NotInLog
from zonekeeper.metadata.formats.log_record import LogDeleting, LogRecord, OtherIncarnation
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.metadata.logs import log_cursors, logs
from zonekeeper.metadata.logs.log_cursor import CURSORS_MAX, CursorGoesBack, CursorTaken
from zonekeeper.metadata.logs.log_cursors import NoCursorError, TooManyCursorsError
from zonekeeper.metadata.logs.logs import NoLogError
from zonekeeper.placement.base.ids import EntryId, LedgerId


@asynccontextmanager
async def filled(lab: Lab, count: int = 35) -> AsyncIterator[LogClient]:
    """Give a client of a log of ``count`` messages in ledgers of ten."""
    async with connected(lab) as log:
        await log.create(NAME, SHORT)
        await fill(log, count)
        yield log


async def seen(cursor: LogCursor) -> list[int]:
    return [one.sequence async for many in cursor.read() for one in many]


async def take(cursor: LogCursor, count: int) -> list[int]:
    """Consume so many messages, and move behind each."""
    found: list[int] = []
    async with aclosing(cursor.read()) as batches:
        async for many in batches:
            for one in many:
                if len(found) == count:
                    return found
                found.append(one.sequence)
                await cursor.move(one)
    return found


@played()
async def test_a_consumer_goes_on_where_the_one_before_it_stopped(lab: Lab) -> None:
    async with filled(lab) as log:
        assert await take(await log.cursor(NAME, "billing"), 13) == list(range(13))
        again = await log.cursor(NAME, "billing")
        assert (again.sequence, await again.lag()) == (13, 22)
        assert await seen(again) == list(range(13, 35))
        assert again.sequence == 13  # to read moves nothing
        await fill(log, 5)
        assert await again.lag() == 27
        assert await take(again, 100) == list(range(13, 40))
        assert (await again.lag(), await seen(again)) == (0, [])


@played()
async def test_a_move_behind_a_batch_passes_all_of_it(lab: Lab) -> None:
    async with filled(lab) as log:
        cursor = await log.cursor(NAME, "billing")
        async with aclosing(cursor.follow()) as batches:
            async for many in batches:
                await cursor.move(many)
                if cursor.sequence == 35:
                    break
        assert await cursor.lag() == 0


@played()
async def test_a_position_inside_a_batch_is_kept(lab: Lab) -> None:
    async with connected(lab) as log:
        await log.create(NAME)
        async with log.writer(NAME) as writer:
            await writer.append_many(numbers(0, 1_000))
            await writer.stored(999)
        cursor = await log.cursor(NAME, "billing")
        batches: list[ReadMessages] = [many async for many in cursor.read()]
        assert len(batches) < 1_000
        assert await take(cursor, 501) == list(range(501))
        assert await seen(await log.cursor(NAME, "billing")) == list(range(501, 1_000))


@played()
async def test_the_second_to_open_a_cursor_takes_it_over_and_the_first_hears_it(lab: Lab) -> None:
    async with filled(lab) as log, connected(lab, "other") as other:
        first = await log.cursor(NAME, "billing", address="a")
        await take(first, 3)
        second = await other.cursor(NAME, "billing", address="b")
        with pytest.raises(CursorTaken, match="another consumer has opened it"):
            await take(first, 1)
        with pytest.raises(CursorTaken):
            await first.seek_earliest()
        assert await take(second, 2) == [3, 4]
        assert (await log.cursors(NAME))["billing"].address == "b"
        assert (await log.cursors(NAME))["billing"].position.sequence == 5


@played()
async def test_a_move_does_not_go_back_and_a_seek_does(lab: Lab) -> None:
    async with filled(lab) as log:
        cursor = await log.cursor(NAME, "billing")
        batches = [many async for many in cursor.read()]
        await take(cursor, 20)
        with pytest.raises(CursorGoesBack):
            await cursor.move(batches[0])
        await cursor.seek(await log.reader(NAME).at_sequence(7))
        assert await seen(cursor) == list(range(7, 35))
        await cursor.seek_end()
        assert (cursor.sequence, await seen(cursor)) == (35, [])
        await fill(log, 1)
        assert await seen(cursor) == [35]
        await cursor.seek_earliest()
        assert await cursor.lag() == 36


@played()
async def test_a_seek_to_what_is_no_message_of_the_log_is_refused(lab: Lab) -> None:
    async with filled(lab) as log:
        await log.create("other")
        await fill(log, 1, "other")
        foreign = await log.reader("other").at_sequence(0)
        cursor = await log.cursor(NAME, "billing")
        await take(cursor, 3)
        known = await log.reader(NAME).at_sequence(4)
        for wrong, why in (
            (foreign, "is not one of its ledgers"),
            (replace(known, index=99), "no such message, or not yet"),
            (replace(known, entry=EntryId(0)), "no such message, or not yet"),
            (replace(known, entry=EntryId(99)), "no such message, or not yet"),
            (MessageId(LedgerId(1 << 40), EntryId(1), 0), "is not one of its ledgers"),
        ):
            with pytest.raises(NotInLog, match=f"no message {wrong}: .*{why}"):
                await cursor.seek(wrong)
        assert cursor.sequence == 3


@played()
async def test_a_new_cursor_begins_at_the_earliest_message_or_at_the_end(lab: Lab) -> None:
    async with filled(lab) as log:
        await log.trim(NAME, 15)
        late = await log.cursor(NAME, "late", at_end=True)
        assert (late.sequence, (await log.cursor(NAME, "early")).sequence) == (35, 15)
        await fill(log, 1)
        assert (await log.cursor(NAME, "late", at_end=True)).sequence == 35
        assert await seen(late) == [35]
        assert sorted(await log.cursors(NAME)) == ["early", "late"]


@played()
async def test_a_cursor_of_an_empty_log_sees_its_first_message(lab: Lab) -> None:
    async with connected(lab) as log:
        await log.create(NAME)
        cursors = [await log.cursor(NAME, "a"), await log.cursor(NAME, "b", at_end=True)]
        assert [await one.lag() for one in cursors] == [0, 0]
        await fill(log, 2)
        assert [await seen(one) for one in cursors] == [[0, 1], [0, 1]]


@played()
async def test_a_cursor_behind_the_start_hears_it_and_goes_on_only_when_told(lab: Lab) -> None:
    async with filled(lab) as log:
        cursor = await log.cursor(NAME, "billing")
        await take(cursor, 3)
        await log.trim(NAME, 25)
        with pytest.raises(LogTrimmed, match=r"cursor billing is at message 3.*sequence 25"):
            await seen(cursor)
        await cursor.seek_earliest()
        assert await seen(cursor) == list(range(25, 35))


@played()
async def test_a_cursor_at_a_start_that_moves_as_it_is_read_hears_it(lab: Lab) -> None:
    """A new cursor of a log that was never trimmed stands at no message: at the start."""
    async with filled(lab) as log:
        cursor = await log.cursor(NAME, "billing")
        looked = LogCursor._record

        async def then_trimmed(self: LogCursor) -> LogRecord:
            record = await looked(self)
            await log.trim(NAME, 12)
            return record

        with (
            patched([(LogCursor, "_record", then_trimmed)]),
            pytest.raises(LogTrimmed, match=r"is at message 0, which was trimmed.* sequence 12"),
        ):
            await seen(cursor)
        await cursor.seek_earliest()
        assert await seen(cursor) == list(range(12, 35))


@played()
async def test_a_cursor_right_at_a_start_that_moved_goes_on(lab: Lab) -> None:
    """What it read last is trimmed, and nothing of what it reads next."""
    async with filled(lab) as log:
        cursor = await log.cursor(NAME, "billing")
        await take(cursor, 25)
        await log.trim(NAME, 25)
        assert await seen(cursor) == list(range(25, 35))


@played()
async def test_retention_waits_for_a_cursor_within_the_limit_of_the_rules(lab: Lab) -> None:
    async with filled(lab) as log:
        cursor = await log.cursor(NAME, "billing")
        await take(cursor, 13)
        rules = replace(SHORT, keep_bytes=1)
        await log.set_rules(NAME, rules)
        assert await log.trim_by_rules(NAME)
        assert (await log.record(NAME)).start_sequence == 10
        assert not await log.trim_by_rules(NAME)
        assert await seen(cursor) == list(range(13, 35))

        await log.set_rules(NAME, replace(rules, cursor_wait_bytes=0))
        assert await log.trim_by_rules(NAME)
        assert (await log.record(NAME)).start_sequence > 13
        with pytest.raises(LogTrimmed):
            await seen(cursor)


@played()
async def test_a_deleted_cursor_is_waited_for_no_more_and_its_consumer_hears_it(lab: Lab) -> None:
    async with filled(lab) as log:
        cursor = await log.cursor(NAME, "billing")
        await log.delete_cursor(NAME, "billing")
        with pytest.raises(NoCursorError, match="no cursor billing"):
            await take(cursor, 1)
        with pytest.raises(NoCursorError):
            await log.delete_cursor(NAME, "billing")
        assert await log.cursors(NAME) == {}
        await log.set_rules(NAME, replace(SHORT, keep_bytes=1))
        assert await log.trim_by_rules(NAME)


@played()
async def test_a_log_is_deleted_with_its_cursors_and_a_new_one_is_another_log(lab: Lab) -> None:
    async with filled(lab) as log:
        cursor = await log.cursor(NAME, "billing")
        await take(cursor, 3)
        await logs.begin_deletion(log.client.cluster, NAME, cursor.mark.log_id)
        with pytest.raises(LogDeleting):
            await seen(cursor)
        with pytest.raises(LogDeleting, match="no cursor was made"):
            await log_cursors.open_cursor(log.client.cluster, NAME, "new", cursor.mark)
        await log.delete(NAME)
        for call in (cursor.lag(), take(cursor, 1), log.cursor(NAME, "billing")):
            with pytest.raises(NoLogError):
                await call
        with pytest.raises(NoCursorError):
            await log_cursors.find(log.client.cluster, NAME, "billing")

        await log.create(NAME)
        await fill(log, 2)
        with pytest.raises(OtherIncarnation, match="went with the old one"):
            await seen(cursor)
        fresh = await log.cursor(NAME, "billing")
        with pytest.raises(OtherIncarnation):
            await log_cursors.move(
                log.client.cluster, NAME, "billing", cursor._claim, cursor.mark.position, 1
            )
        assert await seen(fresh) == [0, 1]


@played()
async def test_a_log_has_a_limited_number_of_cursors(lab: Lab) -> None:
    async with connected(lab) as log:
        await log.create(NAME)
        mark = (await log.cursor(NAME, "c0")).mark
        for number in range(1, CURSORS_MAX):
            await log_cursors.open_cursor(
                log.client.cluster, NAME, f"c{number}", replace(mark, token=f"{number}")
            )
        with pytest.raises(TooManyCursorsError, match="delete one"):
            await log.cursor(NAME, "more")
        assert (await log.cursor(NAME, "c7")).mark.epoch == 2
        await log.delete(NAME)
