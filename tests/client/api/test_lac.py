"""How readers hear how far a ledger is confirmed, and what lies beyond (S35, S36)."""

import asyncio
import contextlib
import random
from collections.abc import Callable

import pytest

from tests.client.api.test_writer import data, fill
from tests.client.lab import Lab, played
from tests.client.other_loops import played_simulated
from tests.client.transcripts import THREE, Transcript, started
from tests.simulation.loop import SimulatedLoop
from zonekeeper.client.api.reader import Reader
from zonekeeper.client.api.writer import Writer
from zonekeeper.client.base import errors
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.client.writing import writer_events as ev
from zonekeeper.placement.base.ids import EntryId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.formats import errors as wire_errors

#: No LAC is told by itself.
NEVER_QUIET = ClientConfig(quiet_ms=3_600_000)

FULL = wire_errors.TooManyRequests("full")


def told(talk: Transcript) -> list[str]:
    return [talk.terms[e.term] for e in talk.effects if isinstance(e, ev.SendLac)]


def lac_acked(talk: Transcript, name: str, lac: int = 0) -> list[ev.Effect]:
    return talk.feed(ev.LacAcked(term=talk.term(name), lac=EntryId(lac)))


def lac_failed(
    talk: Transcript, name: str, error: wire_errors.ProtocolError, lac: int = 0
) -> list[ev.Effect]:
    return talk.feed(ev.LacFailed(term=talk.term(name), lac=EntryId(lac), error=error))


def acked_by_all() -> Transcript:
    """A writer whose first entry all bookies have."""
    talk = started()
    for name in "ABC":
        talk.ack(name, 0)
    return talk


def with_one_told_and_one_wanted() -> Transcript:
    """A writer that has told of entry 0, and is to have entry 1 known."""
    talk = acked_by_all()
    talk.feed(ev.FellQuiet())
    talk.take()
    for name in "ABC":
        talk.ack(name, 1)
    talk.feed(ev.LacWanted())
    return talk


def test_the_lac_is_known_when_an_ack_quorum_has_it() -> None:
    talk = started()
    talk.ack("A", 0)
    talk.ack("B", 0)
    talk.feed(ev.LacWanted())
    assert told(talk) == ["A", "B", "C"]
    assert lac_acked(talk, "C") == []
    assert lac_acked(talk, "A") == [ev.LacKnown(last=EntryId(0))]
    assert lac_acked(talk, "B") == []


def test_an_older_lac_on_its_way_does_not_count_for_a_newer_one() -> None:
    talk = with_one_told_and_one_wanted()
    for name in "ABC":
        assert lac_acked(talk, name) == []
    lac_acked(talk, "A", 1)
    assert lac_acked(talk, "B", 1) == [ev.LacKnown(last=EntryId(1))]


def test_a_lac_that_is_refused_leaves_an_older_one_on_its_way_as_old_as_it_is() -> None:
    talk = with_one_told_and_one_wanted()
    for name in "AB":
        lac_failed(talk, name, FULL, 1)
    assert any(isinstance(effect, ev.LacUntold) for effect in talk.effects)
    talk.feed(ev.LacWanted())
    for name in "ABC":
        assert lac_acked(talk, name) == [], "that was LAC 0"
    lac_acked(talk, "A", 1)
    assert lac_acked(talk, "C", 1) == [ev.LacKnown(last=EntryId(1))]


def test_a_lane_that_is_lost_is_opened_again_to_tell_the_lac() -> None:
    talk = acked_by_all()
    talk.feed(ev.LacWanted())
    lost = wire_errors.ConnectionLost("reset")
    for name in "AB":
        lac_failed(talk, name, lost)
    talk.opened("AB")
    assert told(talk) == ["A", "B", "C", "A", "B"]
    lac_acked(talk, "A")
    assert lac_acked(talk, "B") == [ev.LacKnown(last=EntryId(0))]


def test_too_few_that_can_be_told_are_said_so_and_the_writer_goes_on() -> None:
    talk = acked_by_all()
    talk.feed(ev.LacWanted())
    lac_failed(talk, "A", FULL)
    effects = lac_failed(talk, "B", FULL)
    untold = next(effect for effect in effects if isinstance(effect, ev.LacUntold))
    assert isinstance(untold.error, errors.LacNotTold)
    assert untold.error.retryable
    assert "not told: A, B" in str(untold.error)
    assert talk.stop is None


