"""Recovery on a small real cluster. Numbers are those of the scenarios (reliability, B)."""

import asyncio
from collections.abc import Coroutine, Sequence
from itertools import pairwise

import pytest

from tests.client.lab import Door, Lab, play
from zonekeeper.client import client as clients
from zonekeeper.client import errors
from zonekeeper.client.reader import Reader
from zonekeeper.client.writer import Writer
from zonekeeper.metadata import ledger_metadata, ledgers
from zonekeeper.metadata.ledger_metadata import LedgerMetadata, LedgerState
from zonekeeper.placement.ids import BookieId, EntryId, LedgerId
from zonekeeper.placement.quorums import Quorums
from zonekeeper.wire import digests, entries, frames, service
from zonekeeper.wire import errors as wire_errors

STRIPED = Quorums(ensemble=6, write=3, ack=2, ack_zones=2)


def data(number: int) -> bytes:
    return b"entry %d" % number


async def written(
    client: clients.Client, count: int, quorums: Quorums | None = None, *, told: bool = False
) -> Writer:
    """A writer with so many acknowledged entries, who has not told its last LAC unless asked to."""
    writer = await client.create(quorums=quorums)
    for number in range(count):
        await writer.append(data(number))
    await writer.flush()
    if told:
        await asyncio.sleep(0.2)
    return writer


async def append_to(lab: Lab, writer: Writer, holders: Sequence[BookieId], payload: bytes) -> None:
    """Let an entry reach some bookies only, without an acknowledgement; then the writer dies."""
    for who in writer.ensemble:
        if who not in holders:
            lab.door(who).holding = True
    writer.append_nowait(payload)
    await asyncio.sleep(0.5)
    writer.halt()


async def dies_after(delay_s: float, work: Coroutine[None, None, object]) -> bool:
    """Cancel work that takes longer, and say whether it did."""
    try:
        async with asyncio.timeout(delay_s):
            await work
    except TimeoutError:
        return True
    return False


async def payloads(reader: Reader) -> list[bytes]:
    return [entry.payload async for entry in reader.read_entries()]


async def entries_at(lab: Lab, who: BookieId, ledger_id: LedgerId, first: int) -> list[int]:
    """What a bookie holds of a ledger, from an entry on."""
    listed = await lab.door(who).list_entries(
        service.ListEntriesRequest(
            ledger_id=ledger_id, first_entry_id=EntryId(first), ranges_max=100
        )
    )
    return [number for low, high in listed.ranges for number in range(low, high + 1)]


def close_ended(metadata: LedgerMetadata) -> tuple[bool, int]:
    return metadata.is_closed, metadata.last_entry


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("count", [0, 1, 5, 1_500])
def test_all_acknowledged_entries_survive_their_writer(count: int, told: bool) -> None:
    async def scenario(lab: Lab) -> None:
        async with lab.client("first") as first, lab.client("second") as second:
            writer = await written(first, count, told=told)
            reader = await second.open(writer.ledger_id)
            assert close_ended(reader.metadata) == (True, count - 1)
            assert reader.metadata.length == sum(len(data(n)) for n in range(count))
            assert await payloads(reader) == [data(n) for n in range(count)]

    play(scenario)


def test_only_the_tail_is_read_again_however_long_the_ledger() -> None:
    async def scenario(lab: Lab) -> None:
        async with lab.client("first") as first, lab.client("second") as second:
            writer = await written(first, 20_000, told=True)
            await second.open(writer.ledger_id)
            asked = [request for who in writer.ensemble for request in lab.door(who).reads]
            assert asked
            assert min(request.first_entry_id for request in asked) >= 19_999

    play(scenario)


def test_s13_a_late_add_finds_a_fence_because_recovery_reads_fence() -> None:
    """An entry at one bookie; the fence and the coverage come from the two others' *reads*."""

    async def scenario(lab: Lab) -> None:
        async with lab.client("first") as first, lab.client("second") as second:
            writer = await written(first, 3)
            one, two, three = writer.ensemble
            lab.door(one).holding = lab.door(two).holding = True
            lab.network.cut("second", three)
            writer.append_nowait(b"at three only")
            await asyncio.sleep(0.1)
            reader = await second.open(writer.ledger_id)
            assert reader.last_confirmed == 2
            lab.door(one).release()
            lab.door(two).release()
            with pytest.raises(errors.Fenced):
                await writer.flush()
            assert writer.last_confirmed == 2

    play(scenario)


