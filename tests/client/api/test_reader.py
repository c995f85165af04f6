"""Reading on a small real cluster: order, hedges, bad copies, fragments, ends."""

import asyncio

import pytest

from tests.client.lab import Lab, played
from tests.client.recovery_world import data, payloads, spoil, written
from zonekeeper.client.api.client import Client
from zonekeeper.client.api.reader import Reader
from zonekeeper.client.base import errors
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.client.sessions.tailing import QUIET_MS
from zonekeeper.metadata.formats import ledger_metadata
from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
from zonekeeper.metadata.ledgers import ledgers
from zonekeeper.placement.base.ids import BookieId, EntryId, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.formats import errors as wire_errors

STRIPED = Quorums(ensemble=6, write=3, ack=2, ack_zones=2)


async def closed(client: Client, count: int, quorums: Quorums | None = None) -> Reader:
    writer = await written(client, count, quorums)
    await writer.close()
    return await client.open(writer.ledger_id)


def of_zone(reader: Reader, zone: str) -> BookieId:
    """The member of a ledger's ensemble that stands in a zone."""
    return next(who for who in reader.metadata.last_fragment.ensemble if f"-{zone}-" in who)


@pytest.mark.parametrize("zone", ["a", "b", "c"])
@played()
async def test_the_own_zone_is_read_from_and_counted(lab: Lab, zone: str) -> None:
    async with lab.client(config=ClientConfig(zone=ZoneName(zone))) as client:
        reader = await closed(client, 100)
        assert await payloads(reader) == [data(n) for n in range(100)]
        read_from = [who for who in lab.machines if lab.door(who).reads]
        assert read_from == [of_zone(reader, zone)]
        assert client.counters.reads_local > 0
        assert not client.counters.reads_remote


@pytest.mark.parametrize("quorums", [None, STRIPED], ids=["3/3/2", "6/3/2"])
@played()
async def test_a_range_is_exactly_the_range(lab: Lab, quorums: Quorums | None) -> None:
    async with lab.client(config=ClientConfig(read_bytes=500)) as client:
        reader = await closed(client, 60, quorums)
        for first in range(0, 60, 7):
            for last in range(first, 60, 9):
                found = [entry async for entry in reader.read_entries(first, last)]
                assert [entry.payload for entry in found] == [
                    data(n) for n in range(first, last + 1)
                ]


@played()
async def test_an_empty_ledger_reads_as_nothing(lab: Lab) -> None:
    async with lab.client() as client:
        assert await payloads(await closed(client, 0)) == []


@played()
async def test_beyond_the_end_is_refused_and_nonsense_too(lab: Lab) -> None:
    async with lab.client() as client:
        reader = await closed(client, 10)
        with pytest.raises(errors.BeyondEnd, match="entry 10"):
            await anext(reader.read(5, 10))
        for first, last in ((-1, 3), (4, 3)):
            with pytest.raises(ValueError, match="no entries"):
                await anext(reader.read(first, last))


@played()
async def test_a_bad_copy_is_passed_over_and_reported(lab: Lab) -> None:
    async with lab.client() as client:
        reader = await closed(client, 30)
        bad = of_zone(reader, "a")
        spoil(lab.door(bad))
        assert await payloads(reader) == [data(n) for n in range(30)]
        assert client.counters.bad_copies[bad] > 0


@played()
async def test_with_all_copies_bad_nothing_is_given(lab: Lab) -> None:
    async with lab.client() as client:
        reader = await closed(client, 1)
        for who in reader.metadata.last_fragment.ensemble:
            spoil(lab.door(who))
        with pytest.raises(errors.ReadFailed) as failed:
            await payloads(reader)
        assert failed.value.retryable
        assert all(who in str(failed.value) for who in reader.metadata.bookies)


@played()
async def test_a_hanging_replica_costs_a_hedge_and_not_the_read(lab: Lab) -> None:
    async with lab.client() as client:
        reader = await closed(client, 30)
        lab.door(of_zone(reader, "a")).hold_reads = asyncio.Event()
        loop = asyncio.get_running_loop()
        start_s = loop.time()
        assert await payloads(reader) == [data(n) for n in range(30)]
        assert 2 <= loop.time() - start_s < 2.5, "policy: hedgeAfter 2s (simulated)"
        assert client.counters.reads_hedged == 1