def test_a_lac_that_found_no_room_after_a_silence_is_told_again() -> None:
    again: list[Callable[[Transcript], ev.Event]] = [
        lambda talk: ev.RoomAgain(term=talk.term("C")),
        lambda _: ev.Ticked(now_ms=0),
        lambda _: ev.FellQuiet(),
    ]
    for happens in again:
        talk = acked_by_all()
        talk.feed(ev.FellQuiet())
        for name in "AB":
            lac_acked(talk, name)
        assert not talk.core.waits
        lac_failed(talk, "C", FULL)
        assert talk.core.waits
        talk.feed(happens(talk))
        assert told(talk) == ["A", "B", "C", "C"]
        lac_acked(talk, "C")
        assert not talk.core.waits


def test_bookies_that_had_failed_are_tried_again_where_the_others_are_too_few() -> None:
    talk = acked_by_all()
    for name in "AB":
        talk.feed(ev.ForceFailed(term=talk.term(name), error=wire_errors.Timeout("gone")))
    opened = [e.bookie for e in talk.feed(ev.LacWanted()) if isinstance(e, ev.OpenLane)]
    assert opened == ["A", "B"]
    away = wire_errors.NotConnected("nobody there")
    for name in "AB":
        talk.feed(ev.LaneRefused(term=talk.term(name), error=away))
    assert isinstance(talk.effects[-1], ev.LacUntold)
    talk.feed(ev.LacWanted())
    talk.opened("AB")
    lac_acked(talk, "A")
    assert lac_acked(talk, "B") == [ev.LacKnown(last=EntryId(0))]


def test_a_bookie_that_had_failed_is_left_alone_where_the_others_are_enough() -> None:
    talk = acked_by_all()
    talk.feed(ev.ForceFailed(term=talk.term("A"), error=wire_errors.Timeout("gone")))
    assert not any(isinstance(effect, ev.OpenLane) for effect in talk.feed(ev.LacWanted()))


@pytest.mark.parametrize(
    "quorums", [None, Quorums(ensemble=6, write=3, ack=2, ack_zones=2)], ids=["3/3/2", "6/3/2"]
)
@played()
async def test_readers_hear_at_once_what_is_told(lab: Lab, quorums: Quorums | None) -> None:
    async with lab.client(config=NEVER_QUIET) as client:
        writer = await client.create(quorums=quorums)
        await writer.tell_confirmed()  # of nothing
        reader = await client.open(writer.ledger_id, recover=False)
        for count in (1, 7, 20):
            await fill(writer, count)
            await writer.flush()
            assert await reader.read_last_confirmed() < writer.last_confirmed
            await writer.tell_confirmed()
            assert await reader.read_last_confirmed() == writer.last_confirmed
        await writer.close()
        with pytest.raises(errors.WriterClosed):
            await writer.tell_confirmed()


@played()
async def test_telling_a_lac_over_connections_that_broke_meanwhile(lab: Lab) -> None:
    async with lab.client(config=NEVER_QUIET) as client:
        writer = await client.create()
        await fill(writer, 5)
        await writer.flush()
        for member in writer.ensemble:
            machine = lab.machines[member]
            await machine.crash()
            await machine.start()
        await asyncio.sleep(1)
        await writer.tell_confirmed()
        reader = await client.open(writer.ledger_id, recover=False)
        assert reader.last_confirmed == 4


@played()
async def test_bookies_that_were_full_when_the_writer_fell_quiet_hear_its_lac_later(
    lab: Lab,
) -> None:
    async with lab.client() as client:
        writer = await client.create()
        await writer.append_and_wait(data(0))
        doors = [lab.door(member) for member in writer.ensemble]
        for door in doors:
            door.append_error = FULL
        await asyncio.sleep(1)
        reader = await client.open(writer.ledger_id, recover=False)
        assert reader.last_confirmed == -1
        for door in doors:
            door.append_error = None
        await asyncio.sleep(1)
        assert await reader.read_last_confirmed() == 0


@played_simulated()
async def test_a_writer_that_counts_as_quiet_at_once_leaves_the_loop_to_others_meanwhile(
    lab: Lab, loop: SimulatedLoop
) -> None:
    """It looks again and again whether what it appended is acknowledged."""
    async with lab.client(config=ClientConfig(quiet_ms=0)) as client:
        writer = await client.create()
        for who in writer.ensemble:
            lab.door(who).holding = True
        await writer.append(data(0))
        await asyncio.sleep(1)
        for who in writer.ensemble:
            lab.door(who).release()
        await asyncio.sleep(1)
        reader = await client.open(writer.ledger_id, recover=False)
        assert reader.last_confirmed == 0


