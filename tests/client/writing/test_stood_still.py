"""A client whose process stood still (SIGSTOP, a blocking call) suspects no bookie for it.

When it goes on, its timers come before the answers that wait for it to be read.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace

import pytest

from tests.client.lab import Lab
from tests.client.other_loops import play_simulated
from tests.client.transcripts import LIMITS, Transcript, started
from tests.client.writing.test_deferred_sync import talking
from tests.simulation.loop import Process, SimulatedLoop
from tests.support import playing
from tests.support.playing import from_pytest
from zonekeeper.client.base import errors
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.client.writing import writer_events as ev
from zonekeeper.placement.base.ids import EntryId

PATIENT = replace(LIMITS, add_timeout_ms=10_000)


def forcing() -> Transcript:
    talk = talking(PATIENT)
    for name in "AB":
        talk.ack(name, 0)
    talk.feed(ev.ForceWanted(upto=EntryId(0)))
    return talk


@pytest.mark.parametrize(
    "begin", [lambda: started(limits=PATIENT), forcing], ids=["a batch", "a force"]
)
def test_what_is_waited_for_gets_the_time_back_in_which_nobody_could_answer(
    begin: Callable[[], Transcript],
) -> None:
    talk = begin()
    talk.feed(ev.Ticked(now_ms=0))
    talk.feed(ev.StoodStill(late_ms=60_000))
    talk.feed(ev.Ticked(now_ms=69_999))
    assert talk.stop is None
    talk.feed(ev.Ticked(now_ms=70_000))
    assert talk.stop is not None


def play_paused(
    work: Callable[[Lab, asyncio.Event], Coroutine[None, None, None]], pause_s: float
) -> None:
    """Have something done in a process that is paused soon after it says that it has begun."""

    async def scenario(lab: Lab, loop: SimulatedLoop) -> None:
        began, process = asyncio.Event(), Process("client")
        working = lab.tasks.create_task(work(lab, began), context=process.context)
        await began.wait()
        await asyncio.sleep(0.05)
        loop.pause(process)
        await asyncio.sleep(pause_s)
        loop.go_on(process)
        await working

    play_simulated(scenario)


played_paused = playing.by(play_paused, parts=2)


@played_paused(pause_s=4)
async def test_a_writer_goes_on_though_its_process_stood_still_for_longer_than_an_add_may_take(
    lab: Lab, began: asyncio.Event
) -> None:
    config = ClientConfig(add_timeout_ms=3_000)
    async with lab.client(config=config) as client, await client.create() as writer:
        began.set()
        for _ in range(1_000):
            await writer.append(b"there are always some under way")
            await asyncio.sleep(0.000_1)


def play_late(
    work: Callable[[Lab, SimulatedLoop], Coroutine[None, None, None]], late_s: float
) -> None:
    """Have something done in a process whose application works for so long, again and again."""

    async def scenario(lab: Lab, loop: SimulatedLoop) -> None:
        process = Process("client")
        working = lab.tasks.create_task(work(lab, loop), context=process.context)
        while not working.done():
            loop.pause(process)
            await asyncio.sleep(late_s)
            loop.go_on(process)
            await asyncio.sleep(0.01)

    play_simulated(scenario)


played_late = playing.by(play_late, parts=2)


@played_late(late_s=1.2)
async def test_an_add_times_out_though_its_process_is_late_all_the_time(
    lab: Lab, loop: SimulatedLoop
) -> None:
    async with lab.client(config=ClientConfig(add_timeout_ms=10_000)) as client:
        writer = await client.create()
        for machine in lab.machines.values():
            machine.doorway.holding = True
        begun_s = loop.time()
        with pytest.raises(errors.AddTimedOut):
            await writer.append_and_wait(b"nobody answers")
        assert loop.time() - begun_s < 20, "in virtual time"


@played_late(late_s=3)
async def test_a_bookie_that_says_nothing_is_found_out_though_its_client_is_late_all_the_time(
    lab: Lab, loop: SimulatedLoop
) -> None:
    async with lab.client() as client:
        writer = await client.create()
        silent = writer.ensemble[0]
        lab.door(silent).holding = True
        begun_s = loop.time()
        await writer.append_and_wait(b"two answer")
        while silent not in client.bookies.suspects:
            await asyncio.sleep(1)
            assert loop.time() - begun_s < 60, "in virtual time"
        await writer.close()


@pytest.mark.parametrize("pause_s", [2.6, 60], ids=["hedge", "timeout"])
@played_paused(pause_s=from_pytest(lambda pause_s: pause_s))
async def test_reads_stay_in_the_zone_though_their_process_stood_still(
    lab: Lab, began: asyncio.Event
) -> None:
    async with lab.client() as client:
        async with await client.create() as writer:
            await writer.append_many([b"x"] * 100)
        reader = await client.open(writer.ledger_id)
        began.set()
        for _ in range(100):
            assert len([entry async for entry in reader.read_entries()]) == 100
        assert (client.counters.reads_hedged, client.counters.reads_remote) == (0, {})