def test_s14_every_read_of_a_recovery_carries_the_fence() -> None:
    async def scenario(lab: Lab) -> None:
        async with lab.client("first") as first, lab.client("second") as second:
            writer = await written(first, 50)
            await second.open(writer.ledger_id)
            asked = [request for who in writer.ensemble for request in lab.door(who).reads]
            assert asked
            assert all(request.fence_key == digests.master_key(b"") for request in asked)

    play(scenario)


def test_s16_a_ledger_that_no_bookie_has_seen_is_fenced_too() -> None:
    async def scenario(lab: Lab) -> None:
        async with lab.client("first") as first, lab.client("second") as second:
            writer = await first.create()
            reader = await second.open(writer.ledger_id)
            assert close_ended(reader.metadata) == (True, -1)
            with pytest.raises(errors.Fenced):
                await writer.append_and_wait(b"too late")

    play(scenario)


def test_s17_one_unreachable_bookie_does_not_stop_a_recovery() -> None:
    async def scenario(lab: Lab) -> None:
        async with lab.client("first") as first, lab.client("second") as second:
            writer = await written(first, 20)
            await lab.machines[writer.ensemble[1]].crash()
            writer.halt()
            reader = await second.open(writer.ledger_id)
            assert await payloads(reader) == [data(n) for n in range(20)]

    play(scenario)


def test_two_unreachable_bookies_of_three_leave_the_ledger_in_recovery_until_one_is_back() -> None:
    async def scenario(lab: Lab) -> None:
        async with lab.client("first") as first, lab.client("second") as second:
            writer = await written(first, 20)
            lost = writer.ensemble[:2]
            writer.halt()
            for who in lost:
                await lab.machines[who].crash()
            with pytest.raises(errors.RecoveryFailed) as failed:
                await second.open(writer.ledger_id)
            assert failed.value.retryable
            assert all(who in str(failed.value) for who in lost)
            metadata = await second.metadata(writer.ledger_id)
            assert metadata.state is LedgerState.IN_RECOVERY
            await lab.machines[lost[0]].start()
            await asyncio.sleep(20)
            reader = await second.open(writer.ledger_id)
            assert await payloads(reader) == [data(n) for n in range(20)]

    play(scenario)


def test_s19_a_denial_a_failure_and_a_bad_disk_are_not_an_answer() -> None:
    async def scenario(lab: Lab) -> None:
        async with lab.client("first") as first, lab.client("second") as second:
            writer = await written(first, 5, told=True)
            writer.halt()
            one, two, _ = writer.ensemble
            lab.door(one).read_error = wire_errors.IoFailed("disk")
            lab.door(two).read_error = wire_errors.LimboLedger("lost data")
            with pytest.raises(errors.RecoveryFailed):
                await second.open(writer.ledger_id)
            state = (await second.metadata(writer.ledger_id)).state
            assert state is LedgerState.IN_RECOVERY
            lab.door(one).read_error = None
            assert close_ended((await second.open(writer.ledger_id)).metadata) == (True, 4)

    play(scenario)


def test_s20_enough_denials_end_it_while_another_bookie_hangs() -> None:
    async def scenario(lab: Lab) -> None:
        async with lab.client("first") as first, lab.client("second") as second:
            writer = await written(first, 5, told=True)
            writer.halt()
            lab.door(writer.ensemble[0]).hold_reads = asyncio.Event()
            loop = asyncio.get_running_loop()
            start_s = loop.time()
            reader = await second.open(writer.ledger_id)
            assert reader.last_confirmed == 4
            assert loop.time() - start_s < 1, "of simulated time; a read times out after 5 s"

    play(scenario)


@pytest.mark.parametrize("quorums", [None, STRIPED], ids=["3/3/2", "6/3/2"])
def test_s21_an_entry_on_a_single_bookie_is_kept_and_written_back(
    quorums: Quorums | None,
) -> None:
    async def scenario(lab: Lab) -> None:
        async with lab.client("first") as first, lab.client("second") as second:
            writer = await written(first, 6, quorums)
            holder = writer.ensemble[0]  # entry 6 is on it with E=3 and with E=6
            await append_to(lab, writer, [holder], b"at one")
            for machine in lab.machines.values():
                machine.doorway.holding = False
                machine.doorway.held.clear()
            reader = await second.open(writer.ledger_id)
            assert await payloads(reader) == [*(data(n) for n in range(6)), b"at one"]
            held = [await entries_at(lab, who, writer.ledger_id, 6) for who in writer.ensemble[:3]]
            assert sum(six == [6] for six in held) >= 2

    play(scenario)


