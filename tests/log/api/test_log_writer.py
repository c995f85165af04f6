"""A writer of a log: dense sequences, nothing twice, nothing shown that could be dropped."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import pytest

from tests.client.lab import Lab, played
from tests.client.sessions.test_newcomers import of_client
from tests.log.logging_lab import (
    NAME,
    SHORT,
    SILENT,
    append_each,
    check_whole,
    create,
    message,
    numbers,
    read_all,
    record_of,
    writing,
)
from tests.simulation.patching import patched
from zonekeeper.client.api.client import Client
from zonekeeper.client.api.reader import Reader
from zonekeeper.client.base.errors import MetadataFailed
from zonekeeper.log.api.log_writer import LogWriter
from zonekeeper.log.base.errors import LogDamaged, LogEnded, NotAppended
from zonekeeper.log.formats.batches import BODY_BYTES_MAX
from zonekeeper.log.formats.messages import BadMessageError, LogMessage
from zonekeeper.log.sessions import chain
from zonekeeper.log.writing.budget import LogBudget
from zonekeeper.metadata.formats.log_record import (
    LogClaim,
    LogDeleting,
    LogTaken,
    LogWriterMark,
)
from zonekeeper.metadata.logs import logs
from zonekeeper.metadata.logs.logs import NoLogError
from zonekeeper.metadata.stores.memory import ExchangeLoss, Passage, RequestKind
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import carriers
from zonekeeper.wire.formats import errors as wire_errors


@played()
async def test_messages_are_numbered_densely_and_read_back(lab: Lab) -> None:
    await create(lab)
    async with lab.client() as client:
        async with writing(client) as writer:
            assert [await writer.append(one) for one in numbers(0, 5)] == [0, 1, 2, 3, 4]
            first = await writer.flushed(4)
            assert await writer.append_many(numbers(5, 95)) == 100
            assert await writer.append_and_wait(message(100)) == 100
            assert await writer.flushed(100) > first
        with pytest.raises(LogEnded) as caught:
            await writer.append(message(101))
        assert not caught.value.maybe_applied
    found = await check_whole(lab, 101)
    assert found[4].id == first


@played()
async def test_a_writer_that_opens_again_goes_on_with_the_numbers(lab: Lab) -> None:
    await create(lab)
    for number in range(4):
        async with lab.client(f"writer-{number}") as client, writing(client, f"{number}") as writer:
            assert writer.next_sequence == number * 10
            await writer.append_many(numbers(number * 10, 10))
    await check_whole(lab, 40)
    record = await record_of(lab)
    assert record.epoch == 4
    assert [ledger.sequence for ledger in record.ledgers] == [0, 10, 20, 30]
    assert record.unended == ()


@played()
async def test_a_log_rotates_by_messages_and_the_record_says_what_is_where(lab: Lab) -> None:
    await create(lab, SHORT)
    async with lab.client() as client, writing(client) as writer:
        await append_each(await lab.cluster(), writer, numbers(0, 35), every=10)
    record = await record_of(lab)
    assert [ledger.end and ledger.end.messages for ledger in record.ledgers] == [10, 10, 10, 5]
    assert [ledger.sequence for ledger in record.ledgers] == [0, 10, 20, 30]
    await check_whole(lab, 35)


@played()
async def test_flushed_says_that_a_reader_sees_it_at_once(lab: Lab) -> None:
    """No later entry and no quiet writer tells the LAC here: only ``flushed`` does."""
    await create(lab)
    async with (
        lab.client("writer", SILENT) as client,
        lab.client("reader") as other,
        writing(client) as writer,
    ):
        for number in range(20):
            known = await writer.flushed(await writer.append(message(number)))
            found = await read_all(other)
            assert found[-1].id == known
            assert len(found) == number + 1


@played()
async def test_all_that_wait_are_told_once(lab: Lab) -> None:
    await create(lab)
    async with lab.client("writer", SILENT) as client, writing(client) as writer:
        last = await writer.append_many(numbers(0, 50))
        before = sum(lab.door(one).lacs for one in lab.machines)
        await asyncio.gather(*map(writer.flushed, range(last)))
        told = sum(lab.door(one).lacs for one in lab.machines) - before
    assert 0 < told <= 3 * 3  # three batches may be on their way, to three bookies


@played()
async def test_of_several_contenders_one_writes_and_the_others_hear_of_it(lab: Lab) -> None:
    await create(lab)

    async def contend(name: str) -> int:
        async with lab.client(name) as client, writing(client, name) as writer:
            return await writer.append_many(numbers(0, 10))

    done = await asyncio.gather(*map(contend, "abcd"), return_exceptions=True)

    assert done.count(10) == 1
    assert sum(isinstance(one, LogTaken) for one in done) == 3
    await check_whole(lab, 10)


async def hurried(lab: Lab, name: str, first: int, count: int) -> None:
    """Take the log over, and append."""
    async with lab.client(name) as client, writing(client, name) as writer:
        assert writer.next_sequence == first
        await writer.append_many(numbers(first, count))


async def overtaken(lab: Lab, client: Client) -> None:
    async with writing(client) as writer:
        await writer.stored(await writer.append_many(numbers(0, 10)) - 1)
        await hurried(lab, "second", 10, 10)
        sequence = await writer.append(message(999))
        with pytest.raises(LogTaken):
            await writer.stored(sequence)
        with pytest.raises(LogTaken):
            await writer.append(message(999))


@played()
async def test_a_writer_that_lost_the_log_yields_for_good(lab: Lab) -> None:
    await create(lab)
    async with lab.client() as client:
        with pytest.raises(LogTaken):
            await overtaken(lab, client)
    await check_whole(lab, 20)


@played()
async def test_a_fence_is_not_a_takeover(lab: Lab) -> None:
    """A replicator recovers the ledger of a quiet writer: the record still names the writer."""
    await create(lab)
    async with (
        lab.client() as client,
        lab.client("replicator") as replicator,
        writing(client) as writer,
    ):
        for round_ in range(3):
            last = await writer.append_many(numbers(round_ * 10, 10)) - 1
            await writer.stored(last)
            ledger = (await record_of(lab)).ledgers[-1]
            await replicator.open(ledger.id, recover=True)
        await writer.append_and_wait(message(30))
    await check_whole(lab, 31)
    record = await record_of(lab)
    assert record.epoch == 1
    assert [ledger.end and ledger.end.messages for ledger in record.ledgers] == [10, 10, 10, 1]


class Unheard:
    """Replies that do not come back: what was written stays written."""

    def __init__(self, replies: service.Replies) -> None:
        self.peer = replies.peer

    def acked(self, numbers: Sequence[int]) -> None: ...

    def refused(self, number: int, error: wire_errors.ProtocolError) -> None: ...


@played()
async def test_only_what_the_old_ledger_does_not_hold_is_sent_again(lab: Lab) -> None:
    """The ledger fails with three batches on their way; an ack quorum has the first of them."""
    await create(lab)
    async with (
        lab.client() as client,
        lab.client("replicator") as replicator,
        writing(client) as writer,
    ):
        await writer.stored(await writer.append_many(numbers(0, 3)) - 1)
        ledger = (await record_of(lab)).ledgers[-1]
        members = (await client.metadata(ledger.id)).last_fragment.ensemble
        await asyncio.sleep(1)
        doors = [lab.door(member) for member in members[1:]]
        for door in doors:
            door.holding = True
        for number in range(3, 12):
            await writer.append(message(number))
            await asyncio.sleep(0.02)
        appends = [
            (item, replies)
            for items, replies in doors[0].held
            for item in items
            if isinstance(item, carriers.Append)
        ]
        doors[0].bookie.append([appends[0][0]], Unheard(appends[0][1]))
        for door in doors:
            door.held.clear()
            door.holding = False
        await replicator.open(ledger.id, recover=True)
        await writer.stored(11)
    await check_whole(lab, 12)
    end = (await record_of(lab)).ledgers[0].end
    assert end is not None
    assert 3 < end.messages < 12, "a part was recovered, and a part was sent again"


async def crashed(client: Client, token: str, steps: int) -> None:
    """Open a log as a writer that dies after some steps."""
    held = await chain.claimed(client, NAME, LogWriterMark(token=token))
    if steps == 0:
        return
    await held.settle()
    if steps == 1:
        return
    if steps == 2:
        (await client.create()).halt()  # made, and not added
        return
    claim = LogClaim(log_id=held.record.id, epoch=held.record.epoch, token=token)
    writer = await client.create()
    await logs.add(client.cluster, NAME, claim, writer.ledger_id)
    writer.halt()


@played()
@pytest.mark.parametrize("steps", range(4))
async def test_a_writer_that_dies_while_it_opens_leaves_nothing_behind(
    lab: Lab, steps: int
) -> None:
    await create(lab)
    await hurried(lab, "before", 0, 10)
    async with lab.client("dies") as client:
        await crashed(client, "dies", steps)
    await hurried(lab, "after", 10, 10)
    await check_whole(lab, 20)
    record = await record_of(lab)
    assert record.epoch == 3
    assert [one.end and one.end.messages for one in record.ledgers] == [10, 10]


@played()
async def test_a_writer_that_dies_with_two_ledgers_without_an_end_loses_nothing(lab: Lab) -> None:
    """The old writer still writes to both: both are fenced before a new one is added."""
    await create(lab)
    async with lab.client("dies") as client:
        held = await chain.claimed(client, NAME, LogWriterMark(token="dies"))
        first = await held.next_ledger()
        claim = LogClaim(log_id=held.record.id, epoch=1, token="dies")
        second = await client.create()
        await logs.add(client.cluster, NAME, claim, second.ledger_id)
        await hurried(lab, "after", 0, 10)
        for writer in (first, second):
            with pytest.raises(Exception, match=r"recover|close|fenced"):
                await writer.append_and_wait(b"late")
            writer.halt()
    await check_whole(lab, 10)


@played()
async def test_a_ledger_that_somebody_deleted_is_named(lab: Lab) -> None:
    await create(lab)
    await hurried(lab, "before", 0, 10)
    async with lab.client() as client:
        held = await chain.claimed(client, NAME, LogWriterMark(token="dies"))
        await held.next_ledger()
        gone = held.record.ledgers[-1].id
        await client.delete(gone)
        with pytest.raises(LogDamaged, match=f"ledger {gone} is in the record"):
            async with writing(client, "after"):
                pass
        assert (await record_of(lab)).ledgers[-1].id == gone


@played()
async def test_a_writer_whose_log_is_deleted_as_it_settles_hears_of_it_and_not_of_damage(
    lab: Lab,
) -> None:
    await create(lab)
    async with lab.client() as client:
        held = await chain.claimed(client, NAME, LogWriterMark(token="dies"))
        (await held.next_ledger()).halt()
        late = await chain.claimed(client, NAME, LogWriterMark(token="late"))
        opened = client.open

        async def deleted_before(ledger_id: int, *, recover: bool) -> Reader:
            await logs.begin_deletion(client.cluster, NAME, held.record.id)
            await client.delete(ledger_id)
            return await opened(ledger_id, recover=recover)

        with patched([(client, "open", deleted_before)]), pytest.raises(LogDeleting):
            await late.settle()


@played()
async def test_what_is_wrong_is_refused_and_nothing_else_is_affected(lab: Lab) -> None:
    async with lab.client() as client:
        with pytest.raises(NoLogError):
            async with writing(client):
                pass
        await create(lab)
        async with writing(client, "again") as writer:
            with pytest.raises(BadMessageError, match="split it"):
                await writer.append(LogMessage(payload=bytes(BODY_BYTES_MAX)))
            with pytest.raises(NotAppended):
                await writer.flushed(0)
            await writer.append_and_wait(message(0))
    await check_whole(lab, 1)


@played()
async def test_appends_wait_for_room_and_not_for_the_network(lab: Lab) -> None:
    await create(lab)
    async with lab.client() as client, writing(client, budget=LogBudget(1_000)) as writer:
        for machine in lab.machines.values():
            machine.doorway.holding = True
        count = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(5):
                while count < 1_000:
                    await writer.append(message(count))
                    count += 1
        assert 10 < count < 100
        for machine in lab.machines.values():
            machine.doorway.release()
        await writer.append_many(numbers(count, 100))
    await check_whole(lab, count + 100)


@played()
async def test_appends_go_on_while_the_store_is_away_for_a_minute(lab: Lab) -> None:
    await create(lab)
    async with lab.client() as client, writing(client) as writer:
        await writer.append_and_wait(message(0))
        store = of_client(client)
        store.weather = lambda _: Passage(loss=ExchangeLoss.REQUEST)
        for number in range(1, 61):
            await writer.append_and_wait(message(number))
            await asyncio.sleep(1)
        store.weather = lambda _: Passage()
    await check_whole(lab, 61)


@played()
async def test_a_rotation_waits_for_the_store_and_the_log_does_not_end(lab: Lab) -> None:
    await create(lab, SHORT)
    async with lab.client() as client, writing(client) as writer:
        store = of_client(client)
        store.weather = lambda kind: Passage(
            loss=ExchangeLoss.ANSWER if kind is RequestKind.WRITE else ExchangeLoss.NOTHING
        )
        await writer.append_many(numbers(0, 25))
        await asyncio.sleep(120)
        store.weather = lambda _: Passage()
        await writer.stored(24)
    await check_whole(lab, 25)


@played(bookies_in={"a": 1, "b": 1, "c": 1})
async def test_without_bookies_appends_wait_and_the_log_goes_on_when_they_are_back(
    lab: Lab,
) -> None:
    await create(lab, SHORT)
    async with lab.client() as client, writing(client) as writer:
        await writer.stored(await writer.append_many(numbers(0, 9)) - 1)
        victims = [one for one in lab.machines.values() if one.location.zone != "a"]
        for machine in victims:
            await machine.crash()
        await writer.append_many(numbers(9, 20))
        await asyncio.sleep(300)
        for machine in victims:
            await machine.start()
        await writer.stored(28)
    await check_whole(lab, 29)


async def raising(client: Client, kept: list[LogWriter]) -> None:
    async with writing(client) as writer:
        kept.append(writer)
        await writer.stored(await writer.append_many(numbers(0, 10)) - 1)
        raise KeyError


@played()
async def test_a_block_that_raises_stops_the_writer_and_keeps_what_was_stored(lab: Lab) -> None:
    await create(lab)
    kept: list[LogWriter] = []
    async with lab.client() as client:
        with pytest.raises(KeyError):
            await raising(client, kept)
        with pytest.raises(LogEnded):
            await kept[0].append(message(10))
    await hurried(lab, "after", 10, 1)
    await check_whole(lab, 11)


def writes_are_lost(kind: RequestKind) -> Passage:
    """Lose what would change something; reads are tried again for ever."""
    return Passage(loss=ExchangeLoss.REQUEST) if kind is RequestKind.WRITE else Passage()


@played()
async def test_a_store_that_is_away_is_an_error_of_the_client_and_retryable(lab: Lab) -> None:
    await create(lab)
    async with lab.client() as client:
        of_client(client).weather = writes_are_lost
        with pytest.raises(MetadataFailed, match=NAME) as caught:
            async with writing(client):
                pass
        assert caught.value.retryable
        assert caught.value.maybe_applied, "nobody knows whether the claim came through"
        of_client(client).weather = lambda _: Passage()
        async with writing(client, "again") as writer:
            await writer.append_and_wait(message(0))
    await check_whole(lab, 1)


@played()
async def test_a_long_run_of_appends_lets_the_loop_send(lab: Lab) -> None:
    await create(lab)
    async with lab.client() as client, writing(client) as writer:
        ran: list[int] = []
        asyncio.get_running_loop().call_soon(ran.append, 1)
        for _ in range(20):
            await writer.append(LogMessage(payload=bytes(1 << 16)))
        assert ran


async def waits_while_taken(
    lab: Lab, client: Client, wait: Callable[[LogWriter], Awaitable[object]]
) -> None:
    async with writing(client) as writer:
        await writer.stored(await writer.append_many(numbers(0, 10)) - 1)
        await hurried(lab, "second", 10, 10)
        await writer.append(message(999))
        async with asyncio.timeout(60):
            await wait(writer)


@played()
@pytest.mark.parametrize(
    "wait",
    [lambda one: one.stored(10), lambda one: one.flushed(10), lambda one: one.force()],
    ids=["stored", "flushed", "force"],
)
async def test_each_call_that_waits_hears_that_the_log_is_lost(
    lab: Lab, wait: Callable[[LogWriter], Awaitable[object]]
) -> None:
    await create(lab)
    async with lab.client() as client:
        with pytest.raises(LogTaken):
            await waits_while_taken(lab, client, wait)
    await check_whole(lab, 20)
