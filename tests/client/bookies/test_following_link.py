"""Every request of every caller goes to the address where the bookie is now."""

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

import pytest

from tests.support import playing, virtual_time
from tests.wire.grpc.test_grpc_meant import LEDGER, QUESTIONS
from tests.wire.link.reference_bookie import Disk, ReferenceBookie
from tests.wire.link.worlds import opened
from zonekeeper.client.base.counters import ClientCounters
from zonekeeper.client.bookies.following_link import UNREACHED
from zonekeeper.client.bookies.link_pool import LOOK_UP_EVERY_MS, LinkPool
from zonekeeper.placement.base.ids import BookieId, EntryId
from zonekeeper.wire.contract import service
from zonekeeper.wire.contract.links import OwnedLink
from zonekeeper.wire.formats import errors
from zonekeeper.wire.host.serving import Host
from zonekeeper.wire.twin.twin import Network

BOOKIE = BookieId("bk-a-0")
NOBODY = BookieId("bk-z-0")
TAIL = service.TailRequest(
    ledger_id=LEDGER, first_entry_id=EntryId(0), bytes_max=1 << 20, quiet_ms=1_000
)


class Street:
    """A ``link_pool.LinkFactory``: a bookie stands at one address, and moves to the next."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.address = "0"
        self.refused: set[str] = set()

    async def find(self, bookie_id: BookieId) -> str | None:
        assert bookie_id == BOOKIE
        return self.address

    def make(self, bookie_id: BookieId, address: str) -> OwnedLink:
        return self.network.link(address, NOBODY if address in self.refused else bookie_id)

    async def leave(self, *, silently: bool) -> None:
        """Move the bookie to another address; the old one refuses, or stays silent."""
        old, self.address = self.address, str(int(self.address) + 1)
        if silently:
            self.network.cut(old, BOOKIE)
        await asyncio.sleep(LOOK_UP_EVERY_MS / 1_000)


async def error_of(asked: Awaitable[object]) -> errors.ProtocolError | None:
    try:
        await asked
    except errors.ProtocolError as error:
        return error
    return None


async def without_frames(updates: AsyncGenerator[service.TailUpdate, None]) -> None:
    """Hear that there is nothing new, until the tail ends."""
    async for update in updates:
        assert not update.frames


def play(scenario: Callable[[LinkPool, Street], Awaitable[None]]) -> None:
    async def staged() -> None:
        async with asyncio.TaskGroup() as tasks:
            network = Network(tasks=tasks, chance=random.Random(1))
            network.put_up(BOOKIE, Host(ReferenceBookie(BOOKIE, Disk())))
            street = Street(network)
            pool = LinkPool(street, ClientCounters())
            await scenario(pool, street)
            await pool.close()
            network.take_down(BOOKIE)

    virtual_time.run(staged())


played = playing.by(play, parts=2)


@pytest.mark.parametrize("silently", [False, True], ids=["refused", "silent"])
@pytest.mark.parametrize("name", QUESTIONS)
@played()
async def test_each_question_finds_a_bookie_where_it_is_now(
    pool: LinkPool, street: Street, name: str, *, silently: bool
) -> None:
    """Also over a link that a caller has had since before the bookie moved."""
    street.refused = set() if silently else {"0"}
    link = await pool.link(BOOKIE)
    await street.leave(silently=silently)
    assert not isinstance(await error_of(QUESTIONS[name](link)), UNREACHED)


@pytest.mark.parametrize("name", QUESTIONS)
@played()
async def test_a_bookie_that_has_not_moved_is_asked_once_and_its_error_is_told(
    pool: LinkPool, street: Street, name: str
) -> None:
    street.refused = {"0"}
    link = await pool.link(BOOKIE)
    before = await pool.current(BOOKIE)
    await asyncio.sleep(LOOK_UP_EVERY_MS / 1_000)
    assert isinstance(await error_of(QUESTIONS[name](link)), UNREACHED)
    assert await pool.current(BOOKIE) is before


@played()
async def test_a_tail_that_has_given_something_ends_and_the_next_one_begins_where_the_bookie_is(
    pool: LinkPool, street: Street
) -> None:
    link = await pool.link(BOOKIE)
    writer, lane, outcomes = await opened(link, LEDGER)
    lane.append(writer.frame(b"zero"))
    lane.append(writer.frame(b"one", confirmed=0))
    await outcomes.all_of(2)
    async with aclosing(link.tail(TAIL)) as updates:
        assert [frame.first for frame in (await anext(updates)).frames] == [0]
        await street.leave(silently=True)
        assert isinstance(await error_of(without_frames(updates)), UNREACHED)
    async with aclosing(link.tail(TAIL)) as updates:
        assert [frame.first for frame in (await anext(updates)).frames] == [0]
