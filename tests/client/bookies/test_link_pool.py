"""A link is looked up once for all callers, also if some of them give up."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from tests.support import playing, virtual_time
from zonekeeper.client.base.counters import ClientCounters
from zonekeeper.client.bookies.link_pool import LOOK_UP_EVERY_MS, LinkPool
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.wire.contract.links import OwnedLink
from zonekeeper.wire.formats import errors
from zonekeeper.wire.twin.twin import Network

BOOKIE = BookieId("bk-a-0")


class Register:
    """A ``link_pool.LinkFactory`` whose register takes a second to answer, and counts."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self.address: str | None = "here"
        self.asked = 0

    async def find(self, bookie_id: BookieId) -> str | None:
        assert bookie_id == BOOKIE
        self.asked += 1
        await asyncio.sleep(1)
        return self.address

    def make(self, bookie_id: BookieId, address: str) -> OwnedLink:
        assert address == self.address
        return self._network.link("client", bookie_id)


def play(scenario: Callable[[LinkPool, Register], Awaitable[None]]) -> None:
    async def staged() -> None:
        async with asyncio.TaskGroup() as tasks:
            register = Register(Network(tasks=tasks, chance=random.Random(1)))
            pool = LinkPool(register, ClientCounters())
            await scenario(pool, register)
            await pool.close()

    virtual_time.run(staged())


played = playing.by(play, parts=2)


@played()
async def test_a_thousand_who_want_a_bookie_at_once_look_it_up_once(
    pool: LinkPool, register: Register
) -> None:
    links = await asyncio.gather(*(pool.current(BOOKIE) for _ in range(1_000)))

    assert register.asked == 1
    assert all(link is links[0] for link in links)


@played()
async def test_who_looks_up_may_give_up_and_somebody_else_goes_on(
    pool: LinkPool, register: Register
) -> None:
    async with asyncio.TaskGroup() as tasks:
        wanting = [tasks.create_task(pool.current(BOOKIE)) for _ in range(3)]
        await asyncio.sleep(0.5)
        wanting[0].cancel()

    assert register.asked == 2
    assert wanting[1].result() is wanting[2].result()


@played()
async def test_all_who_wait_hear_that_a_bookie_is_not_registered_and_the_next_one_asks_again(
    pool: LinkPool, register: Register
) -> None:
    register.address = None
    wanting = (pool.link(BOOKIE) for _ in range(10))
    outcomes = await asyncio.gather(*wanting, return_exceptions=True)

    assert [type(outcome) for outcome in outcomes] == 10 * [errors.NotConnected]
    assert register.asked == 1
    register.address = "here"
    await pool.link(BOOKIE)
    assert register.asked == 2


@pytest.mark.parametrize("way", ["link", "moved"])
@played()
async def test_a_link_that_is_there_is_given_without_asking(
    pool: LinkPool, register: Register, way: str
) -> None:
    link = await pool.current(BOOKIE)
    if way == "link":
        await pool.link(BOOKIE)
    else:
        assert not await pool.moved(BOOKIE, link), "it was looked up a moment ago"
    assert register.asked == 1


@pytest.mark.parametrize("address", ["there", "here", None])
@played()
async def test_all_who_do_not_reach_a_bookie_share_one_look_up_and_what_came_of_it(
    pool: LinkPool, register: Register, address: str | None
) -> None:
    link = await pool.current(BOOKIE)
    await asyncio.sleep(LOOK_UP_EVERY_MS / 1_000)
    register.address = address
    first = [asyncio.ensure_future(pool.moved(BOOKIE, link)) for _ in range(3)]
    await asyncio.sleep(0.5)
    last = asyncio.ensure_future(pool.moved(BOOKIE, link))
    assert await asyncio.gather(*first, last) == [address == "there"] * 4
    assert register.asked == 2
    assert await pool.moved(BOOKIE, link) == (address == "there")
    assert register.asked == 2
