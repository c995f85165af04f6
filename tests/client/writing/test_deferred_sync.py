"""Deferred sync: written is not durable, and what is not forced is not confirmed."""

import asyncio
from dataclasses import replace

import pytest

from tests.client.api.test_writer import contents, fill, holds
from tests.client.lab import Lab, played, policy
from tests.client.recovery_world import entries_at
from tests.client.transcripts import LIMITS, Transcript, bookies
from tests.support.playing import from_pytest
from zonekeeper.client.base import errors
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.client.writing import writer_events as ev
from zonekeeper.client.writing.writer_start import WriterLimits, WriterStart
from zonekeeper.placement.base.ids import BookieId, EntryId, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.formats import errors as wire_errors
from zonekeeper.wire.formats.frames import Flags


def talking(limits: WriterLimits | None = None) -> Transcript:
    """A deferred writer with one batch under way on open lanes."""
    zones = tuple(ZoneName(name) for name in "ABC")
    start = WriterStart(
        fragment_first=EntryId(0), ensemble=bookies("ABC"), zones=zones, deferred=True
    )
    talk = Transcript("ABC", limits=limits, start=start)
    talk.take()
    talk.opened("ABC")
    return talk


def forces(talk: Transcript) -> list[tuple[BookieId, EntryId]]:
    return [(talk.terms[e.term], e.upto) for e in talk.effects if isinstance(e, ev.Force)]


def force(talk: Transcript, upto: int) -> None:
    talk.feed(ev.ForceWanted(upto=EntryId(upto)))


def forced(talk: Transcript, name: str, upto: int) -> None:
    talk.feed(ev.Forced(term=talk.term(name), upto=EntryId(upto)))


def test_written_is_not_confirmed_before_an_ack_quorum_is_forced() -> None:
    talk = talking()
    assert talk.sent("A")[0].flags == Flags.DEFERRED_SYNC
    talk.ack("A", 0)
    talk.ack("B", 0)
    assert talk.core.written == 0
    assert ev.EntriesWritten(last=EntryId(0)) in talk.effects

    force(talk, 0)
    assert forces(talk) == [("A", 0), ("B", 0)]
    forced(talk, "A", 0)
    assert talk.confirmed == []
    forced(talk, "B", 0)
    assert talk.confirmed == [0]


def test_a_laggard_is_forced_when_it_has_caught_up_and_nobody_waits_for_it() -> None:
    talk = talking()
    talk.take()
    for name in "AB":
        talk.ack(name, 0)
        talk.ack(name, 1)
    talk.ack("C", 0)
    force(talk, 1)
    assert forces(talk) == [("A", 1), ("B", 1)]
    talk.ack("C", 1)
    assert forces(talk)[2:] == [("C", 1)]
    forced(talk, "C", 1)
    forced(talk, "A", 1)
    assert talk.confirmed == [1]


def test_a_force_stands_only_for_what_was_written_when_it_was_asked_for() -> None:
    talk = talking()
    for name in "AB":
        talk.ack(name, 0)
    force(talk, 0)
    talk.take()
    for name in "AB":
        talk.ack(name, 1)
        forced(talk, name, 0)
    assert talk.confirmed == [0]
    assert talk.core.written == 1


def test_what_a_lost_lane_had_written_is_sent_again_and_counts_no_more() -> None:
    talk = talking()
    for name in "AB":
        talk.ack(name, 0)
    talk.take()
    talk.fail("A", 1, wire_errors.ConnectionLost("power"))
    force(talk, 0)
    assert forces(talk) == [("B", 0)]
    forced(talk, "B", 0)
    assert talk.confirmed == []
    talk.opened("A")
    assert [frame.first for frame in talk.sent("A")] == [0, 1, 0, 1]
    talk.ack("A", 0)
    forced(talk, "A", 0)
    assert talk.confirmed == [0]


def test_a_force_of_which_nobody_knows_costs_the_lane() -> None:
    talk = talking()
    for name in "AB":
        talk.ack(name, 0)
    force(talk, 0)
    old = talk.term("A")
    talk.feed(ev.ForceFailed(term=old, error=wire_errors.ConnectionLost("started again")))
    assert talk.term("A") != old
    talk.feed(ev.Forced(term=old, upto=EntryId(0)))
    forced(talk, "B", 0)
    assert talk.confirmed == []