@played()
async def test_a_replica_that_failed_is_asked_last_for_a_while(lab: Lab) -> None:
    async with lab.client() as client:
        reader = await closed(client, 10)
        near = of_zone(reader, "a")
        lab.door(near).read_error = wire_errors.IoFailed("disk")
        await payloads(reader)
        lab.door(near).read_error = None
        asked = len(lab.door(near).reads)
        await payloads(reader)
        assert len(lab.door(near).reads) == asked
        await asyncio.sleep(61)
        await payloads(reader)
        assert len(lab.door(near).reads) > asked


@pytest.mark.parametrize("quorums", [None, STRIPED], ids=["3/3/2", "6/3/2"])
@played()
async def test_a_ledger_of_many_fragments_reads_as_one(lab: Lab, quorums: Quorums | None) -> None:
    async with lab.client() as client:
        writer = await client.create(quorums=quorums)
        for number in range(50):
            await writer.append(data(number))
            await writer.flush()
            if number in (10, 20, 30):
                victim = lab.machines[writer.ensemble[number % 3]]
                await victim.crash()
                await writer.append_many([b""] * 6)
                await writer.flush()
                await victim.start()
                await asyncio.sleep(11)
        await writer.close()
        reader = await client.open(writer.ledger_id)
        assert len(reader.metadata.fragments) >= 3
        found = [payload for payload in await payloads(reader) if payload]
        assert found == [data(n) for n in range(50)]


async def moved_by_repair(lab: Lab, repair: Client, reader: Reader) -> None:
    """Let other bookies hold all copies, and let those that held them be empty ones."""
    old = reader.metadata.last_fragment.ensemble
    fresh = [who for who in lab.machines if who not in old][:3]
    copy_to = dict(zip(old, fresh, strict=True))
    for source, target in copy_to.items():
        files = lab.machines[source].files.crashed(lab.chance)
        await lab.machines[source].crash()
        await lab.machines[target].crash()
        lab.machines[target].files = files
        await lab.machines[target].start()

    def repaired(ledger: LedgerMetadata) -> LedgerMetadata:
        return ledger_metadata.replicas_replaced(ledger, EntryId(0), copy_to)

    await ledgers.change(repair.cluster, reader.ledger_id, repaired)
    for source in old:
        await lab.machines[source].replace_disk()
        await lab.machines[source].start()


@played()
async def test_a_reader_finds_the_replicas_that_repair_has_put_elsewhere(lab: Lab) -> None:
    async with lab.client() as client, lab.client("repair") as repair:
        reader = await closed(client, 10)
        await moved_by_repair(lab, repair, reader)
        assert await payloads(reader) == [data(n) for n in range(10)]


@played()
async def test_two_who_read_at_once_both_find_them(lab: Lab) -> None:
    """A reader that reads the metadata again later sees nothing new, and is wrong to give up."""
    async with lab.client() as client, lab.client("repair") as repair:
        reader = await closed(client, 10)
        await moved_by_repair(lab, repair, reader)
        for found in await asyncio.gather(payloads(reader), payloads(reader)):
            assert found == [data(n) for n in range(10)]


@played()
async def test_what_is_read_unconfirmed_is_looked_for_where_it_is_now(lab: Lab) -> None:
    """All members are replaced while a reader looks on, and come back with what they had."""
    async with lab.client() as first, lab.client() as second:
        writer = await written(first, 3, told=True)
        reader = await second.open(writer.ledger_id, recover=False)
        before = writer.ensemble
        for number, who in enumerate(before):
            await lab.machines[who].crash()
            for _ in range(3):
                await writer.append(data(3 + number))
            await writer.flush()
            await asyncio.sleep(1)
        assert not set(before) & set(writer.ensemble)
        for who in before:
            await lab.machines[who].start()
        batches = [batch async for batch in reader.read_unconfirmed(3)]
        assert [entry.entry_id for batch in batches for entry in batch] == list(range(3, 12))


