"""A link to a bookie that offers the socket lane: over what it goes, and what it does if not.

``tests/client/api/test_blocked_lanes.py`` has the same with real sockets.
"""

import asyncio
import itertools
from collections.abc import Callable

import pytest

from tests.wire.link.offered_world import (
    BLOCKS,
    HERE,
    SETTINGS,
    THERE,
    OfferedWorld,
    do_all,
    played,
)
from tests.wire.link.worlds import BOOKIE, KEY, Outcomes, Writer, opened, read
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import digests, errors
from zonekeeper.wire.lanes.way_choice import WayState
from zonekeeper.wire.link.offered_transport import OfferedLane, Offers


@played()
async def test_a_lane_that_is_reached_carries_everything(world: OfferedWorld) -> None:
    await do_all(world)
    assert world.on_grpc() == 0
    assert world.on_lane() == 2, "the two streams stay"
    assert world.told == []


@played(is_offered=False)
async def test_a_bookie_without_a_lane_is_used_over_grpc_and_never_asked_again(
    world: OfferedWorld,
) -> None:
    await do_all(world)
    await asyncio.sleep(1_000)
    await do_all(world, 8)
    assert (world.on_lane(), world.looks, world.connected, world.told) == (0, 0, [], [])


@BLOCKS
@played()
async def test_a_lane_that_is_not_reached_costs_a_quarter_of_the_time_once(
    world: OfferedWorld, block: Callable[[OfferedWorld], None]
) -> None:
    block(world)
    clock = asyncio.get_running_loop().time
    begun_s = clock()
    await do_all(world)
    assert clock() - begun_s < 0.6
    begun_s = clock()
    await do_all(world, 8)
    assert clock() - begun_s < 0.1, "nothing waits for a lane that is known to be blocked"
    (said,) = world.told
    assert said.startswith("blocked: ")
    assert ("the network to" in said and "no answer in 500 ms" in said) or "listens" in said


@BLOCKS
@pytest.mark.parametrize("first", ["open", "read", "call", "tail"])
@played()
async def test_whatever_comes_first_finds_the_way(
    world: OfferedWorld, block: Callable[[OfferedWorld], None], first: str
) -> None:
    block(world)
    match first:
        case "open":
            await opened(world.link, 7)
        case "read":
            with pytest.raises(errors.NoSuchLedger):
                await world.link.read(read(7, 0, 0))
        case "call":
            with pytest.raises(errors.NoSuchLedger):
                await world.link.read_lac(LedgerId(7))
        case _:
            asked = service.TailRequest(
                ledger_id=LedgerId(7), first_entry_id=EntryId(0), bytes_max=1, quiet_ms=10
            )
            with pytest.raises(errors.NoSuchLedger):
                await anext(world.link.tail(asked))
            return  # an error of a subscription does not say over what it came
    assert world.choice.state is WayState.BLOCKED


@BLOCKS
@played()
async def test_many_at_once_block_a_lane_once(
    world: OfferedWorld, block: Callable[[OfferedWorld], None]
) -> None:
    block(world)
    async with asyncio.TaskGroup() as tasks:
        for ledger in range(20):
            tasks.create_task(do_all(world, ledger))
    assert len(world.told) == 1


@played()
async def test_a_bookie_that_is_down_blocks_no_lane_and_is_said_to_be_away_both_ways(
    world: OfferedWorld,
) -> None:
    world.refuse()
    world.grpc.take_down(BOOKIE)
    for _ in range(3):
        with pytest.raises(errors.NotConnected, match="over its socket lane: no bookie listens"):
            await world.link.open_fragment(Writer(7).opening(), Outcomes())
        with pytest.raises(errors.ConnectionLost, match="over its socket lane"):
            await world.link.info()
        await asyncio.sleep(60)
    assert world.choice.state is WayState.OPEN
    await world.restart()
    await do_all(world)
    assert (world.on_grpc(), world.told) == (0, [])


