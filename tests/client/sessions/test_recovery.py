"""Recovery on a small real cluster. Numbers are those of docs/scenarios.md."""

import asyncio

import pytest

from tests.client.lab import Lab, played
from tests.client.recovery_world import (
    STRIPED,
    append_to,
    data,
    entries_at,
    forget_held,
    payloads,
    spoil,
    written,
)
from zonekeeper.client.api.writer import Writer
from zonekeeper.client.base import errors
from zonekeeper.metadata.formats import ledger_metadata
from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata, LedgerState
from zonekeeper.metadata.ledgers import ledgers
from zonekeeper.placement.base.ids import EntryId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.formats import digests
from zonekeeper.wire.formats import errors as wire_errors


def close_ended(metadata: LedgerMetadata) -> tuple[bool, int]:
    return metadata.is_closed, metadata.last_entry


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("count", [0, 1, 5, 1_500])
@played()
async def test_all_acknowledged_entries_survive_their_writer(
    lab: Lab, count: int, told: bool
) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await written(first, count, told=told)
        reader = await second.open(writer.ledger_id, recover=True)
        assert close_ended(reader.metadata) == (True, count - 1)
        assert reader.metadata.length == sum(len(data(n)) for n in range(count))
        assert await payloads(reader) == [data(n) for n in range(count)]


@played()
async def test_only_the_tail_is_read_again_however_long_the_ledger(lab: Lab) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await written(first, 20_000, told=True)
        await second.open(writer.ledger_id, recover=True)
        asked = [request for who in writer.ensemble for request in lab.door(who).reads]
        assert asked
        assert min(request.first_entry_id for request in asked) >= 19_999


@played()
async def test_s14_every_read_of_a_recovery_carries_the_fence(lab: Lab) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await written(first, 50)
        await second.open(writer.ledger_id, recover=True)
        asked = [request for who in writer.ensemble for request in lab.door(who).reads]
        assert asked
        assert all(request.fence_key == digests.master_key(b"") for request in asked)


@played()
async def test_s16_a_ledger_that_no_bookie_has_seen_is_fenced_too(lab: Lab) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await first.create()
        reader = await second.open(writer.ledger_id, recover=True)
        assert close_ended(reader.metadata) == (True, -1)
        with pytest.raises(errors.Fenced):
            await writer.append_and_wait(b"too late")


@played()
async def test_s17_one_unreachable_bookie_does_not_stop_a_recovery(lab: Lab) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await written(first, 20)
        await lab.machines[writer.ensemble[1]].crash()
        writer.halt()
        reader = await second.open(writer.ledger_id, recover=True)
        assert await payloads(reader) == [data(n) for n in range(20)]


@played()
async def test_two_unreachable_bookies_of_three_leave_the_ledger_in_recovery_until_one_is_back(
    lab: Lab,
) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await written(first, 20)
        lost = writer.ensemble[:2]
        writer.halt()
        for who in lost:
            await lab.machines[who].crash()
        with pytest.raises(errors.RecoveryFailed) as failed:
            await second.open(writer.ledger_id, recover=True)
        assert failed.value.retryable
        assert all(who in str(failed.value) for who in lost)
        metadata = await second.metadata(writer.ledger_id)
        assert metadata.state is LedgerState.IN_RECOVERY
        await lab.machines[lost[0]].start()
        await asyncio.sleep(20)
        reader = await second.open(writer.ledger_id, recover=True)
        assert await payloads(reader) == [data(n) for n in range(20)]


@played()
async def test_s19_a_denial_a_failure_and_a_bad_disk_are_not_an_answer(lab: Lab) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await written(first, 5, told=True)
        writer.halt()
        one, two, _ = writer.ensemble
        lab.door(one).read_error = wire_errors.IoFailed("disk")
        lab.door(two).read_error = wire_errors.LimboLedger("lost data")
        with pytest.raises(errors.RecoveryFailed):
            await second.open(writer.ledger_id, recover=True)
        state = (await second.metadata(writer.ledger_id)).state
        assert state is LedgerState.IN_RECOVERY
        lab.door(one).read_error = None
        assert close_ended((await second.open(writer.ledger_id, recover=True)).metadata) == (
            True,
            4,
        )


@played()
async def test_s20_enough_denials_end_it_while_another_bookie_hangs(lab: Lab) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await written(first, 5, told=True)
        writer.halt()
        lab.door(writer.ensemble[0]).hold_reads = asyncio.Event()
        loop = asyncio.get_running_loop()
        start_s = loop.time()
        reader = await second.open(writer.ledger_id, recover=True)
        assert reader.last_confirmed == 4
        assert loop.time() - start_s < 1, "of simulated time; a read times out after 5 s"


