"""Logs from an application's side: create, list, trim and delete them."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from functools import partial

import pytest

from tests.client.lab import Lab, played
from tests.log.logging_lab import NAME, SHORT, WallClock, append_each, message, numbers, writing
from zonekeeper.client.api.client import Client, Surroundings
from zonekeeper.log.api.log_client import LogClient
from zonekeeper.log.api.log_reader import ReadMessages
from zonekeeper.log.base.errors import BadLogRules, LogTrimmed, NotInLog
from zonekeeper.log.sessions import trimming
from zonekeeper.metadata.formats.log_names import BadLogNameError
from zonekeeper.metadata.formats.log_record import LogDeleting, LogRules
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.metadata.logs import logs
from zonekeeper.metadata.logs.logs import LogExistsError, NoLogError
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.placement.base.quorums import Quorums


@asynccontextmanager
async def connected(lab: Lab, name: str = "application") -> AsyncIterator[LogClient]:
    async with lab.client(name) as client:
        chance = random.Random(lab.chance.randrange(1 << 30))
        yield LogClient(client, Surroundings(chance, WallClock()))


async def fill(log: LogClient, count: int, name: str = NAME) -> None:
    """Append messages that say their sequences; each ledger gets as many as the rules say."""
    every = (await log.record(name)).rules.rotate_messages
    async with log.writer(name, address="10.0.0.7:80") as writer:
        many = numbers(writer.next_sequence, count)
        await append_each(log.client.cluster, writer, many, every=every, name=name)


async def sequences(log: LogClient, name: str = NAME) -> list[int]:
    return [one.sequence async for many in log.reader(name).read() for one in many]


async def ledgers(client: Client) -> list[LedgerId]:
    return [one async for one in client.ledgers()]


@played()
async def test_a_log_is_created_written_and_read(lab: Lab) -> None:
    async with connected(lab) as log:
        await log.create(NAME)
        with pytest.raises(LogExistsError):
            await log.create(NAME)
        with pytest.raises(BadLogNameError):
            await log.create("a//b")
        await fill(log, 5)
        await fill(log, 5)
        assert await sequences(log) == list(range(10))
        record = await log.record(NAME)
        assert record.writer is not None
        assert (record.epoch, record.writer.zone, record.writer.address) == (2, "a", "10.0.0.7:80")


@played()
async def test_logs_are_listed_by_namespace(lab: Lab) -> None:
    async with connected(lab) as log:
        for name in (NAME, "orders/us-1", "plain"):
            await log.create(name)
        assert sorted([one async for one in log.namespaces()]) == ["", "orders"]
        assert [one async for one in log.names()] == ["plain"]
        assert sorted([one async for one in log.names("orders")]) == [NAME, "orders/us-1"]


@played()
async def test_rules_hold_from_the_next_ledger_on(lab: Lab) -> None:
    async with connected(lab) as log:
        await log.create(NAME)
        await log.set_rules(NAME, LogRules(rotate_messages=3))
        await fill(log, 9)
        ends = [one.end and one.end.messages for one in (await log.record(NAME)).ledgers]
        assert ends[:3] == [3, 3, 3]


@played()
@pytest.mark.parametrize(
    "rules",
    [
        LogRules(rotate_bytes=0),
        LogRules(rotate_messages=-1),
        LogRules(rotate_after_ms=0),
        LogRules(keep_ms=0),
        LogRules(keep_bytes=0),
        LogRules(quorums=Quorums(ensemble=1, write=1, ack=1)),
    ],
)
async def test_rules_that_no_ledger_could_follow_are_refused(lab: Lab, rules: LogRules) -> None:
    async with connected(lab) as log:
        with pytest.raises(BadLogRules):
            await log.create(NAME, rules)
        with pytest.raises(NoLogError):
            await log.record(NAME)
        await log.create(NAME, SHORT)
        with pytest.raises(BadLogRules):
            await log.set_rules(NAME, rules)
        assert (await log.record(NAME)).rules == SHORT


@played()
async def test_a_trim_deletes_the_ledgers_below_the_start_and_no_other(lab: Lab) -> None:
    async with connected(lab) as log:
        await log.create(NAME, SHORT)
        await fill(log, 35)
        whole = [one.id for one in (await log.record(NAME)).ledgers]
        await log.trim(NAME, 25)
        assert await sequences(log) == list(range(25, 35))
        assert await ledgers(log.client) == whole[2:]
        await log.trim(NAME, 7)  # behind the start: nothing comes back, nothing goes
        assert await ledgers(log.client) == whole[2:]
        with pytest.raises(NotInLog):
            await log.trim(NAME, 35)
        await fill(log, 5)
        assert await sequences(log) == list(range(25, 40))


@played()
async def test_a_log_is_deleted_with_its_ledgers_and_its_name_is_free(lab: Lab) -> None:
    async with connected(lab) as log:
        await log.create("other")
        await fill(log, 3, "other")
        kept = await ledgers(log.client)
        await log.create(NAME, SHORT)
        await fill(log, 35)

        await log.delete(NAME)

        assert await ledgers(log.client) == kept
        with pytest.raises(NoLogError):
            await log.delete(NAME)
        with pytest.raises(NoLogError):
            await fill(log, 1)
        await log.create(NAME)
        await fill(log, 2)
        assert await sequences(log) == [0, 1]
        assert await sequences(log, "other") == [0, 1, 2]


@played()
async def test_a_deletion_that_was_interrupted_is_continued(lab: Lab) -> None:
    async with connected(lab) as log:
        await log.create(NAME, SHORT)
        await fill(log, 35)
        record = await log.record(NAME)
        await logs.begin_deletion(log.client.cluster, NAME, record.id)
        await log.client.delete(record.ledgers[0].id)
        with pytest.raises(LogDeleting):
            await fill(log, 1)
        with pytest.raises(LogDeleting):
            await log.set_rules(NAME, SHORT)

        await log.delete(NAME)

        assert await ledgers(log.client) == []
        assert [one async for one in log.namespaces()] == []


@played()
async def test_a_trim_is_by_id_by_time_or_by_bytes_too(lab: Lab) -> None:
    async with connected(lab) as log:
        await log.create(NAME, SHORT)
        clock = WallClock()
        for clock.ms in range(1_000, 5_000, 1_000):
            async with writing(log.client, f"{clock.ms}", clock) as writer:
                await writer.append_many(numbers(writer.next_sequence, 10))
        whole = (await log.record(NAME)).ledgers
        await log.trim_to_id(NAME, await log.reader(NAME).at_sequence(3))
        assert await sequences(log) == list(range(3, 40))
        await log.trim_to_time(NAME, 2_000)
        assert await sequences(log) == list(range(10, 40))
        await log.trim_to_time(NAME, 500)
        assert (await log.record(NAME)).start_sequence == 10
        second, last = whole[1].end, whole[-1].end
        assert second is not None
        assert last is not None
        await log.trim_to_bytes(NAME, last.total_bytes - second.total_bytes)
        assert (await log.record(NAME)).start_sequence == 20
        await log.trim_to_bytes(NAME, 1 << 40)
        assert (await log.record(NAME)).start_sequence == 20
        with pytest.raises(NotInLog, match="is not one of its ledgers"):
            await log.trim_to_id(NAME, MessageId(LedgerId(1 << 40), EntryId(1), 0))


@played()
async def test_a_trim_by_bytes_counts_no_ledger_without_a_message(lab: Lab) -> None:
    async with connected(lab) as log:
        await log.create(NAME, SHORT)
        await fill(log, 15)
        for _ in range(2):
            await fill(log, 0)
        ends = [one.end for one in (await log.record(NAME)).ledgers if one.end is not None]
        assert [one.messages for one in ends] == [10, 5, 0, 0]
        assert all(one.size_bytes for one in ends)
        await log.trim_to_bytes(NAME, ends[1].size_bytes)
        assert await sequences(log) == list(range(10, 15))
        await log.trim_to_bytes(NAME, 1)
        assert await sequences(log) == list(range(10, 15))
        with pytest.raises(ValueError, match="keep_bytes is at least 0"):
            await log.trim_to_bytes(NAME, -1)
        await log.trim_to_bytes(NAME, 0)
        assert await sequences(log) == []


@played()
async def test_of_two_that_change_rules_at_once_neither_undoes_the_others_change(lab: Lab) -> None:
    async with connected(lab) as log, connected(lab, "another") as other:
        await log.create(NAME, SHORT)
        asked = list[LogRules]()

        def changed(field: str, before: LogRules) -> LogRules:
            asked.append(before)
            return replace(before, **{field: 5})  # type: ignore[arg-type]  # both are numbers

        await asyncio.gather(
            log.change_rules(NAME, partial(changed, "keep_ms")),
            other.change_rules(NAME, partial(changed, "keep_bytes")),
        )

        wanted = replace(SHORT, keep_ms=5, keep_bytes=5)
        assert (await log.record(NAME)).rules == wanted
        assert len(asked) > 2, "one of the two was faster, and the other was asked again"
        assert await other.change_rules(NAME, partial(changed, "keep_ms")) == wanted
        with pytest.raises(BadLogRules):
            await log.change_rules(NAME, lambda before: replace(before, rotate_bytes=0))
        assert (await log.record(NAME)).rules == wanted


@played()
async def test_a_trim_by_time_of_a_log_that_is_older_leaves_it_empty_and_writable(lab: Lab) -> None:
    async with connected(lab) as log:
        await log.create(NAME, SHORT)
        await log.trim_to_time(NAME, 1 << 50)
        await fill(log, 25)
        await log.trim_to_time(NAME, 1 << 50)
        assert await sequences(log) == []
        assert (await log.record(NAME)).start_sequence == 25
        with pytest.raises(LogTrimmed, match="sequence 25"):
            await log.reader(NAME).at_sequence(24)
        async with log.writer(NAME) as writer:
            await writer.append_and_wait(message(25))
            await log.trim_to_time(NAME, 1 << 50)  # inside a ledger that is being written
            assert await sequences(log) == []
            await writer.append_and_wait(message(26))
            assert await sequences(log) == [26]
        await fill(log, 13)
        assert await sequences(log) == list(range(26, 40))


@played()
async def test_a_log_without_a_rule_keeps_everything(lab: Lab) -> None:
    async with connected(lab) as log:
        await log.create(NAME, SHORT)
        await fill(log, 25)
        assert not await log.trim_by_rules(NAME)
        assert await sequences(log) == list(range(25))


@played()
async def test_rules_trim_by_age(lab: Lab) -> None:
    async with connected(lab) as log:
        await log.create(NAME, replace(SHORT, keep_ms=60_000))
        await fill(log, 25)
        assert not await log.trim_by_rules(NAME)
        clock = log._surroundings.wall_ms
        assert isinstance(clock, WallClock)
        clock.ms += 60_001
        assert await log.trim_by_rules(NAME)
        assert len(await ledgers(log.client)) == 1
        await fill(log, 5)
        assert (await sequences(log))[-5:] == list(range(25, 30))


@played()
async def test_a_reader_that_a_trim_overtakes_hears_it(lab: Lab) -> None:
    """The reader's record names ledgers that are gone: that is no damage, and no gap."""
    async with connected(lab) as log:
        await log.create(NAME, SHORT)
        await fill(log, 35)
        async with aclosing(log.reader(NAME).follow()) as many:
            assert (await anext(many)).sequence == 0
            await log.trim(NAME, 25)
            with pytest.raises(LogTrimmed, match="sequence 25"):
                async for _ in many:
                    pass


