"""Recoveries that die, that meet each other, or that meet the writer's own end.

Numbers are those of docs/scenarios.md.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from tests.client.lab import Lab, play, played
from tests.client.recovery_world import (
    data,
    entries_at,
    left_with_a_tail,
    payloads,
    set_back,
    written,
)
from tests.simulation.patching import patched
from tests.support import playing
from zonekeeper.client.api import client as clients
from zonekeeper.client.api.writer import Writer
from zonekeeper.client.base import errors
from zonekeeper.client.sessions import recovery
from zonekeeper.metadata.formats import ledger_metadata
from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata, LedgerState
from zonekeeper.metadata.ledgers import ledgers
from zonekeeper.metadata.stores.memory import MemoryStore, Passage, RequestKind
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.wire.formats import errors as wire_errors

#: Entries at one bookie only, when the writer dies: as many as may be under way alone.
TAIL = 3


async def copies(lab: Lab, ledger_id: LedgerId, metadata: LedgerMetadata) -> list[int]:
    """How many of the bookies that metadata shows hold each entry."""
    holders: Counter[int] = Counter()
    for at, fragment in enumerate(metadata.fragments):
        following = metadata.fragments[at + 1 :]
        behind = following[0].first_entry if following else metadata.last_entry + 1
        for who in fragment.ensemble:
            held = await entries_at(lab, who, ledger_id, fragment.first_entry)
            holders.update(entry for entry in held if entry < behind)
    return [holders[entry] for entry in range(metadata.last_entry + 1)]


def play_narrow(scenario: Callable[[Lab], Awaitable[None]]) -> None:
    """Play with entries written back one after the other; also for a caller that is not pytest."""
    with patched([(recovery, "WINDOW_ENTRIES", 1)]):
        play(scenario)


played_narrow = playing.by(play_narrow)


@played_narrow()
async def test_s22_a_recovery_that_died_half_way_is_taken_up_by_the_next(lab: Lab) -> None:
    """It wrote back some of what one bookie has to a second one, and died: that is kept."""
    for count in range(TAIL + 1):
        async with lab.client(f"first-{count}") as first:
            writer = await left_with_a_tail(lab, first, TAIL)
        lab.door(writer.ensemble[2]).hold_reads = asyncio.Event()
        lab.door(writer.ensemble[2]).append_error = wire_errors.ReadOnly("full")
        async with lab.client(f"dying-{count}") as dying:
            await dies_behind(lab, dying, writer, writer.ensemble[1], count)
        kept = await entries_at(lab, writer.ensemble[1], writer.ledger_id, 3)
        lab.door(writer.ensemble[2]).hold_reads = None
        lab.door(writer.ensemble[2]).append_error = None
        async with lab.client(f"last-{count}") as last:
            reader = await last.open(writer.ledger_id, recover=True)
            assert 2 + len(kept) <= reader.last_confirmed <= 2 + TAIL
            assert await payloads(reader) == [data(n) for n in range(reader.last_confirmed + 1)]
        assert min(await copies(lab, writer.ledger_id, reader.metadata)) >= 2


async def dies_behind(
    lab: Lab, client: clients.Client, writer: Writer, who: BookieId, count: int
) -> None:
    """Recover, and die when a bookie has so many of the entries that are written back."""
    recovering = asyncio.ensure_future(client.open(writer.ledger_id, recover=True))
    while len(await entries_at(lab, who, writer.ledger_id, 3)) < count:
        assert not recovering.done()
        await asyncio.sleep(0.0001)
    recovering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await recovering


@played_narrow()
async def test_s23_recoveries_at_once_that_choose_other_bookies_agree(lab: Lab) -> None:
    """None of them may read from what another one chose, nor show what it chose before the end."""
    for delay in range(6):
        async with lab.client(f"first-{delay}") as first:
            writer = await left_with_a_tail(lab, first, TAIL)
            for who in writer.ensemble[1:]:
                lab.door(who).append_error = wire_errors.ReadOnly("full")
            lab.door(writer.ensemble[2]).hold_reads = asyncio.Event()
            async with asyncio.TaskGroup() as tasks:
                recovering = [
                    tasks.create_task(recovered(lab, writer, f"one-{delay}", 0)),
                    tasks.create_task(recovered(lab, writer, f"other-{delay}", 0.001 * delay)),
                ]
                while not any(each.done() for each in recovering):
                    shown = await first.metadata(writer.ledger_id)
                    assert shown.is_closed or len(shown.fragments) == 1
                    await asyncio.sleep(0.0001)
            for who in writer.ensemble[1:]:
                lab.door(who).append_error = None
            lab.door(writer.ensemble[2]).hold_reads = None
            one, other = (each.result() for each in recovering)
            assert one == other
            assert one.last_entry == 2 + TAIL
            assert one.last_fragment.ensemble != writer.ensemble
            assert min(await copies(lab, writer.ledger_id, one)) >= 2


async def recovered(lab: Lab, writer: Writer, name: str, after_s: float) -> LedgerMetadata:
    """Recover after a while, by a client of its own."""
    await asyncio.sleep(after_s)
    async with lab.client(name) as client:
        return (await client.open(writer.ledger_id, recover=True)).metadata


@played()
async def test_a_bookie_whose_copy_is_bad_is_replaced_by_the_recovery_that_meets_it(
    lab: Lab,
) -> None:
    """It compares what is written back with bytes that have rotted, and refuses that for ever."""
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await left_with_a_tail(lab, first, TAIL)
        bad = writer.ensemble[1]
        lab.door(bad).append_error = wire_errors.EntryMismatch("another entry is here")
        lab.door(writer.ensemble[2]).hold_reads = asyncio.Event()
        lab.door(writer.ensemble[2]).holding = True  # or it might be enough, with the first
        reader = await second.open(writer.ledger_id, recover=True)
        assert await payloads(reader) == [data(n) for n in range(3 + TAIL)]
        assert bad not in reader.metadata.last_fragment.ensemble


def hold_writes(store: MemoryStore, for_ms: int) -> None:
    """Let what a client writes to the metadata store travel for so long."""
    store.weather = lambda kind: Passage(there_ms=for_ms if kind is RequestKind.WRITE else 0)


@played()
async def test_s26_the_writer_closes_while_the_closing_of_a_recovery_is_on_its_way(
    lab: Lab,
) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await written(first, 10)
        recovering = asyncio.ensure_future(second.open(writer.ledger_id, recover=True))
        await is_in_recovery(first, writer)
        hold_writes(lab.stores[-1], 1_000)
        await writer.close()
        assert not recovering.done()
        assert (await first.metadata(writer.ledger_id)).last_entry == 9
        assert (await recovering).last_confirmed == 9


@played()
async def test_s26_a_recovery_closes_while_the_closing_of_the_writer_is_on_its_way(
    lab: Lab,
) -> None:
    async with lab.client("first") as first:
        hold_writes(lab.stores[-1], 1_000)
        async with lab.client("second") as second:
            writer = await written(first, 10)
            closing = asyncio.ensure_future(writer.close())
            await asyncio.sleep(0.5)
            reader = await second.open(writer.ledger_id, recover=True)
            assert not closing.done()
            assert (reader.metadata.is_closed, reader.last_confirmed) == (True, 9)
            await closing


@played()
async def test_s26_a_writer_whose_ledger_was_closed_at_another_end_hears_that(lab: Lab) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await written(first, 10)

        def closed(ledger: LedgerMetadata) -> LedgerMetadata:
            return ledger_metadata.closed(ledger, last_entry=EntryId(4), length=35)

        await ledgers.change(second.cluster, writer.ledger_id, closed)
        with pytest.raises(errors.ClosedByOther, match="at entry 4"):
            await writer.close()


async def is_in_recovery(client: clients.Client, writer: Writer) -> None:
    for _ in range(1_000):
        if (await client.metadata(writer.ledger_id)).state is LedgerState.IN_RECOVERY:
            return
        await asyncio.sleep(0.0001)
    pytest.fail("nobody began to recover it")


@played()
async def test_s140_a_recovery_is_not_closed_where_the_store_shows_an_older_ensemble(
    lab: Lab,
) -> None:
    """What it read is of the newer one: nobody would find the entries behind the older one."""
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await written(first, 3)
        older = await first.metadata(writer.ledger_id)
        lab.door(writer.ensemble[0]).append_error = wire_errors.ReadOnly("full")
        await writer.append_and_wait(data(3))
        writer.halt()
        store, writes = second.cluster.store, 0
        assert isinstance(store, MemoryStore)

        def slow_closing(kind: RequestKind) -> Passage:
            nonlocal writes
            writes += kind is RequestKind.WRITE
            return Passage(there_ms=1_000 if writes == 2 else 0)

        store.weather = slow_closing
        recovering = asyncio.ensure_future(second.open(writer.ledger_id, recover=True))
        await asyncio.sleep(0.5)
        assert (await first.metadata(writer.ledger_id)).state is LedgerState.IN_RECOVERY
        await set_back(lab, writer.ledger_id, older)
        with pytest.raises(errors.RecoveryFailed, match="was set back to an older state"):
            await recovering
        assert await first.metadata(writer.ledger_id) == older


@played()
async def test_s32_a_writer_that_reads_old_metadata_does_not_undo_a_recovery(lab: Lab) -> None:
    """Its client reads from a follower that is a minute behind: the ledger looks open there."""
    async with lab.client("first") as first:
        of_first = lab.stores[-1]
        async with lab.client("second") as second:
            writer = await written(first, 10)
            await asyncio.sleep(1)
            of_first.read_lag_ms = 60_000
            for who in writer.ensemble[1:]:
                lab.door(who).holding = True
            recovering = asyncio.ensure_future(second.open(writer.ledger_id, recover=True))
            await is_in_recovery(second, writer)
            lab.door(writer.ensemble[0]).append_error = wire_errors.ReadOnly("full")
            with pytest.raises(errors.Fenced):
                await writer.append_and_wait(b"while it is taken")
            assert writer.last_confirmed == 9
            for who in writer.ensemble[1:]:
                lab.door(who).release()
            assert (await recovering).metadata.is_closed