def test_a_bookie_that_fails_before_it_is_forced_is_replaced_at_once() -> None:
    talk = talking()
    for name in "ABC":
        talk.ack(name, 0)
    assert talk.core.quiet
    talk.feed(ev.ForceWanted(upto=EntryId(0)))
    talk.feed(ev.ForceFailed(term=talk.term("A"), error=wire_errors.IoFailed("disk")))
    assert [change.failed for change in talk.changes] == [((0, BookieId("A")),)]
    assert talk.changes[0].first_entry == 0
    talk.changed("DBC")
    talk.opened("D")
    assert [frame.first for frame in talk.sent("D")] == [0]
    forced(talk, "B", 0)
    forced(talk, "C", 0)
    assert talk.confirmed == [0]


def test_half_of_the_budget_unforced_begins_a_force() -> None:
    talk = talking(replace(LIMITS, budget_bytes=4 * 65))
    for first in range(2):
        for name in "AB":
            talk.ack(name, first)
        assert forces(talk) == []
        talk.take()
    for name in "AB":
        talk.ack(name, 2)
    assert forces(talk) == [("A", 2), ("B", 2)]


def told(talk: Transcript) -> list[EntryId]:
    return [e.confirmed for e in talk.effects if isinstance(e, ev.SendLac)]


def test_a_force_that_is_done_after_the_writer_fell_quiet_is_told() -> None:
    """No packet comes that would carry the LAC, and the writer does not fall quiet twice."""
    talk = talking(replace(LIMITS, budget_bytes=65))
    for name in "AB":
        talk.ack(name, 0)
    assert forces(talk) == [("A", 0), ("B", 0)], "by itself"
    talk.feed(ev.FellQuiet())
    forced(talk, "A", 0)
    assert told(talk) == []
    forced(talk, "B", 0)
    assert told(talk) == [0, 0, 0]


def test_who_forces_what_is_forced_already_has_it_told() -> None:
    talk = talking()
    for name in "AB":
        talk.ack(name, 0)
    force(talk, 0)
    talk.take()
    for name in "AB":
        forced(talk, name, 0)
    assert talk.confirmed == [0]
    assert told(talk) == [], "the next packets carry it"
    for name in "AB":
        talk.ack(name, 1)
    force(talk, 0)
    force(talk, 0)
    assert told(talk) == [0, 0, 0]


def test_a_force_that_nothing_comes_of_stops_the_writer_and_a_recovery_keeps_what_is_there() -> (
    None
):
    talk = talking(replace(LIMITS, add_timeout_ms=1_000))
    for name in "AB":
        talk.ack(name, 0)
    force(talk, 0)
    talk.feed(ev.Ticked(now_ms=50_000))
    assert talk.stop is None
    talk.feed(ev.Ticked(now_ms=51_000))
    assert talk.stop is not None
    assert isinstance(talk.stop.error, errors.AddTimedOut)
    assert not talk.stop.close, "entry 0 is not forced, and flush() has promised it"


@pytest.mark.parametrize("is_forced", [True, False])
def test_a_writer_that_stops_closes_its_ledger_only_where_that_drops_nothing_written(
    is_forced: bool,
) -> None:
    talk = talking()
    for name in "AB":
        talk.ack(name, 0)
    if is_forced:
        force(talk, 0)
        for name in "AB":
            forced(talk, name, 0)
    talk.take()
    talk.fail("A", 1, wire_errors.UnauthorizedAccess("not you"))
    assert talk.stop is not None
    assert talk.stop.close is is_forced


@played()
async def test_what_is_forced_is_read_by_everybody_and_survives_all_bookies_losing_power(
    lab: Lab,
) -> None:
    async with lab.client() as client:
        writer = await client.create(deferred_sync=True)
        reader = await client.open(writer.ledger_id, recover=False)
        await fill(writer, 100)
        await writer.flush()
        assert writer.last_confirmed == -1
        assert await reader.read_last_confirmed() == -1
        await writer.force()
        assert (writer.last_confirmed, writer.used_bytes) == (99, 0)
        await asyncio.sleep(0.005)  # bookies are told: 0.5 ms; after a silence, 20 ms
        assert await reader.read_last_confirmed() == 99
        writer.halt()
        for machine in lab.machines.values():
            await machine.crash()
        for machine in lab.machines.values():
            await machine.start()
        await holds(client, writer.ledger_id, 100)


@played(bookies_in={"a": 1, "b": 1, "c": 1})
async def test_what_was_flushed_survives_a_writer_that_stops_where_nobody_loses_power(
    lab: Lab,
) -> None:
    async with lab.client() as client, lab.client("other") as other:
        writer = await client.create(deferred_sync=True)
        await fill(writer, 10)
        await writer.flush()
        for who in writer.ensemble[:2]:
            lab.door(who).append_error = wire_errors.ReadOnly("full")
        with pytest.raises(errors.LostQuorum):
            await writer.append_and_wait(b"one more")
        with pytest.raises(errors.LostQuorum):
            await writer.close()
        await writer.flushed(EntryId(9))
        for who in writer.ensemble:
            lab.door(who).append_error = None
        assert len(await contents(other, writer.ledger_id)) >= 10