@played()
async def test_telling_a_lac_succeeds_again_when_the_bookies_are_back(lab: Lab) -> None:
    async with lab.client(config=NEVER_QUIET) as client:
        writer = await client.create()
        await fill(writer, 5)
        await writer.flush()
        away = [lab.machines[member] for member in writer.ensemble[:2]]
        for machine in away:
            await machine.crash()
        with pytest.raises(errors.LacNotTold):
            await writer.tell_confirmed()
        for machine in away:
            await machine.start()
        await asyncio.sleep(30)
        await writer.tell_confirmed()
        reader = await client.open(writer.ledger_id, recover=False)
        assert reader.last_confirmed == 4


@played()
async def test_a_telling_that_is_cancelled_breaks_nothing(lab: Lab) -> None:
    async with lab.client(config=NEVER_QUIET) as client:
        writer = await client.create()
        await fill(writer, 5)
        await writer.flush()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await writer.tell_confirmed()
        await writer.tell_confirmed()
        await writer.close()


async def told_or_fenced(writer: Writer) -> None:
    with contextlib.suppress(errors.Fenced, errors.LacNotTold):
        await writer.tell_confirmed()


@played()
async def test_s36_a_told_lac_survives_crashes_and_meets_a_fence_without_going_back(
    lab: Lab,
) -> None:
    chance = random.Random(36)
    async with lab.client(config=NEVER_QUIET) as client, lab.client("other") as other:
        writer = await client.create()
        reader = await other.open(writer.ledger_id, recover=False)
        for _ in range(10):
            await fill(writer, 3)
            await writer.flush()
            await writer.tell_confirmed()
            known = writer.last_confirmed
            machine = lab.machines[chance.choice(writer.ensemble)]
            await machine.crash()
            await machine.start()
            again = await other.open(writer.ledger_id, recover=False)
            assert again.last_confirmed == known
            assert await reader.read_last_confirmed() == known
        await fill(writer, 3)
        await writer.flush()
        async with asyncio.TaskGroup() as both:
            telling = both.create_task(told_or_fenced(writer))
            taking = both.create_task(other.open(writer.ledger_id, recover=True))
        assert telling.done()
        assert taking.result().last_confirmed == 32
        assert await reader.read_last_confirmed() == 32


async def unconfirmed(reader: Reader, first: int = 0, last: int | None = None) -> list[bytes]:
    return [e.payload async for batch in reader.read_unconfirmed(first, last) for e in batch]


@pytest.mark.parametrize(
    "quorums", [None, Quorums(ensemble=6, write=3, ack=2, ack_zones=2)], ids=["3/3/2", "6/3/2"]
)
@played()
async def test_s35_what_is_read_beyond_the_end_is_labelled_and_may_vanish(
    lab: Lab, quorums: Quorums | None
) -> None:
    async with lab.client(config=NEVER_QUIET) as client, lab.client("other") as other:
        writer = await client.create(quorums=quorums)
        await fill(writer, 5)
        await writer.flush()
        await writer.tell_confirmed()
        holder = writer.ensemble[5 % len(writer.ensemble)]
        for member in writer.ensemble:
            lab.door(member).holding = member != holder
        await fill(writer, 1)
        await asyncio.sleep(0.1)

        reader = await other.open(writer.ledger_id, recover=False)
        assert reader.last_confirmed == 4
        assert [e.payload async for e in reader.read_entries()] == [data(n) for n in range(5)]
        with pytest.raises(errors.BeyondEnd):
            await anext(reader.read(5, 5))
        assert await unconfirmed(reader) == [data(n) for n in range(6)]
        assert await unconfirmed(reader, 2, 3) == [data(2), data(3)]
        assert await unconfirmed(reader, 6) == []
        assert reader.last_confirmed == 4

        writer.halt()
        await lab.machines[holder].crash()
        taken = await other.open(writer.ledger_id, recover=True)
        assert taken.last_confirmed == 4
        assert await unconfirmed(taken) == [data(n) for n in range(5)]
        assert "UNSAFE" in (Reader.read_unconfirmed.__doc__ or "")


@played()
async def test_who_follows_a_replica_that_nobody_told_hears_it_from_the_others(lab: Lab) -> None:
    async with lab.client("writing", NEVER_QUIET) as client, lab.client("reading") as other:
        for untold in lab.machines.values():
            writer = await client.create(quorums=THREE)
            await writer.append_and_wait(data(0))
            reader = await other.open(writer.ledger_id, recover=False)
            tail = reader.follow()
            following = asyncio.ensure_future(anext(tail))
            await asyncio.sleep(1)
            untold.doorway.holding = True
            await writer.tell_confirmed()
            assert (await following).entry_id == 0
            untold.doorway.release()
            await tail.close()
            await writer.close()
