"""A writer whose ledger was deleted and collected gets no more acknowledgements (S119 to S121)."""

import asyncio

import pytest

from tests.client.api.test_writer import fill
from tests.client.lab import Lab, played
from zonekeeper.client.api.client import Client
from zonekeeper.client.api.writer import Writer
from zonekeeper.client.base import errors
from zonekeeper.client.sessions import write_session
from zonekeeper.metadata.formats.ledger_metadata import LedgerState
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId

#: So few that a ledger which is made anew is on the bookies that collected the old one.
THE_SAME_BOOKIES = {"a": 1, "b": 1, "c": 1}


async def forgotten(lab: Lab, who: BookieId, ledger_id: LedgerId) -> None:
    await lab.door(who).bookie._storage.forget([ledger_id])


async def collected(lab: Lab, ledger_id: LedgerId) -> None:
    """Let every bookie forget a ledger, as after a proof of its deletion."""
    for who in lab.machines:
        await forgotten(lab, who, ledger_id)


def without_tombstones(lab: Lab) -> None:
    """Let more than seven days pass for the tombstones."""
    for machine in lab.machines.values():
        tombstones = machine.doorway.bookie._memory.tombstones
        tombstones.expire(1 << 62)
        assert not len(tombstones)


def store_of(client: Client) -> MemoryStore:
    store = client.cluster.store
    assert isinstance(store, MemoryStore)
    return store


async def payloads(client: Client, ledger_id: LedgerId) -> list[bytes]:
    reader = await client.open(ledger_id, recover=True)
    return [bytes(entry.payload) async for entry in reader.read_entries()]


async def fenced_deleted_and_collected(lab: Lab, writer: Writer, other: Client) -> None:
    await other.open(writer.ledger_id, recover=True)
    await other.delete(writer.ledger_id)
    await collected(lab, writer.ledger_id)


async def ends(writer: Writer, confirmed: int) -> None:
    """Nothing more is acknowledged, and the error says what happened and what to do."""
    with pytest.raises(errors.ClosedByOther, match=r"was deleted .* write to a new ledger") as told:
        await writer.append_and_wait(b"too late")
    assert not told.value.retryable
    assert writer.last_confirmed == confirmed


@played()
async def test_s119_a_fenced_writer_is_not_acknowledged_after_deletion_and_collection(
    lab: Lab,
) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await first.create()
        await fill(writer, 3)
        await writer.flush()
        await fenced_deleted_and_collected(lab, writer, second)
        await ends(writer, 2)


@played()
async def test_s119_nor_after_its_bookies_were_started_again(lab: Lab) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await first.create()
        await fill(writer, 3)
        await writer.flush()
        await fenced_deleted_and_collected(lab, writer, second)
        for machine in lab.machines.values():
            await machine.crash()
            await machine.start()
        await ends(writer, 2)


@played()
async def test_s119_nor_after_the_tombstones_have_expired(lab: Lab) -> None:
    """The writer slept for eight days: the bookies know nothing, but it had the ledger open."""
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await first.create()
        await fill(writer, 3)
        await writer.flush()
        await fenced_deleted_and_collected(lab, writer, second)
        without_tombstones(lab)
        await ends(writer, 2)


@played()
async def test_nor_does_a_writer_that_begins_after_the_collection(lab: Lab) -> None:
    """Its bookies never had the ledger open: they have a tombstone of a ledger that was fenced."""
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await first.create()
        await fenced_deleted_and_collected(lab, writer, second)
        await ends(writer, -1)


@played()
async def test_nor_does_one_that_begins_when_the_tombstones_have_expired(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_session, "UNSEEN_MAX_S", 60)
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await first.create()
        await fenced_deleted_and_collected(lab, writer, second)
        without_tombstones(lab)
        await asyncio.sleep(61)
        await ends(writer, -1)