@BLOCKS
@played()
async def test_a_bookie_that_refuses_was_reached(
    world: OfferedWorld, block: Callable[[OfferedWorld], None]
) -> None:
    block(world)
    with pytest.raises(errors.NoSuchLedger):
        await world.link.read_lac(LedgerId(7))
    assert world.choice.state is WayState.BLOCKED


@BLOCKS
@played()
async def test_a_lane_that_is_given_back_is_used_by_what_is_new_and_disturbs_nothing(
    world: OfferedWorld, block: Callable[[OfferedWorld], None]
) -> None:
    block(world)
    writer, old, outcomes = await opened(world.link, 7)
    await world.link.info()
    if block is OfferedWorld.refuse:
        world.serve(world.lane)
    else:
        world.lane.heal("client", BOOKIE)
    await asyncio.sleep(1)
    await world.link.info()  # a use: it begins the probe
    await asyncio.sleep(1)
    assert world.told[1:] == ["opened"]
    assert world.on_grpc() == 1
    _, new, _ = await opened(world.link, 8)
    assert world.on_lane() == 1
    for _ in range(3):
        old.append(writer.frame(b"goes on"))
    await outcomes.all_of(3)
    assert outcomes.failures == {}
    assert world.on_grpc() == 1
    old.close()
    await asyncio.sleep(1)
    assert world.on_grpc() == 0, "the stream that was left ends with the last thing in it"
    assert new.alive


@pytest.mark.parametrize("what", ["open", "read"])
@played()
async def test_a_stream_that_is_left_before_its_first_user_could_use_it_is_replaced(
    world: OfferedWorld, what: str
) -> None:
    loop, times = asyncio.get_running_loop(), [0]

    class Renews:
        """Leaves the first stream in the turn after it was made, before its user goes on."""

        def used(self) -> None:
            pass

        def heard(self, boot_epoch: int) -> None:
            times[0] += 1
            if times[0] == 1:
                loop.call_soon(world.link.renew)

    world.link._watcher = Renews()
    if what == "open":
        await opened(world.link, 7)
    else:
        with pytest.raises(errors.NoSuchLedger):
            await world.link.read(read(7, 0, 0))
    assert times == [2]
    assert world.told == []


@played()
async def test_an_opening_that_was_given_up_keeps_no_stream_that_was_left(
    world: OfferedWorld,
) -> None:
    world.swallow()
    _, old, _ = await opened(world.link, 7)
    given_up = asyncio.ensure_future(world.link.open_fragment(Writer(8).opening(), Outcomes()))
    await asyncio.sleep(0)
    given_up.cancel()
    world.lane.heal("client", BOOKIE)
    await asyncio.sleep(1)
    await world.link.info()
    await asyncio.sleep(1)
    assert world.told[1:] == ["opened"]
    old.close()
    await asyncio.sleep(1)
    assert world.on_grpc() == 0


@BLOCKS
@played()
async def test_a_blocked_lane_is_probed_later_each_time_and_only_where_the_bookie_is_used(
    world: OfferedWorld, block: Callable[[OfferedWorld], None]
) -> None:
    block(world)
    await world.link.info()
    await asyncio.sleep(1_000)
    assert world.looks == 0
    looked_s: list[float] = []
    clock = asyncio.get_running_loop().time
    while len(looked_s) < 9:
        await world.link.info()
        if world.looks > len(looked_s):
            looked_s.append(clock())
        await asyncio.sleep(0.05)
    pauses = [later - earlier for earlier, later in itertools.pairwise(looked_s)]
    assert pauses[0] < 5
    assert 30 < pauses[-1] < 63
    assert len(world.told) == 1


@BLOCKS
@played()
async def test_a_bookie_that_started_again_is_probed_at_once(
    world: OfferedWorld, block: Callable[[OfferedWorld], None]
) -> None:
    block(world)
    await opened(world.link, 7)
    for _ in range(6):  # the pause gets long
        await asyncio.sleep(60)
        await world.link.info()
    world.lane.heal("client", BOOKIE)
    await world.restart()
    world.register(HERE)
    await opened(world.link, 8)
    await asyncio.sleep(1)
    assert world.told[1:] == ["opened"]
    await opened(world.link, 9)
    assert world.on_lane() == 1