@played()
async def test_a_reader_that_lacks_a_page_hears_of_the_trim_and_passes_over_nothing(
    lab: Lab,
) -> None:
    async with connected(lab) as log:
        await log.create(NAME, LogRules(rotate_messages=1))
        await fill(log, 70)
        assert (await log.record(NAME)).next_page == 1
        async with aclosing(log.reader(NAME).follow()) as many:
            assert (await anext(many)).sequence == 0
            await log.trim(NAME, 32)  # the page goes, and the ledger behind it is there
            assert (await log.record(NAME)).first_page == 1
            found: list[int] = []
            with pytest.raises(LogTrimmed, match="sequence 32"):
                await _gather(many, found)
            assert found == []


async def _gather(many: AsyncIterator[ReadMessages], found: list[int]) -> None:
    async for one in many:
        found.append(one.sequence)


@played()
async def test_a_reader_of_a_log_that_is_deleted_hears_it(lab: Lab) -> None:
    async with connected(lab) as log:
        await log.create(NAME, SHORT)
        await fill(log, 35)
        record = await log.record(NAME)
        async with aclosing(log.reader(NAME).follow()) as many:
            assert (await anext(many)).sequence == 0
            await logs.begin_deletion(log.client.cluster, NAME, record.id)
            await trimming.reclaim(log.client, NAME, record.id)
            with pytest.raises(LogDeleting):
                async for _ in many:
                    pass