@played()
async def test_an_idle_writer_that_tells_its_end_hears_that_the_ledger_is_gone(lab: Lab) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await first.create()
        await fill(writer, 3)
        await writer.flush()
        await fenced_deleted_and_collected(lab, writer, second)
        with pytest.raises(errors.ClosedByOther, match="was deleted"):
            await writer.tell_confirmed()


@played(bookies_in=THE_SAME_BOOKIES)
async def test_s120_a_ledger_made_anew_under_the_same_id_is_another_ledger(lab: Lab) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        old = await first.create(ledger_id=LedgerId(77))
        await fill(old, 3)
        await old.flush()
        await second.delete(old.ledger_id)
        await collected(lab, old.ledger_id)
        new = await second.create(ledger_id=LedgerId(77))
        await new.append_and_wait(b"new")
        with pytest.raises(errors.ClosedByOther, match="another ledger was made under its id"):
            await old.append_and_wait(b"too late")
        with pytest.raises(errors.ClientError):
            await old.close()
        assert (await second.metadata(new.ledger_id)).state is LedgerState.OPEN
        await new.append_and_wait(b"newer")
        await new.close()
        assert await payloads(second, new.ledger_id) == [b"new", b"newer"]


@played(bookies_in=THE_SAME_BOOKIES)
async def test_s120_a_reader_of_the_old_ledger_reads_nothing_of_the_new_one(lab: Lab) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        old = await first.create(ledger_id=LedgerId(77))
        await fill(old, 3)
        await old.close()
        reader = await first.open(old.ledger_id)
        await second.delete(old.ledger_id)
        await collected(lab, old.ledger_id)
        new = await second.create(ledger_id=LedgerId(77))
        await fill(new, 3)
        await new.close()
        with pytest.raises(errors.NoSuchLedger, match="another ledger was made under its id"):
            _ = [batch async for batch in reader.read(EntryId(0), EntryId(2))]
        with pytest.raises(errors.NoSuchLedger, match="was deleted"):
            await reader.refresh()


@played(bookies_in=THE_SAME_BOOKIES)
async def test_s120_an_old_writer_that_is_idle_and_still_has_its_lanes_changes_nothing_of_it(
    lab: Lab,
) -> None:
    """It has told its end and sends nothing, so no bookie could tell it that the ledger is gone."""
    async with lab.client("first") as first, lab.client("second") as second:
        old = await first.create(ledger_id=LedgerId(77))
        await fill(old, 3)
        await old.flush()
        await asyncio.sleep(30)
        await second.delete(old.ledger_id)
        await collected(lab, old.ledger_id)
        new = await second.create(ledger_id=LedgerId(77))
        await new.append_and_wait(b"new")
        with pytest.raises(errors.ClosedByOther, match="another ledger was made under its id"):
            await old.append_and_wait(b"too late")
        assert old.last_confirmed == 2
        for _ in range(4):
            await new.append_and_wait(b"newer")
        await new.close()
        assert await payloads(second, new.ledger_id) == [b"new", *[b"newer"] * 4]


@played(bookies_in=THE_SAME_BOOKIES)
async def test_s120_nor_does_an_old_writer_of_the_same_client(lab: Lab) -> None:
    """Both have the same connections, on which the new one has opened its ledger."""
    async with lab.client("first") as first:
        old = await first.create(ledger_id=LedgerId(77))
        await fill(old, 3)
        await old.flush()
        await asyncio.sleep(30)
        await first.delete(old.ledger_id)
        await collected(lab, old.ledger_id)
        new = await first.create(ledger_id=LedgerId(77))
        await new.append_and_wait(b"new")
        with pytest.raises(errors.ClosedByOther, match="another ledger under its id"):
            await old.append_and_wait(b"too late")
        old.halt()
        for _ in range(4):
            await new.append_and_wait(b"newer")
        await new.close()
        assert await payloads(first, new.ledger_id) == [b"new", *[b"newer"] * 4]