@played(is_offered=False)
async def test_a_lane_that_another_start_has_is_found_though_grpc_never_moved(
    world: OfferedWorld,
) -> None:
    await opened(world.link, 7)
    await world.restart()
    await opened(world.link, 8)  # before the bookie has registered itself anew
    await asyncio.sleep(0.1)
    assert world.connected == []
    world.register(THERE)
    await asyncio.sleep(2)
    await opened(world.link, 9)
    await asyncio.sleep(1)
    assert world.told == ["opened"]
    assert world.connected == [THERE]


@played()
async def test_a_bookie_that_came_back_without_its_lane_is_used_over_grpc_for_good(
    world: OfferedWorld,
) -> None:
    await do_all(world)
    await world.restart(with_lane=False)
    world.register(None)
    await do_all(world, 8)
    await asyncio.sleep(10)
    await do_all(world, 9)
    await asyncio.sleep(10)
    assert world.choice.state is WayState.ABSENT
    assert [each._closed for each in world.lanes] == [True]
    looks = world.looks
    await asyncio.sleep(1_000)
    await do_all(world, 10)
    assert world.looks == looks
    assert len(world.told) == 1


@played()
async def test_a_lane_that_moved_is_found_by_the_probe(world: OfferedWorld) -> None:
    world.refuse()
    await world.link.info()
    await world.restart()
    world.register(THERE)
    await opened(world.link, 7)
    await asyncio.sleep(1)
    assert world.connected == [HERE, THERE]
    assert world.told[1:] == ["opened"]
    assert [each._closed for each in world.lanes] == [True, False]


@pytest.mark.parametrize("answer", ["none", "never"])
@played()
async def test_a_store_in_doubt_keeps_no_lane_from_being_used(
    world: OfferedWorld, answer: str
) -> None:
    world.refuse()
    await world.link.info()
    world.serve(world.lane)
    world.offered = None
    if answer == "never":
        forever = asyncio.Event()

        async def never() -> OfferedLane | None:
            await forever.wait()
            return None

        world.ways._offers = Offers(
            first=world.ways._offers.first, look=never, connect=world.ways._offers.connect
        )
    await asyncio.sleep(1)
    await world.link.info()
    await asyncio.sleep(5)
    assert world.told[1:] == ["opened"]


@played()
async def test_a_connection_that_is_half_open_ends_as_over_grpc_and_the_next_one_goes_there(
    world: OfferedWorld,
) -> None:
    """What was sent has no outcome but this one: it may have been applied."""
    writer, lane, outcomes = await opened(world.link, 7)
    world.swallow()
    lane.append(writer.frame(b"may be there"))
    await outcomes.all_of(1)
    assert isinstance(outcomes.failures[0], errors.Timeout)
    world.lane.disconnect("client", BOOKIE)  # as a keep-alive does
    await asyncio.sleep(0.01)
    await opened(world.link, 8)
    assert len(world.told) == 1
    assert world.on_grpc() == 1


@played()
async def test_a_refusal_over_the_lane_is_no_reason_to_ask_twice(world: OfferedWorld) -> None:
    with pytest.raises(errors.NoSuchLedger):
        await world.link.read_lac(LedgerId(7))
    await do_all(world)
    with pytest.raises(errors.UnauthorizedAccess):
        await world.link.fence(LedgerId(7), digests.master_key(b"another"))
    await world.link.fence(LedgerId(7), KEY)
    assert (world.on_grpc(), world.told) == (0, [])