def test_s22_a_recovery_that_died_half_way_is_taken_up_by_the_next() -> None:
    async def scenario(lab: Lab) -> None:
        died = 0
        for steps in range(1, 40, 2):
            async with lab.client(f"first-{steps}") as first:
                writer = await written(first, 30)
                await append_to(lab, writer, [writer.ensemble[1]], b"at one")
                for machine in lab.machines.values():
                    machine.doorway.holding = False
                    machine.doorway.held.clear()
                async with lab.client(f"dying-{steps}") as dying:
                    died += await dies_after(0.0002 * steps, dying.open(writer.ledger_id))
                async with lab.client(f"last-{steps}") as last:
                    found = await payloads(await last.open(writer.ledger_id))
                assert found[:30] == [data(n) for n in range(30)]
                assert found[30:] in ([], [b"at one"]), "it was never acknowledged: both are right"
        assert died > 5

    play(scenario)


def test_s23_many_recoveries_at_once_agree() -> None:
    async def scenario(lab: Lab) -> None:
        async with lab.client("first") as first:
            writer = await written(first, 40, STRIPED)
            await append_to(lab, writer, [writer.ensemble[4]], b"at one")
            for machine in lab.machines.values():
                machine.doorway.holding = False
                machine.doorway.held.clear()
            await lab.machines[writer.ensemble[5]].crash()
            ends: list[LedgerMetadata] = []

            async def recover(name: str) -> None:
                async with lab.client(name) as client:
                    ends.append((await client.open(writer.ledger_id)).metadata)

            async with asyncio.TaskGroup() as tasks:
                for number in range(5):
                    tasks.create_task(recover(f"recovery-{number}"))
            assert len({(end.last_entry, end.length, end.fragments) for end in ends}) == 1
            assert ends[0].last_entry >= 39

    play(scenario)


def test_s24_packets_written_back_carry_the_lac_that_the_recovery_started_from() -> None:
    async def scenario(lab: Lab) -> None:
        async with lab.client("first") as first, lab.client("second") as second:
            writer = await written(first, 3, told=True)
            lost = writer.ensemble[2]
            for number in range(3, 8):
                writer.append_nowait(data(number))
            await asyncio.sleep(0.0001)
            await writer.flush()
            writer.halt()
            await lab.machines[lost].crash()
            await second.open(writer.ledger_id)
            back = [
                entries.header(packet)
                for who in lab.machines.values()
                if who.door is not None
                for item in who.door.appended
                if item.frame.flags
                for _, packet in item.frame
            ]
            assert {header.entry_id for header in back} == {3, 4, 5, 6, 7}
            assert {header.last_add_confirmed for header in back} == {2}

    play(scenario)


def test_new_ensembles_of_a_recovery_are_published_by_its_closing_alone() -> None:
    async def scenario(lab: Lab) -> None:
        async with lab.client("first") as first, lab.client("second") as second:
            writer = await written(first, 10)
            writer.halt()
            one, two, three = writer.ensemble
            lab.door(three).append_error = wire_errors.ReadOnly("full")
            for machine in lab.machines.values():
                if machine.id not in (one, two, three):
                    machine.doorway.holding = True
            lab.door(two).holding = True
            recovering = asyncio.ensure_future(second.open(writer.ledger_id))
            await asyncio.sleep(1)
            shown = await first.metadata(writer.ledger_id)
            assert shown.state is LedgerState.IN_RECOVERY
            assert [fragment.ensemble for fragment in shown.fragments] == [(one, two, three)]
            for machine in lab.machines.values():
                machine.doorway.release()
            reader = await recovering
            assert reader.metadata.is_closed
            assert three not in reader.metadata.last_fragment.ensemble
            assert await payloads(reader) == [data(n) for n in range(10)]

    play(scenario)


def test_s25_an_empty_last_fragment_starts_the_recovery_before_it() -> None:
    async def scenario(lab: Lab) -> None:
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
            for machine in lab.machines.values():
                machine.doorway.holding = False
                machine.doorway.held.clear()
            reader = await second.open(writer.ledger_id)
            assert close_ended(reader.metadata) == (True, 9)
            assert reader.metadata.length == sum(len(data(n)) for n in range(10))
            assert await payloads(reader) == [data(n) for n in range(10)]

    play(scenario)