@played(bookies_in=THE_SAME_BOOKIES)
async def test_s120_a_ledger_made_anew_and_never_written_can_be_recovered(lab: Lab) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        old = await first.create(ledger_id=LedgerId(77))
        await fenced_deleted_and_collected(lab, old, second)
        new = await second.create(ledger_id=LedgerId(77))
        assert await payloads(first, new.ledger_id) == []


@played()
async def test_s121_a_bookie_that_has_lost_the_ledger_is_replaced(lab: Lab) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await first.create()
        await fill(writer, 3)
        await writer.flush()
        lost = writer.ensemble[0]
        await forgotten(lab, lost, writer.ledger_id)
        await writer.append_and_wait(b"more")
        await writer.append_and_wait(b"and more")
        assert lost not in writer.ensemble
        await writer.close()
        assert (await payloads(second, writer.ledger_id))[3:] == [b"more", b"and more"]


@played()
async def test_while_the_store_is_in_doubt_the_other_bookies_go_on(lab: Lab) -> None:
    async with lab.client("first") as first, lab.client("second"):
        writer = await first.create()
        await fill(writer, 3)
        await writer.flush()
        lost = writer.ensemble[0]
        await forgotten(lab, lost, writer.ledger_id)
        store_of(first).cut()
        for number in range(5):
            await writer.append_and_wait(b"%d" % number)
            await asyncio.sleep(3)
        assert lost in writer.ensemble
        assert not lab.door(lost).bookie._memory.ledgers.get(writer.ledger_id)
        store_of(first).mend()
        await asyncio.sleep(30)
        await writer.append_and_wait(b"last")
        assert lost not in writer.ensemble


@played()
async def test_while_the_store_is_in_doubt_a_deleted_ledger_is_not_acknowledged(lab: Lab) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await first.create()
        await fill(writer, 3)
        await writer.flush()
        await fenced_deleted_and_collected(lab, writer, second)
        store_of(first).cut()
        waiting = asyncio.ensure_future(writer.append_and_wait(b"too late"))
        await asyncio.sleep(20)
        assert not waiting.done()
        store_of(first).mend()
        with pytest.raises(errors.ClosedByOther, match="was deleted"):
            await waiting
        assert writer.last_confirmed == 2


@played()
async def test_s121_no_recovery_takes_a_collected_copy_for_one_that_never_was(lab: Lab) -> None:
    """Metadata stands, or was set back: then what bookies collected was perhaps acknowledged."""
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await first.create()
        await fill(writer, 3)
        await writer.flush()
        ensemble = writer.ensemble
        writer.halt()
        for who in ensemble[:2]:
            await forgotten(lab, who, writer.ledger_id)
        with pytest.raises(errors.RecoveryFailed, match="LedgerDeleted"):
            await second.open(writer.ledger_id, recover=True)
        assert not (await second.metadata(writer.ledger_id)).is_closed


@played()
async def test_a_recovery_of_a_ledger_that_is_deleted_meanwhile_says_so(lab: Lab) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await first.create()
        await fill(writer, 3)
        await writer.flush()
        writer.halt()
        for who in writer.ensemble:
            lab.door(who).hold_reads = asyncio.Event()
        recovering = asyncio.ensure_future(second.open(writer.ledger_id, recover=True))
        await asyncio.sleep(1)
        await first.delete(writer.ledger_id)
        await collected(lab, writer.ledger_id)
        for who in writer.ensemble:
            if (held := lab.door(who).hold_reads) is not None:
                held.set()
        with pytest.raises(errors.NoSuchLedger, match="deleted"):
            await recovering


@played()
async def test_a_reader_of_a_deleted_and_collected_ledger_is_told_so(lab: Lab) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await first.create()
        await fill(writer, 3)
        await writer.close()
        reader = await second.open(writer.ledger_id)
        await first.delete(writer.ledger_id)
        await collected(lab, writer.ledger_id)
        with pytest.raises(errors.NoSuchLedger, match="was deleted"):
            _ = [entry async for entry in reader.read_entries()]
