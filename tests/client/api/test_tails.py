"""Following a ledger that is still written, where its reader is not alone or the way is rough."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from tests.client.lab import Door, Lab, played
from tests.client.recovery_world import payloads, written
from zonekeeper.client.api.reader import Reader
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.placement.base.ids import BookieId, EntryId, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import errors as wire_errors
from zonekeeper.wire.formats.entries import Entry

#: A batch is one entry.
ONE_BY_ONE = ClientConfig(read_bytes=1)

Follow = Callable[[Reader], AsyncIterator[Entry]]


async def unconfirmed(reader: Reader) -> AsyncIterator[Entry]:
    async for batch in reader.read_unconfirmed():
        for entry in batch:
            yield entry


FOLLOWING: dict[str, Follow] = {
    "tail": lambda reader: reader.follow(),
    "read_unconfirmed": unconfirmed,
}


def busy_once(door: Door) -> None:
    well = door.spoil

    def refuse(_: service.ReadReply) -> service.ReadReply:
        door.spoil = well
        raise wire_errors.TooManyRequests("busy for a moment")

    door.spoil = refuse


@pytest.mark.parametrize("follow", FOLLOWING.values(), ids=FOLLOWING.keys())
@played()
async def test_who_hears_of_the_end_while_it_reads_what_it_knew_reads_on_to_that_end(
    lab: Lab, follow: Follow
) -> None:
    """The application asks how far its tail lags, and so the reader learns that it is closed."""
    async with lab.client() as first, lab.client(config=ONE_BY_ONE) as second:
        writer = await written(first, 5, told=True)
        reader = await second.open(writer.ledger_id, recover=False)
        found: list[EntryId] = []
        async for entry in follow(reader):
            if not found:
                await writer.append_many([b"more"] * 5)
                await writer.close()
                assert await reader.read_last_confirmed() == 9
            found.append(entry.entry_id)
        assert found == list(range(10))


@played()
async def test_a_tail_whose_own_retry_finds_the_ledger_closed_reads_on_to_its_end(lab: Lab) -> None:
    """All replicas are busy for a moment, in which the ledger is closed: the metadata, read anew,
    tells of an end that is further than what is being read."""
    async with lab.client() as first, lab.client("reader", config=ONE_BY_ONE) as second:
        writer = await written(first, 5, told=True)
        reader = await second.open(writer.ledger_id, recover=False)
        found: list[EntryId] = []
        async for entry in reader.follow():
            found.append(entry.entry_id)
            if found == [0, 1]:
                await writer.append_many([b"more"] * 5)
                await writer.close()
                for who in writer.ensemble:
                    busy_once(lab.door(who))
        assert found == list(range(10))


@played(bookies_in={"a": 1, "b": 1, "c": 1})
async def test_a_tail_that_was_cut_off_from_the_writer_is_not_late_by_as_long_as_that_was_quiet(
    lab: Lab,
) -> None:
    """The near replica hears nothing of the writer any more, and answers its tail. The longer the
    writer says nothing, the more often the others have had no news."""
    loop = asyncio.get_running_loop()
    near = ClientConfig(zone=ZoneName("a"))
    async with lab.client("writer") as first, lab.client("reader", config=near) as second:
        writer = await written(first, 3, told=True)
        reader = await second.open(writer.ledger_id, recover=False)
        arrived_s: list[float] = []

        async def follow() -> None:
            async for _ in reader.follow(3):
                arrived_s.append(loop.time())

        following = lab.tasks.create_task(follow())
        await asyncio.sleep(0.5)
        cut_off = BookieId("bk-a-0")
        lab.network.disconnect("writer", cut_off)
        lab.network.cut("writer", cut_off)
        lab.network.cut(cut_off, "writer")
        for quiet_s in (170, 1_300):
            await asyncio.sleep(quiet_s)
            appended_s = loop.time()
            await writer.append_and_wait(b"news")
            await asyncio.sleep(100)
            assert arrived_s.pop() - appended_s < 60, "in virtual time"
        following.cancel()


@played(bookies_in={"a": 1, "b": 4, "c": 4})
async def test_who_follows_a_ledger_without_entries_accuses_no_bookie_of_having_none(
    lab: Lab,
) -> None:
    """Other ledgers of the same client are read in the zone as ever."""
    near = ClientConfig(zone=ZoneName("a"))
    async with lab.client("writer") as first, lab.client("reader", config=near) as second:
        full = await written(first, 10)
        await full.close()
        silent = await first.create()
        empty = await second.open(silent.ledger_id, recover=False)
        following = asyncio.ensure_future(anext(empty.follow()))
        reader = await second.open(full.ledger_id)
        for _ in range(10):
            assert len(await payloads(reader)) == 10
            await asyncio.sleep(10)
        assert (second.counters.reads_local, second.counters.reads_remote) == (10, {})
        following.cancel()


@pytest.mark.parametrize("from_start", [True, False], ids=["from its start", "from its end"])
@played(bookies_in={"a": 1, "b": 1, "c": 1})
async def test_a_tail_whose_near_replica_has_nothing_of_the_ledger_is_told_by_another_one(
    lab: Lab, from_start: bool
) -> None:
    """It was never reached by the writer, and says that it knows no such ledger."""
    loop = asyncio.get_running_loop()
    near = ClientConfig(zone=ZoneName("a"))
    lab.network.cut("writer", "bk-a-0")
    lab.network.cut("bk-a-0", "writer")
    async with lab.client("writer") as first, lab.client("reader", config=near) as second:
        writer = await written(first, 1)
        reader = await second.open(writer.ledger_id, recover=False)
        arrived_s: dict[EntryId, float] = {}

        async def follow() -> None:
            async for entry in reader.follow(0 if from_start else 1):
                arrived_s[entry.entry_id] = loop.time()

        following = lab.tasks.create_task(follow())
        await asyncio.sleep(1)
        late_s = 0.0
        for _ in range(20):
            await asyncio.sleep(3.3)
            entry_id = await writer.append_and_wait(b"news")
            acked_s = loop.time()
            await asyncio.sleep(10)
            late_s += arrived_s[entry_id] - acked_s
        assert late_s / 20 < 0.2, "in virtual time"
        following.cancel()
        writer.halt()


@pytest.mark.parametrize(("entries", "first"), [(0, 0), (0, 5), (1, 1)])
@played()
async def test_a_tail_accuses_no_replica_of_having_nothing_before_there_is_something_for_it(
    lab: Lab, entries: int, first: int
) -> None:
    """Each entry has three of six bookies; the bookie that is asked for entry 1 lacks entry 0."""
    striped = Quorums(ensemble=6, write=3, ack=2, ack_zones=2)
    async with lab.client("writer") as client:
        writer = await client.create(quorums=striped)
        for _ in range(entries):
            await writer.append_and_wait(b"first")
        near = ClientConfig(zone=ZoneName(writer.ensemble[3].split("-")[1]))
        async with lab.client("reader", config=near) as other:
            reader = await other.open(writer.ledger_id, recover=False)
            following = asyncio.ensure_future(anext(reader.follow(first)))
            await asyncio.sleep(60)
            assert [who for who in writer.ensemble if other.bookies.replica(who).failures] == []
            following.cancel()
        writer.halt()
