"""The network in memory does to messages what it says, and the same under the same seed."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from contextvars import ContextVar
from functools import partial

import pytest

from tests.support import playing, virtual_time
from tests.wire.link.reference_bookie import Disk, ReferenceBookie
from tests.wire.link.worlds import BOOKIE, KEY, Outcomes, Writer, opened, read
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.contract import service
from zonekeeper.wire.contract.links import BookieLink, LinkSettings
from zonekeeper.wire.formats import errors
from zonekeeper.wire.formats.proofs import KEY_WITHOUT_PASSWORD, Shown
from zonekeeper.wire.host.serving import Host
from zonekeeper.wire.twin.twin import Network, Weather

Scenario = Callable[[Network, ReferenceBookie], Awaitable[None]]

CLIENT = "client"


def play(scenario: Scenario, weather: Weather | None = None, seed: int = 1) -> None:
    async def main() -> None:
        async with asyncio.timeout(10_000), asyncio.TaskGroup() as tasks:
            network = Network(tasks=tasks, chance=random.Random(seed), weather=weather)
            bookie = ReferenceBookie(BOOKIE, Disk())
            network.put_up(BOOKIE, Host(bookie))
            await scenario(network, bookie)
            network.take_down(BOOKIE)

    virtual_time.run(main())


played = playing.by(play, parts=2)


def now_ms() -> float:
    return asyncio.get_running_loop().time() * 1_000


@played(Weather(delay_min_ms=10, delay_max_ms=20))
async def test_a_message_takes_its_delay(network: Network, bookie: ReferenceBookie) -> None:
    link = network.link(CLIENT, BOOKIE)
    start_ms = now_ms()
    await link.info()
    assert 20 <= now_ms() - start_ms <= 40
    await link.close()


@played(Weather(delay_min_ms=0, delay_max_ms=50))
async def test_frames_arrive_in_order_whatever_the_delays(
    network: Network, bookie: ReferenceBookie
) -> None:
    link = network.link(CLIENT, BOOKIE)
    writer, lane, outcomes = await opened(link, 7)
    for _ in range(100):
        lane.append(writer.frame(b"x"))
        await asyncio.sleep(0.001)
    await outcomes.all_of(100)
    assert list(bookie.disk.ledgers[LedgerId(7)].packets) == list(range(100))
    await link.close()


@played(Weather(delay_min_ms=0, delay_max_ms=50))
async def test_calls_overtake_each_other(network: Network, bookie: ReferenceBookie) -> None:
    order: list[LedgerId] = []

    class Notes(ReferenceBookie):
        async def force(self, ledger_id: LedgerId, key: Shown | None = None) -> None:
            order.append(ledger_id)

    network.take_down(BOOKIE)
    network.put_up(BOOKIE, Host(Notes(BOOKIE, bookie.disk)))
    link = network.link(CLIENT, BOOKIE)
    await asyncio.gather(*(link.force(LedgerId(n)) for n in range(20)))
    assert sorted(order) == list(range(20))
    assert order != list(range(20))
    await link.close()


@played()
async def test_a_lost_reply_is_a_timeout_and_the_thing_was_done(
    network: Network, bookie: ReferenceBookie
) -> None:
    link = network.link(CLIENT, BOOKIE)
    network.cut(BOOKIE, CLIENT)
    with pytest.raises(errors.Timeout) as caught:
        await link.fence(LedgerId(7), KEY_WITHOUT_PASSWORD)
    assert caught.value.maybe_applied
    assert bookie.disk.ledgers[LedgerId(7)].fenced
    await link.close()


@played()
async def test_a_call_that_must_prove_a_key_ends_in_its_time_and_has_done_nothing(
    network: Network, bookie: ReferenceBookie
) -> None:
    link = network.link(CLIENT, BOOKIE, LinkSettings(call_timeout_ms=700))
    network.cut(BOOKIE, CLIENT)
    begun_ms = now_ms()
    with pytest.raises(errors.NotConnected) as caught:
        await link.fence(LedgerId(7), KEY)
    assert (caught.value.retryable, caught.value.maybe_applied) == (True, False)
    assert now_ms() - begun_ms == pytest.approx(700)
    assert bookie.disk.ledgers == {}
    await link.close()


@played()
async def test_a_request_that_is_held_back_arrives_when_the_cut_heals(
    network: Network, bookie: ReferenceBookie
) -> None:
    link = network.link(CLIENT, BOOKIE)
    network.cut(CLIENT, BOOKIE)
    fencing = asyncio.ensure_future(link.fence(LedgerId(7), KEY_WITHOUT_PASSWORD))
    await asyncio.sleep(2)
    assert LedgerId(7) not in bookie.disk.ledgers
    network.heal(CLIENT, BOOKIE)
    await fencing
    assert bookie.disk.ledgers[LedgerId(7)].fenced
    await link.close()


@played()
async def test_acks_behind_a_one_way_cut_come_late_or_never(
    network: Network, bookie: ReferenceBookie
) -> None:
    link = network.link(CLIENT, BOOKIE, LinkSettings(append_timeout_ms=60_000))
    writer, lane, outcomes = await opened(link, 7)
    network.cut(BOOKIE, CLIENT)
    lane.append(writer.frame(b"zero"))
    await asyncio.sleep(5)
    assert (outcomes.count, len(bookie.disk.ledgers[LedgerId(7)].packets)) == (0, 1)
    network.heal(BOOKIE, CLIENT)
    await outcomes.all_of(1)
    assert outcomes.acked_order == [0]

    network.cut(BOOKIE, CLIENT)
    lane.append(writer.frame(b"one"))
    start_ms = now_ms()
    await outcomes.all_of(2)
    assert isinstance(outcomes.failures[1], errors.ConnectionLost)
    assert now_ms() - start_ms == pytest.approx(15_000)
    assert len(bookie.disk.ledgers[LedgerId(7)].packets) == 2, "unknown, and in truth there"
    await link.close()


@played(Weather(delay_min_ms=10, delay_max_ms=10))
async def test_what_was_sent_to_one_boot_never_reaches_the_next(
    network: Network, bookie: ReferenceBookie
) -> None:
    link = network.link(CLIENT, BOOKIE)
    fencing = asyncio.ensure_future(link.fence(LedgerId(7), KEY_WITHOUT_PASSWORD))
    await asyncio.sleep(0.005)
    network.take_down(BOOKIE)
    network.put_up(BOOKIE, Host(ReferenceBookie(BOOKIE, bookie.disk)))
    with pytest.raises(errors.ConnectionLost):
        await fencing
    assert bookie.disk.ledgers == {}
    await link.close()


@played()
async def test_a_request_whose_caller_gave_up_does_not_reach_the_next_boot_either(
    network: Network, bookie: ReferenceBookie
) -> None:
    link = network.link(CLIENT, BOOKIE, LinkSettings(call_timeout_ms=100))
    network.cut(CLIENT, BOOKIE)
    with pytest.raises(errors.Timeout):
        await link.fence(LedgerId(7), KEY_WITHOUT_PASSWORD)
    network.take_down(BOOKIE)
    network.put_up(BOOKIE, Host(ReferenceBookie(BOOKIE, bookie.disk)))
    network.heal(CLIENT, BOOKIE)
    await link.info()
    assert bookie.disk.ledgers == {}
    await link.close()


@played()
async def test_a_tail_hears_of_a_bookie_that_is_taken_down(
    network: Network, bookie: ReferenceBookie
) -> None:
    link = network.link(CLIENT, BOOKIE)
    await opened(link, 7)
    request = service.TailRequest(
        ledger_id=LedgerId(7), first_entry_id=EntryId(0), bytes_max=1, quiet_ms=1_000
    )
    async with aclosing(link.tail(request)) as updates:
        await anext(updates)
        network.take_down(BOOKIE)
        with pytest.raises(errors.ConnectionLost):
            await anext(updates)
    network.put_up(BOOKIE, Host(bookie))
    await link.close()


@played(Weather(delay_min_ms=50, delay_max_ms=50, keep_alive_ms=3_000))
async def test_a_half_open_connection_brings_what_was_sent_before_and_then_nothing(
    network: Network, bookie: ReferenceBookie
) -> None:
    """The bookie is up again, and its answers of before still come; no request reaches it."""
    link = network.link(CLIENT, BOOKIE, LinkSettings(append_timeout_ms=60_000))
    writer, lane, outcomes = await opened(link, 7)
    lane.append(writer.frame(b"x"))
    await asyncio.sleep(0.075)  # its answer is on its way
    assert bookie.disk.ledgers[LedgerId(7)].packets
    network.take_down(BOOKIE, half_open=True)
    network.put_up(BOOKIE, Host(ReferenceBookie(BOOKIE, bookie.disk)))
    assert outcomes.acked_order == []
    begun_ms = now_ms()
    await outcomes.all_of(1)
    lane.append(writer.frame(b"y"))
    await outcomes.all_of(2)
    assert outcomes.acked_order == [0]
    assert now_ms() - begun_ms == pytest.approx(3_000, abs=100)
    assert list(bookie.disk.ledgers[LedgerId(7)].packets) == [0]
    await link.close()


@played(Weather(delay_min_ms=50, delay_max_ms=50, keep_alive_ms=3_000))
async def test_a_call_to_a_bookie_that_left_its_connection_half_open_has_no_reply(
    network: Network, bookie: ReferenceBookie
) -> None:
    link = network.link(CLIENT, BOOKIE, LinkSettings(call_timeout_ms=2_000))
    fencing = asyncio.ensure_future(link.fence(LedgerId(7), KEY_WITHOUT_PASSWORD))
    await asyncio.sleep(0.01)
    network.take_down(BOOKIE, half_open=True)
    network.put_up(BOOKIE, Host(ReferenceBookie(BOOKIE, bookie.disk)))
    with pytest.raises(errors.Timeout):
        await fencing
    assert bookie.disk.ledgers == {}
    await link.close()


@played()
async def test_a_tail_behind_a_cut_is_a_timeout(network: Network, bookie: ReferenceBookie) -> None:
    link = network.link(CLIENT, BOOKIE, LinkSettings(call_timeout_ms=2_000))
    await opened(link, 7)
    request = service.TailRequest(
        ledger_id=LedgerId(7), first_entry_id=EntryId(0), bytes_max=1, quiet_ms=1_000
    )
    async with aclosing(link.tail(request)) as updates:
        await anext(updates)
        network.cut(BOOKIE, CLIENT)
        start_ms = now_ms()
        with pytest.raises(errors.Timeout):
            await anext(updates)
        assert now_ms() - start_ms == pytest.approx(3_000)
    await link.close()


@played(Weather(delay_max_ms=5, call_repeat=1))
async def test_a_call_may_be_served_twice(network: Network, bookie: ReferenceBookie) -> None:
    link = network.link(CLIENT, BOOKIE)
    await link.force(LedgerId(7))
    await asyncio.sleep(1)
    assert bookie.forced == [7, 7]
    await link.close()


def run_in_a_storm(seed: int) -> list[object]:
    """Write through storms, opening again whenever the lane ends; tell what happened."""
    story: list[object] = []

    async def scenario(network: Network, bookie: ReferenceBookie) -> None:
        link = network.link(CLIENT, BOOKIE, LinkSettings(append_timeout_ms=500))
        acked = 0
        while acked < 100:
            outcomes, writer = Outcomes(), Writer(7, first=acked)
            try:
                lane = await link.open_fragment(writer.opening(), outcomes)
            except errors.ProtocolError as error:
                story.append((now_ms(), type(error).__name__))
                await asyncio.sleep(0.05)
                continue
            before = set(bookie.disk.ledgers[LedgerId(7)].packets)
            for _ in range(10):
                if lane.alive:
                    lane.append(writer.frame(b"x" * 100))
                    await asyncio.sleep(0.001)
            lane_count = writer.next - acked
            await outcomes.all_of(lane_count)
            story.append((now_ms(), tuple(outcomes.acked_order), tuple(outcomes.failures)))
            there = bookie.disk.ledgers[LedgerId(7)].packets
            assert all(acked + number in there for number in outcomes.acked_order)
            unwritten = [n for n, error in outcomes.failures.items() if not error.maybe_applied]
            assert not [n for n in unwritten if acked + n in there.keys() - before]
            while outcomes.acked_order[:1] == [0] and acked in there and acked < 100:
                acked += 1
        await link.close()

    play(
        scenario,
        Weather(delay_max_ms=8, call_loss=0.1, call_repeat=0.1, disconnect=0.02),
        seed=seed,
    )
    return story


@pytest.mark.parametrize("seed", range(20))
def test_in_a_storm_acked_is_there_and_refused_is_not(seed: int) -> None:
    run_in_a_storm(seed)


def test_one_seed_is_one_story() -> None:
    assert run_in_a_storm(3) == run_in_a_storm(3)
    assert run_in_a_storm(3) != run_in_a_storm(4)


@pytest.mark.parametrize("at_once", [False, True], ids=["spread", "at the same moments"])
def test_a_hundred_slow_ledgers_need_no_more_messages_than_a_fast_one(at_once: bool) -> None:
    needed: dict[int, int] = {}

    async def write(network: Network, bookie: ReferenceBookie, ledgers: int) -> None:
        """1,000 entries a second for two seconds, of so many ledgers."""
        bookie.commit_s = 0.002
        link = network.link(CLIENT, BOOKIE)
        lanes = [await opened(link, ledger) for ledger in range(ledgers)]
        for turn in range(2_000 // ledgers):
            for writer, lane, _ in lanes:
                lane.append(writer.frame(b"x" * 1_000))
                if not at_once or ledgers == 1:
                    await asyncio.sleep(0.001)
            if at_once and ledgers > 1:
                await asyncio.sleep(0.1)
            assert turn < 2_000
        for _, _, outcomes in lanes:
            await outcomes.all_of(2_000 // ledgers)
        needed[ledgers] = bookie.batches
        await link.close()

    for ledgers in (1, 100):
        play(partial(write, ledgers=ledgers), Weather(delay_min_ms=0.2, delay_max_ms=0.4))
    assert needed[100] <= needed[1] * 1.05
    assert needed[1] <= 2_000


def test_whenever_a_caller_is_cancelled_the_link_goes_on() -> None:
    """Each moment of a whole conversation, in tenths of a millisecond."""

    async def converse(link: BookieLink) -> None:
        writer, lane, outcomes = await opened(link, 7)
        lane.append(writer.frame(b"a", b"b"))
        await outcomes.all_of(1)
        await link.read(read(7, 0, 5))
        await link.fence(LedgerId(7), KEY)
        tail = service.TailRequest(
            ledger_id=LedgerId(7), first_entry_id=EntryId(0), bytes_max=100, quiet_ms=100
        )
        async for _ in link.tail(tail):
            pass

    async def scenario(network: Network, _: ReferenceBookie, cancelled_s: float) -> None:
        link = network.link(CLIENT, BOOKIE, LinkSettings(read_budget_bytes=1))
        async with asyncio.TaskGroup() as tasks:
            conversation = tasks.create_task(converse(link))
            await asyncio.sleep(cancelled_s)
            conversation.cancel()
        writer, lane, outcomes = await opened(link, 8)
        lane.append(writer.frame(b"c"))
        await outcomes.all_of(1)
        assert outcomes.acked_order == [0]
        (frame,) = (await link.read(read(8, 0, 5))).frames
        assert frame.last == 0
        await link.close()

    for tenths_ms in range(200):
        play(
            partial(scenario, cancelled_s=tenths_ms / 10_000),
            Weather(delay_min_ms=0.1, delay_max_ms=2),
            seed=tenths_ms,
        )


@played(Weather(delay_max_ms=100, uneven=True))
async def test_ways_of_an_uneven_network_differ_and_keep_their_pace(
    network: Network, bookie: ReferenceBookie
) -> None:
    def longest_ms(client: str) -> float:
        start_ms = now_ms()
        return max(network.arrival(client, BOOKIE) * 1_000 for _ in range(100)) - start_ms

    first = {f"client-{number}": longest_ms(f"client-{number}") for number in range(50)}
    assert sum(each < 10 for each in first.values()) > 15
    assert sum(each > 50 for each in first.values()) > 3
    for client, each in first.items():
        assert longest_ms(client) == pytest.approx(each, rel=0.1, abs=0.1)


@played()
async def test_who_is_slow_hears_and_says_everything_late(
    network: Network, bookie: ReferenceBookie
) -> None:
    network.slow_ms[BOOKIE] = 300
    link = network.link(CLIENT, BOOKIE)
    start_ms = now_ms()
    await link.info()
    assert now_ms() - start_ms == pytest.approx(600)
    await link.close()


@played()
async def test_what_is_served_runs_with_the_bookie_and_ends_with_its_group(
    network: Network, bookie: ReferenceBookie
) -> None:
    who: ContextVar[str] = ContextVar("who", default="nobody")

    class Notes(ReferenceBookie):
        async def info(self) -> service.BookieInfo:
            seen.append(who.get())
            return await super().info()

    seen: list[str] = []
    network.take_down(BOOKIE)
    async with asyncio.TaskGroup() as tasks:
        who.set("the bookie")
        network.put_up(BOOKIE, Host(Notes(BOOKIE, bookie.disk)), tasks=tasks)
        who.set("the client")
        link = network.link(CLIENT, BOOKIE, tasks=tasks)
        await link.info()
        assert seen == ["the bookie"]
    with pytest.raises(errors.ProtocolError):
        await network.link("another", BOOKIE).info()
    await link.close()


@virtual_time.played
async def test_the_network_has_a_time_of_its_own() -> None:
    class Late:
        """A clock that is an hour ahead of the loop's."""

        def time(self) -> float:
            return asyncio.get_running_loop().time() + 3_600

        def call_at(self, when: float, callback: Callable[[], object], /) -> object:
            return asyncio.get_running_loop().call_at(when - 3_600, callback)

    async with asyncio.TaskGroup() as tasks:
        network = Network(
            tasks=tasks,
            chance=random.Random(1),
            weather=Weather(delay_min_ms=10, delay_max_ms=10),
            timing=Late(),
        )
        network.put_up(BOOKIE, Host(ReferenceBookie(BOOKIE, Disk())))
        link = network.link(CLIENT, BOOKIE)
        start_ms = now_ms()
        await link.info()
        assert now_ms() - start_ms == pytest.approx(20)
        await link.close()
        network.take_down(BOOKIE)