def test_s26_a_writer_closes_while_its_ledger_is_recovered() -> None:
    async def scenario(lab: Lab) -> None:
        outcomes = set()
        for delay in range(12):
            async with lab.client(f"a{delay}") as first, lab.client(f"b{delay}") as second:
                writer = await written(first, 10)
                for number in range(10, 15):
                    writer.append_nowait(data(number))
                recovering = asyncio.ensure_future(second.open(writer.ledger_id))
                await asyncio.sleep(0.0003 * delay)
                try:
                    await writer.close()
                    outcomes.add("closed")
                except errors.WriterStopped:
                    outcomes.add("stopped")
                reader = await recovering
                assert reader.last_confirmed >= writer.last_confirmed
                assert await payloads(reader) == [data(n) for n in range(reader.last_confirmed + 1)]
        assert outcomes == {"closed", "stopped"}, "both were seen"

    play(scenario)


def test_s29_an_ensemble_change_meets_a_replica_replaced_by_repair() -> None:
    async def scenario(lab: Lab) -> None:
        async with lab.client("first") as first:
            writer = await written(first, 10)
            victim = writer.ensemble[0]
            await lab.machines[victim].crash()
            await writer.append_and_wait(data(10))
            metadata = await first.metadata(writer.ledger_id)
            assert len(metadata.fragments) == 2
            spare = next(who for who in lab.machines if who not in metadata.bookies)

            def repair(ledger: LedgerMetadata) -> LedgerMetadata:
                return ledger_metadata.replicas_replaced(ledger, EntryId(0), {victim: spare})

            await ledgers.change(first.cluster, writer.ledger_id, repair)
            await lab.machines[writer.ensemble[1]].crash()
            await writer.append_and_wait(data(11))
            after = await first.metadata(writer.ledger_id)
            assert len(after.fragments) == 3
            assert spare in after.fragments[0].ensemble
            await writer.close()

    play(scenario)


def test_s33_the_wrong_password_recovers_nothing_and_fences_nothing() -> None:
    async def scenario(lab: Lab) -> None:
        async with lab.client("first") as first, lab.client("second") as second:
            writer = await first.create(password=b"right")
            await writer.append_and_wait(b"one")
            with pytest.raises(errors.Unauthorized):
                await second.open(writer.ledger_id, password=b"wrong")
            await writer.append_and_wait(b"two")
            await writer.close()
            reader = await second.open(writer.ledger_id, password=b"right")
            assert await payloads(reader) == [b"one", b"two"]

    play(scenario)


def test_s34_a_reader_without_recovery_sees_what_is_confirmed_and_never_less() -> None:
    async def scenario(lab: Lab) -> None:
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

    play(scenario)


def test_a_ledger_that_was_deleted_cannot_be_opened_or_written() -> None:
    async def scenario(lab: Lab) -> None:
        async with lab.client("first") as first, lab.client("second") as second:
            writer = await written(first, 5)
            await second.delete(writer.ledger_id)
            await second.delete(writer.ledger_id)
            with pytest.raises(errors.NoSuchLedger):
                await second.open(writer.ledger_id)
            with pytest.raises(errors.NoSuchLedger):
                await writer.close()

    play(scenario)


def test_a_bad_copy_counts_as_silence_in_a_recovery_and_another_copy_is_taken() -> None:
    async def scenario(lab: Lab) -> None:
        async with lab.client("first") as first, lab.client("second") as second:
            writer = await written(first, 20)
            writer.halt()
            *bad, good = writer.ensemble
            for who in bad:
                spoil(lab.door(who))
            lab.door(good).hold_reads = late = asyncio.Event()
            asyncio.get_running_loop().call_later(0.5, late.set)
            reader = await second.open(writer.ledger_id)
            assert await payloads(reader) == [data(n) for n in range(20)]
            assert all(second.counters.bad_copies[who] > 0 for who in bad)

    play(scenario)


def spoil(door: Door) -> None:
    """Let a bookie give entries whose digest does not match, as a bad disk does."""

    def spoiled(reply: service.ReadReply) -> service.ReadReply:
        parts = []
        for frame in reply.frames:
            packets = bytearray(frame.packets)
            packets[-1] ^= 1
            ids = frame.entry_ids
            cut = [0, *frame.ends]
            pieces = [bytes(packets[a:b]) for a, b in pairwise(cut)]
            parts.append(frames.build(frame.ledger_id, ids, pieces))
        return service.ReadReply(
            frames=tuple(parts),
            next_entry_id=reply.next_entry_id,
            last_add_confirmed=reply.last_add_confirmed,
        )

    door.spoil = spoiled
