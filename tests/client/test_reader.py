"""Reading on a small real cluster: order, hedges, bad copies, fragments, ends."""

import asyncio

import pytest

from tests.client.lab import Lab, play
from tests.client.test_recovery import data, payloads, spoil, written
from zonekeeper.client import errors
from zonekeeper.client.client import Client
from zonekeeper.client.config import ClientConfig
from zonekeeper.client.reader import Reader
from zonekeeper.metadata import ledger_metadata, ledgers
from zonekeeper.metadata.ledger_metadata import LedgerMetadata
from zonekeeper.placement.ids import BookieId, EntryId, ZoneName
from zonekeeper.placement.quorums import Quorums
from zonekeeper.wire import errors as wire_errors

STRIPED = Quorums(ensemble=6, write=3, ack=2, ack_zones=2)


async def closed(client: Client, count: int, quorums: Quorums | None = None) -> Reader:
    writer = await written(client, count, quorums)
    await writer.close()
    return await client.open(writer.ledger_id)


def of_zone(reader: Reader, zone: str) -> BookieId:
    """The member of a ledger's ensemble that stands in a zone."""
    return next(who for who in reader.metadata.last_fragment.ensemble if f"-{zone}-" in who)


@pytest.mark.parametrize("zone", ["a", "b", "c"])
def test_the_own_zone_is_read_from_and_counted(zone: str) -> None:
    async def scenario(lab: Lab) -> None:
        async with lab.client(config=ClientConfig(zone=ZoneName(zone))) as client:
            reader = await closed(client, 100)
            assert await payloads(reader) == [data(n) for n in range(100)]
            read_from = [who for who in lab.machines if lab.door(who).reads]
            assert read_from == [of_zone(reader, zone)]
            assert client.counters.reads_local > 0
            assert not client.counters.reads_remote

    play(scenario)


@pytest.mark.parametrize("quorums", [None, STRIPED], ids=["3/3/2", "6/3/2"])
def test_a_range_is_exactly_the_range(quorums: Quorums | None) -> None:
    async def scenario(lab: Lab) -> None:
        async with lab.client(config=ClientConfig(read_bytes=500)) as client:
            reader = await closed(client, 60, quorums)
            for first in range(0, 60, 7):
                for last in range(first, 60, 9):
                    found = [entry async for entry in reader.read_entries(first, last)]
                    assert [entry.payload for entry in found] == [
                        data(n) for n in range(first, last + 1)
                    ]

    play(scenario)


def test_an_empty_ledger_reads_as_nothing() -> None:
    async def scenario(lab: Lab) -> None:
        async with lab.client() as client:
            assert await payloads(await closed(client, 0)) == []

    play(scenario)


def test_beyond_the_end_is_refused_and_nonsense_too() -> None:
    async def scenario(lab: Lab) -> None:
        async with lab.client() as client:
            reader = await closed(client, 10)
            with pytest.raises(errors.BeyondEnd, match="entry 10"):
                await anext(reader.read(5, 10))
            for first, last in ((-1, 3), (4, 3)):
                with pytest.raises(ValueError, match="no entries"):
                    await anext(reader.read(first, last))

    play(scenario)


def test_a_bad_copy_is_passed_over_and_reported() -> None:
    async def scenario(lab: Lab) -> None:
        async with lab.client() as client:
            reader = await closed(client, 30)
            bad = of_zone(reader, "a")
            spoil(lab.door(bad))
            assert await payloads(reader) == [data(n) for n in range(30)]
            assert client.counters.bad_copies[bad] > 0

    play(scenario)


def test_with_all_copies_bad_nothing_is_given() -> None:
    async def scenario(lab: Lab) -> None:
        async with lab.client() as client:
            reader = await closed(client, 1)
            for who in reader.metadata.last_fragment.ensemble:
                spoil(lab.door(who))
            with pytest.raises(errors.ReadFailed) as failed:
                await payloads(reader)
            assert failed.value.retryable
            assert all(who in str(failed.value) for who in reader.metadata.bookies)

    play(scenario)


def test_a_hanging_replica_costs_a_hedge_and_not_the_read() -> None:
    async def scenario(lab: Lab) -> None:
        async with lab.client() as client:
            reader = await closed(client, 30)
            lab.door(of_zone(reader, "a")).hold_reads = asyncio.Event()
            loop = asyncio.get_running_loop()
            start_s = loop.time()
            assert await payloads(reader) == [data(n) for n in range(30)]
            assert 2 <= loop.time() - start_s < 2.5, "policy: hedgeAfter 2s (simulated)"
            assert client.counters.reads_hedged == 1

    play(scenario)


def test_a_replica_that_failed_is_asked_last_for_a_while() -> None:
    async def scenario(lab: Lab) -> None:
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

    play(scenario)


@pytest.mark.parametrize("quorums", [None, STRIPED], ids=["3/3/2", "6/3/2"])
def test_a_ledger_of_many_fragments_reads_as_one(quorums: Quorums | None) -> None:
    async def scenario(lab: Lab) -> None:
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

    play(scenario)


def test_a_reader_finds_the_replicas_that_repair_has_put_elsewhere() -> None:
    async def scenario(lab: Lab) -> None:
        async with lab.client() as client, lab.client("repair") as repair:
            reader = await closed(client, 10)
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
            assert await payloads(reader) == [data(n) for n in range(10)]

    play(scenario)


def test_a_read_that_is_left_early_leaves_nothing_behind() -> None:
    async def scenario(lab: Lab) -> None:
        async with lab.client(config=ClientConfig(read_bytes=100)) as client:
            reader = await closed(client, 100)
            batches = reader.read()
            assert (await anext(batches)).first == 0
            await batches.aclose()

    play(scenario)


def test_a_client_ends_though_somebody_still_follows() -> None:
    async def scenario(lab: Lab) -> None:
        async with lab.client() as client:
            writer = await written(client, 5, told=True)
            reader = await client.open(writer.ledger_id, recover=False)
            tail = reader.tail()
            assert (await anext(tail)).last == 4
            following = asyncio.ensure_future(anext(tail))
            await asyncio.sleep(1)
        with pytest.raises(errors.ClientClosed):
            await following

    play(scenario)


def test_ledgers_are_listed_in_order() -> None:
    async def scenario(lab: Lab) -> None:
        async with lab.client() as client:
            made = [(await client.create()).ledger_id for _ in range(5)]
            assert [ledger_id async for ledger_id in client.ledgers()] == sorted(made)

    play(scenario)
