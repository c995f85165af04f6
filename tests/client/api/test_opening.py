"""A ledger that is not closed is opened only by a caller that says what becomes of its writer."""

import asyncio

import pytest

from tests.client.api.test_blocking import connected
from tests.client.lab import Lab, played
from tests.client.recovery_world import written
from zonekeeper.client.api.client import Client
from zonekeeper.client.base import errors
from zonekeeper.client.base.config import ClientConfig, own_zone
from zonekeeper.metadata.formats.ledger_metadata import LedgerState
from zonekeeper.wire.formats import errors as wire_errors


@played()
async def test_an_open_ledger_is_not_recovered_by_a_caller_that_did_not_ask_for_it(
    lab: Lab,
) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await written(first, 3)
        with pytest.raises(errors.LedgerOpen) as refused:
            await second.open(writer.ledger_id)
        assert (refused.value.ledger_id, refused.value.state) == (writer.ledger_id, "OPEN")
        for told in (f"ledger {writer.ledger_id} is OPEN", "recover=True) fences", "recover=False"):
            assert told in str(refused.value)
        assert (refused.value.retryable, refused.value.maybe_applied) == (False, False)
        assert (await first.metadata(writer.ledger_id)).state is LedgerState.OPEN
        await writer.append_and_wait(b"its writer is not fenced")
        await writer.close()


@played()
async def test_a_ledger_in_recovery_is_not_closed_either(lab: Lab) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await written(first, 3)
        for who in writer.ensemble[1:]:
            lab.door(who).fence_error = wire_errors.ConnectionLost("away")
        with pytest.raises(errors.RecoveryFailed):
            await second.open(writer.ledger_id, recover=True)
        with pytest.raises(errors.LedgerOpen, match="is IN_RECOVERY, not closed"):
            await second.open(writer.ledger_id)
        for who in writer.ensemble:
            lab.door(who).fence_error = None
        reader = await second.open(writer.ledger_id, recover=False)
        assert reader.metadata.state is LedgerState.IN_RECOVERY
        writer.halt()


@played()
async def test_a_closed_ledger_is_opened_by_every_caller(lab: Lab) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await written(first, 3)
        await writer.close()
        for recover in (None, False, True):
            reader = await second.open(writer.ledger_id, recover=recover)
            assert (reader.metadata.is_closed, reader.last_confirmed) == (True, 2)


@played()
async def test_the_password_comes_before_the_state(lab: Lab) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await first.create(password=b"right")
        with pytest.raises(errors.Unauthorized):
            await second.open(writer.ledger_id, password=b"wrong")
        with pytest.raises(errors.LedgerOpen):
            await second.open(writer.ledger_id, password=b"right")
        writer.halt()


@played()
async def test_ids_and_zones_are_plain_ints_and_strings(lab: Lab) -> None:
    config = ClientConfig(zone="a")
    async with lab.client(config=config) as client:
        assert client.bookies.own_zone == own_zone(config) == "a"
        async with await client.create(ledger_id=7) as writer:
            await writer.append(b"one")
            await writer.flushed(0)
        assert (await client.open(7)).last_confirmed == 0
        assert (await client.metadata(7)).last_entry == 0
        await client.delete(7)
        with pytest.raises(errors.NoSuchLedger):
            await client.open(7)


def test_without_asyncio_it_is_the_same() -> None:
    with connected(ClientConfig(zone="a")) as client:
        with client.create(ledger_id=7) as writer:
            writer.append(b"one")
            writer.flushed(0)
            with pytest.raises(errors.LedgerOpen, match="ledger 7 is OPEN"):
                client.open(7)
            assert not client.open(7, recover=False).metadata.is_closed
        with client.open(7) as reader:
            assert reader.last_confirmed == client.metadata(7).last_entry == 0
            assert repr(reader).startswith("<blocking Reader of ledger 7: CLOSED, confirmed to 0")
        assert repr(writer).startswith("<blocking Writer of ledger 7: closed, appended to 0")
        assert repr(client).startswith("<blocking Client of /ledgers in memory")
        client.delete(7)


@played()
async def test_a_writer_and_a_reader_are_awaited_or_entered(lab: Lab) -> None:
    async with lab.client() as client:
        async with client.create() as writer:
            await writer.append(b"one")
        assert (await client.metadata(writer.ledger_id)).is_closed
        async with client.open(writer.ledger_id) as reader:
            assert [entry.payload async for entry in reader.read_entries()] == [b"one"]
        async with asyncio.TaskGroup() as tasks:
            creating = tasks.create_task(client.create())
            opening = tasks.create_task(client.open(writer.ledger_id))
        assert opening.result().last_confirmed == 0
        async with await client.create() as second:
            await second.append(b"two")
        await creating.result().close()


async def fails_in_a_writers_block(client: Client) -> None:
    async with client.create(ledger_id=7) as writer:
        await writer.append(b"one")
        raise LookupError


@played()
async def test_the_end_of_a_failed_block_closes_the_ledger_too(lab: Lab) -> None:
    async with lab.client() as client:
        with pytest.raises(LookupError):
            await fails_in_a_writers_block(client)
        assert (await client.metadata(7)).last_entry == 0


@played()
async def test_what_fails_to_be_made_raises_at_the_block(lab: Lab) -> None:
    async with lab.client() as client:
        with pytest.raises(errors.NoSuchLedger):
            async with client.open(99):
                pytest.fail("there is no such ledger")


@played()
async def test_a_creation_that_is_never_awaited_does_nothing_but_warn(lab: Lab) -> None:
    async with lab.client() as client:
        with pytest.warns(RuntimeWarning, match="was never awaited"):
            client.create()  # counted references: it goes at once
        client.create().close()
        assert [ledger_id async for ledger_id in client.ledgers()] == []
