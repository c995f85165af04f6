"""A writer on a small real cluster: ids, acknowledgements, bounds, and bookies that fail.

Numbers are those of docs/scenarios.md.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.client.lab import Lab, played, policy
from tests.support.playing import from_pytest
from zonekeeper.client.api import client as clients
from zonekeeper.client.api.writer import Writer
from zonekeeper.client.base import errors
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.placement.base.ids import EntryId, LedgerId, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.contract import service
from zonekeeper.wire.contract.links import LinkSettings
from zonekeeper.wire.formats import errors as wire_errors


def data(number: int) -> bytes:
    return b"entry %d" % number


async def fill(writer: Writer, count: int) -> None:
    for _ in range(count):
        await writer.append(data(writer.last_appended + 1))


async def contents(client: clients.Client, ledger_id: LedgerId) -> list[bytes]:
    """Recover a ledger, and read all of it."""
    reader = await client.open(ledger_id, recover=True)
    return [entry.payload async for entry in reader.read_entries()]


async def holds(client: clients.Client, ledger_id: LedgerId, count: int) -> None:
    """The ledger has so many entries, and they are what was written."""
    assert await contents(client, ledger_id) == [data(number) for number in range(count)]


@played()
async def test_entries_get_ids_in_order_and_are_acknowledged(lab: Lab) -> None:
    async with lab.client() as client:
        writer = await client.create()
        ids = [await writer.append(data(n)) for n in range(100)]
        assert ids == list(range(100))
        await writer.flush()
        assert writer.last_confirmed == 99
        assert writer.used_bytes == 0
        await writer.close()
        await writer.close()
        ledger = await client.metadata(writer.ledger_id)
        assert (ledger.is_closed, ledger.last_entry) == (True, 99)
        assert ledger.length == sum(len(data(n)) for n in range(100))


@played()
async def test_creating_a_ledger_talks_to_no_bookie(lab: Lab) -> None:
    async with lab.client() as client:
        writer = await client.create()
        await asyncio.sleep(1)
        assert not any(machine.doorway.openings for machine in lab.machines.values())
        await writer.close()
        assert (await client.metadata(writer.ledger_id)).last_entry == -1


@played()
async def test_what_is_appended_in_one_go_leaves_in_few_frames(lab: Lab) -> None:
    async with lab.client() as client:
        writer = await client.create()
        await writer.append_many(data(n) for n in range(5_000))
        await writer.flush()
        frames = [len(lab.door(who).appended) for who in writer.ensemble]
        assert max(frames) <= 5
        await writer.close()


@played()
async def test_after_a_silence_bookies_know_the_last_entry_as_confirmed(lab: Lab) -> None:
    async with lab.client() as client:
        writer = await client.create()
        await writer.append_and_wait(b"alone")
        await asyncio.sleep(0.1)
        reader = await client.open(writer.ledger_id, recover=False)
        assert reader.last_confirmed == 0
        assert [lab.door(who).lacs for who in writer.ensemble] == [1, 1, 1]
        await writer.close()


# ── bookies and networks that fail ──


@played()
async def test_s03_s04_a_connection_that_breaks_costs_no_entry_and_no_ensemble_change(
    lab: Lab,
) -> None:
    async with lab.client("writing") as client:
        writer = await client.create()
        await writer.append_and_wait(data(0))
        for number in range(1, 60):
            await writer.append(data(number))
            if number % 3 == 0:
                await asyncio.sleep(0.0004 * (number % 5))
                lab.network.disconnect("writing", writer.ensemble[number % 2])
            await writer.flush()
        assert client.counters.ensemble_changes == 0
        await writer.close()
        await holds(client, writer.ledger_id, 60)


@played()
async def test_s07_a_bookie_that_hears_and_is_not_heard_is_replaced(lab: Lab) -> None:
    async with lab.client("writing") as client:
        writer = await client.create()
        await fill(writer, 10)
        await writer.flush()
        mute = writer.ensemble[0]
        lab.network.cut(mute, "writing")
        for _ in range(20):
            await fill(writer, 10)
            await asyncio.sleep(1)
        assert mute not in writer.ensemble
        await writer.close()
        await holds(client, writer.ledger_id, 210)


@played()
async def test_s08_a_slow_bookie_does_not_stop_the_writer_and_is_replaced_and_avoided(
    lab: Lab,
) -> None:
    async with lab.client("writing") as client:
        writer = await client.create()
        slow = writer.ensemble[1]
        lab.door(slow).holding = True
        loop = asyncio.get_running_loop()
        start_s = loop.time()
        await fill(writer, 10)
        await writer.flush()
        assert loop.time() - start_s < 1, "an ack quorum is enough (of simulated time)"
        for _ in range(10):
            await fill(writer, 1)
            await asyncio.sleep(1)
        await writer.flush()
        assert slow not in writer.ensemble
        assert slow in client.bookies.suspects
        for _ in range(10):
            other = await client.create()
            assert slow not in other.ensemble
            other.halt()
        await writer.close()
        await holds(client, writer.ledger_id, 20)


@played()
async def test_s08_a_slow_bookie_is_not_queued_for_without_bound(lab: Lab) -> None:
    config = ClientConfig(writer_budget_bytes=4 << 20, zone=ZoneName("a"))
    links = LinkSettings(budget_bytes=2 << 20, append_timeout_ms=3_600_000)
    async with lab.client("writing", config, links) as client:
        writer = await client.create()
        slow = writer.ensemble[1]
        lab.door(slow).holding = True
        for _ in range(20_000):
            await writer.append(b"x" * 1_000)
            assert writer.used_bytes <= 4 << 20
        await writer.flush()
        assert slow not in writer.ensemble
        await writer.close()
        assert (await client.metadata(writer.ledger_id)).last_entry == 19_999


@played()
async def test_who_closes_at_once_leaves_no_ledger_without_its_copies(lab: Lab) -> None:
    async with lab.client("writing") as client:
        writer = await client.create()
        slow = lab.door(writer.ensemble[1])
        slow.holding = True
        loop = asyncio.get_running_loop()
        loop.call_later(0.5, slow.release)
        await fill(writer, 10)
        await writer.close()
        wanted = service.ListEntriesRequest(
            ledger_id=writer.ledger_id, first_entry_id=EntryId(0), ranges_max=9
        )
        assert (await slow.list_entries(wanted)).ranges == ((0, 9),)
        start_s = loop.time()
        other = await client.create()
        lab.door(other.ensemble[1]).holding = True
        await fill(other, 10)
        await other.close()
        assert loop.time() - start_s < 2, "one that answers nothing is not waited for long"


@played()
async def test_s09_a_writer_that_slept_through_a_recovery_acknowledges_nothing_more(
    lab: Lab,
) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await first.create()
        await fill(writer, 10)
        await writer.flush()
        for who in writer.ensemble:
            lab.network.cut("first", who)
        await fill(writer, 5)
        await holds(second, writer.ledger_id, 10)
        for who in writer.ensemble:
            lab.network.heal("first", who)
        with pytest.raises(errors.Fenced) as fenced:
            await writer.flush()
        assert (fenced.value.retryable, fenced.value.maybe_applied) == (False, True)
        assert writer.last_confirmed == 9
        asked: list[Callable[[], Awaitable[object]]] = [
            lambda: writer.append(b"never"),
            lambda: writer.append_and_wait(b"never"),
            writer.tell_confirmed,
        ]
        for ask in asked:
            with pytest.raises(errors.Fenced, match="nothing more is begun") as refused:
                await ask()
            assert (refused.value.retryable, refused.value.maybe_applied) == (False, False)
        with pytest.raises(errors.Fenced, match="nothing more is begun"):
            writer.append_nowait(b"never")
        with pytest.raises(errors.Fenced):
            await writer.close()
        await holds(second, writer.ledger_id, 10)


@played()
async def test_s12_with_all_bookies_silent_nothing_is_acknowledged_and_the_ledger_ends_at_its_lac(
    lab: Lab,
) -> None:
    config = ClientConfig(add_timeout_ms=20_000)
    async with lab.client("writing", config) as client:
        writer = await client.create()
        await fill(writer, 3)
        await writer.flush()
        for machine in lab.machines.values():
            machine.doorway.holding = True
        await fill(writer, 3)
        with pytest.raises(errors.WriterStopped) as stopped:
            await writer.close()
        assert stopped.value.maybe_applied
        for machine in lab.machines.values():
            machine.doorway.release()
        ledger = await client.metadata(writer.ledger_id)
        assert (ledger.is_closed, ledger.last_entry) == (True, 2)
        await holds(client, writer.ledger_id, 3)


@played()
async def test_a_bookie_that_crashes_is_replaced_and_nothing_is_lost(lab: Lab) -> None:
    async with lab.client() as client:
        writer = await client.create()
        await fill(writer, 100)
        victim = writer.ensemble[2]
        await lab.machines[victim].crash()
        await fill(writer, 100)
        await writer.flush()
        assert victim not in writer.ensemble
        await writer.close()
        await holds(client, writer.ledger_id, 200)


@pytest.mark.parametrize(
    ("rules", "bookies_in"),
    [
        (policy(), {"a": 3, "b": 3, "c": 3}),
        (
            policy(Quorums(ensemble=6, write=6, ack=4, ack_zones=2)),
            {"a": 4, "b": 4, "c": 4},
        ),
    ],
    ids=["3/3/2", "6/6/4"],
)
@played(
    rules=from_pytest(lambda rules: rules), bookies_in=from_pytest(lambda bookies_in: bookies_in)
)
async def test_a_zone_is_lost_under_load_and_nothing_is_lost(lab: Lab) -> None:
    async with lab.client() as client:
        writer = await client.create()
        abandoned = await client.create()
        await fill(abandoned, 50)
        await abandoned.flush()
        await fill(writer, 500)
        await lab.crash_zone("b")
        await fill(writer, 500)
        await writer.flush()
        assert not any("-b-" in who for who in writer.ensemble)
        await writer.close()
        await holds(client, writer.ledger_id, 1_000)
        await holds(client, abandoned.ledger_id, 50)


@played(bookies_in={"a": 1, "b": 1, "c": 1})
async def test_with_three_bookies_only_the_writer_goes_on_without_one_until_it_is_back(
    lab: Lab,
) -> None:
    async with lab.client() as client:
        writer = await client.create()
        await fill(writer, 10)
        await writer.flush()
        victim = lab.machines[writer.ensemble[0]]
        await victim.crash()
        await fill(writer, 10)
        await writer.flush()
        await victim.start()
        await asyncio.sleep(30)
        await fill(writer, 10)
        await writer.flush()
        await asyncio.sleep(1)
        assert victim.id in writer.ensemble
        assert victim.doorway.appended[-1].frame.last == 29
        await writer.close()
        await holds(client, writer.ledger_id, 30)


@played(bookies_in={"a": 1, "b": 1, "c": 1})
async def test_s30_with_too_few_bookies_left_the_ledger_ends_at_its_lac(lab: Lab) -> None:
    async with lab.client() as client:
        writer = await client.create()
        await fill(writer, 10)
        await writer.flush()
        for who in writer.ensemble[:2]:
            await lab.machines[who].crash()
        await fill(writer, 10)
        with pytest.raises(errors.LostQuorum) as lost:
            await writer.flush()
        assert str(writer.ledger_id) in str(lost.value)
        assert writer.ensemble[0] in str(lost.value)
        gone = sorted(who.split("-")[1] for who in writer.ensemble[:2])
        stays = writer.ensemble[2]
        for told in (
            "an ack needs 2 of an entry's 3 bookies, in 2 zones, and 1 is left, in 1 zone: "
            f"{stays} (zone {stays.split('-')[1]})",
            "down as far as is known: zones "
            + ", ".join(f"{zone} (0 of 1 bookies available)" for zone in gone),
            "write to a new ledger",
        ):
            assert told in str(lost.value)
        for _ in range(2):
            with pytest.raises(errors.LostQuorum):
                await writer.close()
        ledger = await client.metadata(writer.ledger_id)
        assert (ledger.is_closed, ledger.last_entry) == (True, 9)


@played()
async def test_a_read_only_bookie_is_replaced(lab: Lab) -> None:
    async with lab.client() as client:
        writer = await client.create()
        await fill(writer, 10)
        await writer.flush()
        full = writer.ensemble[1]
        lab.door(full).append_error = wire_errors.ReadOnly("no space")
        await fill(writer, 10)
        await asyncio.sleep(1)
        await fill(writer, 10)
        await writer.close()
        assert full not in writer.ensemble
        await holds(client, writer.ledger_id, 30)


@played()
async def test_s31_an_ensemble_changed_just_before_the_close_is_no_harm(lab: Lab) -> None:
    """A bookie refuses, its newcomer takes nothing, and the ledger ends: behind its last entry
    stands a fragment that has none."""
    async with lab.client() as client:
        writer = await client.create()
        await fill(writer, 10)
        await writer.flush()
        first = writer.ensemble
        for machine in lab.machines.values():
            machine.doorway.holding = machine.id != first[0]
        lab.door(first[0]).append_error = wire_errors.ReadOnly("full")
        writer.append_nowait(b"not acknowledged")
        await asyncio.sleep(1)
        assert client.counters.ensemble_changes == 1
        with pytest.raises(errors.WriterStopped):
            await writer.close()
        ledger = await client.metadata(writer.ledger_id)
        assert (ledger.is_closed, ledger.last_entry) == (True, 9)
        assert ledger.last_fragment.first_entry == ledger.last_entry + 1
        assert ledger.last_fragment.ensemble != first
        for machine in lab.machines.values():
            machine.doorway.release()
        await holds(client, writer.ledger_id, 10)
        reader = await client.open(writer.ledger_id)
        with pytest.raises(errors.BeyondEnd):
            async for _ in reader.read(10, 10):
                pass


@played()
async def test_a_client_that_ends_tells_those_who_wait_and_leaves_the_ledger_to_a_recovery(
    lab: Lab,
) -> None:
    async with asyncio.TaskGroup() as tasks:
        async with lab.client() as client:
            writer = await client.create()
            await fill(writer, 10)
            await writer.flush()
            for machine in lab.machines.values():
                machine.doorway.holding = True
            await fill(writer, 1)
            waiting = tasks.create_task(told(writer))
            await asyncio.sleep(0.1)
        ended = await waiting
        assert isinstance(ended, errors.WriterClosed)
        assert ended.maybe_applied
    for machine in lab.machines.values():
        machine.doorway.release()
    async with lab.client("other") as other:
        assert not (await other.metadata(writer.ledger_id)).is_closed
        found = await contents(other, writer.ledger_id)
        assert found[:10] == [data(number) for number in range(10)]


async def told(writer: Writer) -> errors.ClientError | None:
    """The outcome for a caller that waits for an acknowledgement."""
    return await outcome(writer.flush())


async def outcome(asked: Awaitable[object]) -> errors.ClientError | None:
    try:
        await asked
    except errors.ClientError as error:
        return error
    return None


@played()
async def test_who_waits_for_an_entry_of_a_writer_that_is_halted_hears_that_it_may_be_there(
    lab: Lab,
) -> None:
    async with lab.client() as client, asyncio.TaskGroup() as tasks:
        writer = await client.create()
        await fill(writer, 1)
        await writer.flush()
        for who in writer.ensemble:
            lab.door(who).holding = True
        waiting = [tasks.create_task(outcome(writer.append_and_wait(data(1))))]
        await asyncio.sleep(0.1)
        waiting += [
            tasks.create_task(outcome(asked))
            for asked in (writer.flush(), writer.flushed(EntryId(1)), writer.force())
        ]
        waiting.append(tasks.create_task(outcome(writer.close())))
        await asyncio.sleep(0.1)
        writer.halt()
        for task in waiting:
            ended = await task
            assert isinstance(ended, errors.WriterClosed)
            assert ended.maybe_applied
        for asked in (writer.append(b"never"), writer.tell_confirmed()):
            late = await outcome(asked)
            assert isinstance(late, errors.WriterClosed)
            assert not late.maybe_applied, "that was not begun"
        for who in writer.ensemble:
            lab.door(who).release()
        await holds(client, writer.ledger_id, 2)


@played()
async def test_flushed_of_an_entry_that_was_never_appended_is_a_mistake_of_the_caller(
    lab: Lab,
) -> None:
    async with lab.client() as client, await client.create() as writer:
        with pytest.raises(ValueError, match="was not appended"):
            await writer.flushed(EntryId(0))