@played()
async def test_what_was_read_unconfirmed_ends_where_the_ledger_was_closed_meanwhile(
    lab: Lab,
) -> None:
    async with lab.client() as first, lab.client() as second:
        writer = await written(first, 3, told=True)
        reader = await second.open(writer.ledger_id, recover=False)
        found = []
        async for batch in reader.read_unconfirmed():
            found += [entry.entry_id for entry in batch]
            if found == [0, 1, 2]:
                await writer.append_many([b"more"] * 3)
                await writer.close()
        assert found == list(range(6))
        assert reader.metadata.is_closed


@pytest.mark.parametrize(("first", "last"), [(1.5, None), (0, 2.0), ("0", None)])
@played()
async def test_a_bound_that_is_no_number_of_an_entry_is_refused_at_once(
    lab: Lab, first: object, last: object
) -> None:
    """In the middle of a task it would end the client, and its writers with it."""
    async with lab.client() as client:
        writer = await written(client, 3, told=True)
        reader = await client.open(writer.ledger_id, recover=False)
        for read in (reader.read, reader.read_unconfirmed):
            with pytest.raises(TypeError, match="whole numbers"):
                await anext(read(first, last))  # type: ignore[arg-type] # what is not checked
        await writer.append(b"goes on")
        await writer.close()


@played()
async def test_entries_that_grow_do_not_make_a_striped_batch_grow(lab: Lab) -> None:
    """The window has become wide for entries of one byte; then each is a tenth of what one read
    brings."""
    read_bytes = 10_000
    async with lab.client(config=ClientConfig(read_bytes=read_bytes)) as client:
        writer = await client.create(quorums=STRIPED)
        sizes = [1] * 400 + [read_bytes // 10] * 400
        await writer.append_many([bytes(size) for size in sizes])
        await writer.close()
        reader = await client.open(writer.ledger_id)
        batches = [batch async for batch in reader.read()]
        found = [entry for batch in batches for entry in batch]
        assert [len(entry.payload) for entry in found] == sizes
        widest = max(sum(len(entry.payload) for entry in batch) for batch in batches)
        assert widest <= STRIPED.ensemble * read_bytes


@played(bookies_in={"a": 1, "b": 1, "c": 1})
async def test_a_tail_is_not_left_behind_by_the_nearest_replica(lab: Lab) -> None:
    """It takes nothing more, and answers; there is no bookie to replace it. The others have news
    each time that they are asked."""
    near = ClientConfig(zone=ZoneName("a"))
    loop = asyncio.get_running_loop()
    config = ClientConfig(quiet_ms=1_000)
    async with lab.client(config=config) as first, lab.client(config=near) as second:
        writer = await written(first, 3, told=True)
        reader = await second.open(writer.ledger_id, recover=False)
        appended_s: dict[int, float] = {}
        late_s: list[float] = []

        async def follow() -> None:
            async for entry in reader.follow(3):
                late_s.append(loop.time() - appended_s[entry.entry_id])

        following = asyncio.ensure_future(follow())
        await asyncio.sleep(0.5)
        await lab.door(BookieId("bk-a-0")).set_read_only(read_only=True)
        for number in range(200):
            appended_s[writer.last_appended + 1] = loop.time()
            await writer.append(data(number))
            await asyncio.sleep(0.5)
        await writer.close()
        await following
        assert len(late_s) == 200
        assert max(late_s) < 2 * QUIET_MS / 1_000, "in virtual time"


@played()
async def test_a_read_that_is_left_early_leaves_nothing_behind(lab: Lab) -> None:
    async with lab.client(config=ClientConfig(read_bytes=100)) as client:
        reader = await closed(client, 100)
        batches = reader.read()
        assert (await anext(batches)).first == 0
        await batches.aclose()


@played()
async def test_a_client_ends_though_somebody_still_follows(lab: Lab) -> None:
    async with lab.client() as client:
        writer = await written(client, 5, told=True)
        reader = await client.open(writer.ledger_id, recover=False)
        tail = reader.follow()
        assert len(await tail.read_many(5)) == 5
        following = asyncio.ensure_future(anext(tail))
        await asyncio.sleep(1)
    with pytest.raises(errors.ClientClosed):
        await following


@played()
async def test_ledgers_are_listed_in_order(lab: Lab) -> None:
    async with lab.client() as client:
        writers = [await client.create() for _ in range(5)]
        made = sorted(writer.ledger_id for writer in writers)
        assert [ledger_id async for ledger_id in client.ledgers()] == made