@BLOCKS
@pytest.mark.parametrize("after_s", [0.0, 0.2, 0.6, 1.5])
@played()
async def test_closing_ends_what_is_on_its_way(
    world: OfferedWorld, block: Callable[[OfferedWorld], None], after_s: float
) -> None:
    block(world)
    if after_s > 1:
        await world.link.info()
        await asyncio.sleep(1)
    asked = [
        asyncio.ensure_future(world.link.info()),
        asyncio.ensure_future(world.link.read(read(7, 0, 0))),
        asyncio.ensure_future(world.link.open_fragment(Writer(7).opening(), Outcomes())),
    ]
    await asyncio.sleep(after_s % 1)
    await world.link.close()
    ended = await asyncio.gather(*asked, return_exceptions=True)
    assert all(not isinstance(each, asyncio.CancelledError) for each in ended)


@BLOCKS
@pytest.mark.parametrize("use", ["open", "read", "call", "tail"])
@played()
async def test_every_use_of_a_bookie_may_begin_the_probe(
    world: OfferedWorld, block: Callable[[OfferedWorld], None], use: str
) -> None:
    block(world)
    await opened(world.link, 7)
    await world.link.read(read(7, 0, 0))
    await asyncio.sleep(1)
    assert world.looks == 0
    match use:
        case "open":
            await opened(world.link, 8)
        case "read":
            await world.link.read(read(7, 0, 0))
        case "call":
            await world.link.info()
        case _:
            asked = service.TailRequest(
                ledger_id=LedgerId(9), first_entry_id=EntryId(0), bytes_max=1, quiet_ms=10
            )
            with pytest.raises(errors.NoSuchLedger):
                await anext(world.link.tail(asked))
    await asyncio.sleep(1)
    assert world.looks == 1


@played()
async def test_a_call_to_a_bookie_that_answers_neither_way_takes_no_longer_than_it_may(
    world: OfferedWorld,
) -> None:
    world.swallow()
    world.grpc.cut("client", BOOKIE)
    begun_s = asyncio.get_running_loop().time()
    with pytest.raises(errors.Timeout, match="over its socket lane: the network to rack-a-0"):
        await world.link.info()
    took_ms = 1_000 * (asyncio.get_running_loop().time() - begun_s)
    assert took_ms < SETTINGS.call_timeout_ms + 10


@played()
async def test_no_probe_outlives_its_link(world: OfferedWorld) -> None:
    world.swallow()
    await world.link.info()
    await asyncio.sleep(1)
    await world.link.info()
    probing = world.ways._probing
    assert probing is not None
    assert not probing.done()
    await world.link.close()
    assert probing.done()
    world.ways.used()
    assert world.ways._probing is probing


@pytest.mark.parametrize("what", ["open", "read"])
@played()
async def test_a_stream_that_is_made_over_grpc_while_the_lane_is_given_back_is_left_too(
    world: OfferedWorld, what: str
) -> None:
    """Else it would go over gRPC as long as the bookie lives."""
    world.refuse()
    await world.link.info()
    world.serve(world.lane)

    async def soon() -> None:
        await asyncio.sleep(0.000_5)

    world.lanes[0].reach = soon  # type: ignore[method-assign]  # the probe is faster than gRPC
    await asyncio.sleep(1)
    if what == "open":
        await opened(world.link, 7)
    else:
        with pytest.raises(errors.NoSuchLedger):
            await world.link.read(read(7, 0, 0))
    assert world.told[1:] == ["opened"]
    await asyncio.sleep(1)
    assert (world.on_grpc(), world.on_lane()) == (0, 1)


@played()
async def test_a_lane_that_the_probe_reaches_too_late_for_a_stream_stays_blocked(
    world: OfferedWorld,
) -> None:
    """Else a far bookie's streams would be made anew again and again."""
    world.refuse()
    await world.link.info()

    async def late() -> None:
        await asyncio.sleep(0.4)

    world.lanes[0].reach = late  # type: ignore[method-assign]  # of the half second that a stream has
    for _ in range(20):
        await world.link.info()
        await asyncio.sleep(1)
    assert len(world.told) == 1
    assert world.on_lane() == 0