@pytest.mark.parametrize("quorums", [None, STRIPED], ids=["3/3/2", "6/3/2"])
@played()
async def test_s21_an_entry_on_a_single_bookie_is_kept_and_written_back(
    lab: Lab, quorums: Quorums | None
) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await written(first, 6, quorums)
        holder = writer.ensemble[0]  # entry 6 is on it with E=3 and with E=6
        await append_to(lab, writer, [holder], b"at one")
        forget_held(lab)
        reader = await second.open(writer.ledger_id, recover=True)
        assert await payloads(reader) == [*(data(n) for n in range(6)), b"at one"]
        held = [await entries_at(lab, who, writer.ledger_id, 6) for who in writer.ensemble[:3]]
        assert sum(six == [6] for six in held) >= 2


@played()
async def test_s25_an_empty_last_fragment_starts_the_recovery_before_it(lab: Lab) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await written(first, 10)
        old = writer.ensemble
        for who in old[:2]:
            await lab.machines[who].crash()
        for machine in lab.machines.values():
            if machine.door is not None:
                machine.door.holding = True
        writer.append_nowait(b"nowhere")
        await asyncio.sleep(0.5)
        writer.halt()
        metadata = await second.metadata(writer.ledger_id)
        assert metadata.last_fragment.first_entry == 10
        for who in old[:2]:
            await lab.machines[who].start()
        forget_held(lab)
        # Nobody who answers for the last fragment has an entry of the one before.
        await lab.machines[old[2]].crash()
        reader = await second.open(writer.ledger_id, recover=True)
        assert close_ended(reader.metadata) == (True, 9)
        assert reader.metadata.length == sum(len(data(n)) for n in range(10))
        assert await payloads(reader) == [data(n) for n in range(10)]


async def append_past_a_crash(lab: Lab, writer: Writer, number: int) -> None:
    """Append an entry that is acknowledged after a newcomer has replaced the failed bookie."""
    up = [lab.door(who) for who in writer.ensemble if lab.machines[who].door is not None]
    for door in up:
        door.holding = True
    assert writer.append_nowait(data(number)) == number
    await asyncio.sleep(1)
    for door in up:
        door.release()
    await writer.flush()


@played()
async def test_s29_an_ensemble_change_meets_a_replica_replaced_by_repair(lab: Lab) -> None:
    async with lab.client("first") as first:
        writer = await written(first, 10)
        victim = writer.ensemble[0]
        await lab.machines[victim].crash()
        await append_past_a_crash(lab, writer, 10)
        metadata = await first.metadata(writer.ledger_id)
        assert len(metadata.fragments) == 2
        spare = next(who for who in lab.machines if who not in metadata.bookies)

        def repair(ledger: LedgerMetadata) -> LedgerMetadata:
            return ledger_metadata.replicas_replaced(ledger, EntryId(0), {victim: spare})

        await ledgers.change(first.cluster, writer.ledger_id, repair)
        await lab.machines[writer.ensemble[1]].crash()
        await append_past_a_crash(lab, writer, 11)
        after = await first.metadata(writer.ledger_id)
        assert len(after.fragments) == 3
        assert spare in after.fragments[0].ensemble
        await writer.close()


@played()
async def test_s33_the_wrong_password_recovers_nothing_and_fences_nothing(lab: Lab) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await first.create(password=b"right")
        await writer.append_and_wait(b"one")
        with pytest.raises(errors.Unauthorized):
            await second.open(writer.ledger_id, password=b"wrong", recover=True)
        await writer.append_and_wait(b"two")
        await writer.close()
        reader = await second.open(writer.ledger_id, password=b"right")
        assert await payloads(reader) == [b"one", b"two"]


@played()
async def test_s34_a_reader_without_recovery_sees_what_is_confirmed_and_never_less(
    lab: Lab,
) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await written(first, 10)
        reader = await second.open(writer.ledger_id, recover=False)
        seen = [reader.last_confirmed]
        for number in range(10, 30):
            await writer.append_and_wait(data(number))
            seen.append(await reader.read_last_confirmed())
            assert seen[-1] <= writer.last_confirmed
            with pytest.raises(errors.BeyondEnd):
                await anext(reader.read(0, reader.last_confirmed + 1))
        assert seen == sorted(seen)
        assert seen[-1] >= 28
        await writer.close()
        assert await reader.read_last_confirmed() == 29


@played()
async def test_a_ledger_that_was_deleted_cannot_be_opened_or_written(lab: Lab) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await written(first, 5)
        await second.delete(writer.ledger_id)
        await second.delete(writer.ledger_id)
        with pytest.raises(errors.NoSuchLedger):
            await second.open(writer.ledger_id)
        with pytest.raises(errors.NoSuchLedger):
            await writer.close()


@played()
async def test_a_bad_copy_counts_as_silence_in_a_recovery_and_another_copy_is_taken(
    lab: Lab,
) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await written(first, 20)
        writer.halt()
        *bad, good = writer.ensemble
        for who in bad:
            spoil(lab.door(who))
        lab.door(good).hold_reads = late = asyncio.Event()
        asyncio.get_running_loop().call_later(0.5, late.set)
        reader = await second.open(writer.ledger_id, recover=True)
        assert await payloads(reader) == [data(n) for n in range(20)]
        assert all(second.counters.bad_copies[who] > 0 for who in bad)