@played()
async def test_readers_see_what_the_writer_forced_by_itself(lab: Lab) -> None:
    config = ClientConfig(writer_budget_bytes=100_000)
    async with lab.client(config=config) as client, lab.client("other") as other:
        writer = await client.create(deferred_sync=True)
        for machine in lab.machines.values():
            machine.disk_ms = 100
        await writer.append_many([b"x" * 1_000] * 60)
        await writer.flush()
        assert writer.last_confirmed == -1
        await asyncio.sleep(1)
        await writer.force()
        await asyncio.sleep(1)
        reader = await other.open(writer.ledger_id, recover=False)
        assert reader.last_confirmed == writer.last_confirmed == 59


STRIPED = Quorums(ensemble=6, write=3, ack=2, ack_zones=2)


@pytest.mark.parametrize("striped", [False, True], ids=["3/3/2", "6/3/2"])
@played(rules=from_pytest(lambda striped: policy(STRIPED if striped else None)))
async def test_bookies_that_crash_before_the_force_are_made_up_for(lab: Lab) -> None:
    async with lab.client() as client:
        writer = await client.create(deferred_sync=True)
        await fill(writer, 50)
        await writer.flush()
        for member in writer.ensemble[:2]:
            machine = lab.machines[member]
            await machine.crash()
            await machine.start()
        await writer.force()
        await fill(writer, 50)
        await writer.close()
        await holds(client, writer.ledger_id, 100)


class _Worst:
    """Chance that keeps nothing of what was not synced."""

    def random(self) -> float:
        return 1.0


async def starts_again_unheard(lab: Lab, client: str, who: BookieId) -> None:
    """Let a bookie lose power and come back; the client's connections to it stay half open."""
    machine = lab.machines[who]
    lab.network._live.pop((client, who))
    synced = machine.files.crashed(_Worst())
    await machine.crash()
    machine.files = synced
    await machine.start()


@played()
async def test_s141_a_force_that_reaches_the_next_start_of_a_bookie_makes_nothing_durable(
    lab: Lab,
) -> None:
    """The lane is half open, so only the boot epoch says that the force was of another start."""
    async with lab.client("client") as client:
        writer = await client.create(deferred_sync=True)
        await fill(writer, 50)
        await writer.flush()
        first_ensemble = writer.ensemble
        for who in first_ensemble[:2]:
            await starts_again_unheard(lab, "client", who)
        for who in first_ensemble[:2]:
            assert await entries_at(lab, who, writer.ledger_id, 0) == []

        await writer.force()

        assert writer.last_confirmed == 49
        holders = [
            who
            for who in lab.machines
            if await entries_at(lab, who, writer.ledger_id, 0) == list(range(50))
        ]
        assert len(holders) >= 2
        for who in first_ensemble:
            machine = lab.machines[who]
            synced = machine.files.crashed(_Worst())
            await machine.crash()
            machine.files = synced
            await machine.start()
        writer.halt()
        await holds(client, writer.ledger_id, 50)


@played()
async def test_who_never_forces_is_held_to_the_budget_and_closing_forces(lab: Lab) -> None:
    async with lab.client(config=ClientConfig(writer_budget_bytes=20_000)) as client:
        async with await client.create(deferred_sync=True) as writer:
            for _ in range(1_000):
                await writer.append(b"x" * 100)
                assert writer.used_bytes <= 20_000
            assert 0 < writer.last_confirmed < 999
        ledger = await client.metadata(writer.ledger_id)
        assert (ledger.is_closed, ledger.last_entry) == (True, 999)
        assert len(await contents(client, writer.ledger_id)) == 1_000


@pytest.mark.parametrize("pause", [False, True])
@played()
async def test_who_waits_for_room_has_what_is_written_forced(lab: Lab, pause: bool) -> None:
    async with lab.client(config=ClientConfig(writer_budget_bytes=4_000)) as client:
        writer = await client.create(deferred_sync=True)
        for size in (1_800, 3_000, 3_900, 100, 3_900):
            await writer.append(b"x" * size)
            if pause:
                await writer.flush()
        assert writer.last_confirmed >= 2
        await writer.close()


@played()
async def test_without_deferred_sync_a_force_is_a_flush(lab: Lab) -> None:
    async with lab.client() as client:
        writer = await client.create()
        await writer.force()
        await fill(writer, 10)
        await writer.force()
        assert writer.last_confirmed == 9
        await writer.close()
