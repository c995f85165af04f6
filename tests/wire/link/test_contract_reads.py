"""How many reads are under way at once: the others wait, and no read fails for their number."""

import asyncio
import dataclasses
from collections.abc import Sequence

from tests.wire.link import worlds
from tests.wire.link.reference_bookie import Disk, ReferenceBookie
from tests.wire.link.worlds import BOOKIE, PATIENT, World, opened, played, read
from zonekeeper.placement.base.ids import EntryId
from zonekeeper.wire.contract import service
from zonekeeper.wire.contract.links import BookieLink, LinkSettings, OwnedLink
from zonekeeper.wire.formats import errors

#: Room for one of ``asked``.
ONE = dataclasses.replace(PATIENT, read_budget_bytes=1_000_000)


class Gated(ReferenceBookie):
    """Answers reads one by one, each when it is let."""

    def __init__(self, disk: Disk) -> None:
        super().__init__(BOOKIE, disk)
        self.gate = asyncio.Semaphore(0)
        self.came: list[EntryId] = []
        self.under_way = self.most = 0
        self._comes = asyncio.Event()

    async def has_come(self, count: int) -> None:
        while len(self.came) < count:
            self._comes.clear()
            await self._comes.wait()

    async def read(self, request: service.ReadRequest) -> service.ReadReply:
        self.came.append(request.first_entry_id)
        self._comes.set()
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await self.gate.acquire()
            return await super().read(request)
        finally:
            self.under_way -= 1


async def gated(world: World, settings: LinkSettings) -> tuple[Gated, OwnedLink]:
    """Put a gated bookie up, with three entries of ledger 7, and give a link to it."""
    await world.crash()
    world.bookie = bookie = Gated(world.disk)
    await world.start()
    link = world.link(settings)
    writer, lane, outcomes = await opened(link, 7)
    lane.append(writer.frame(b"zero", b"one", b"two"))
    await outcomes.all_of(1)
    return bookie, link


def asked(entry_id: int) -> service.ReadRequest:
    return read(7, entry_id, entry_id, bytes_max=600_000)


def beginning(world: World, link: BookieLink) -> list[asyncio.Task[service.ReadReply | Exception]]:
    """Begin to read the entries 0, 1 and 2, in this order; an error is a result."""

    async def one(entry_id: int) -> service.ReadReply | Exception:
        try:
            return await link.read(asked(entry_id))
        except errors.ProtocolError as error:
            return error

    return [world.tasks.create_task(one(entry_id)) for entry_id in range(3)]


def entry_ids(replies: Sequence[service.ReadReply | Exception]) -> list[int]:
    for reply in replies:
        assert isinstance(reply, service.ReadReply)
    return [
        entry_id
        for reply in replies
        if isinstance(reply, service.ReadReply)
        for frame in reply.frames
        for entry_id in frame.entry_ids
    ]


@played()
async def test_reads_wait_for_those_before_them_by_what_they_may_bring(world: World) -> None:
    bookie, link = await gated(world, ONE)
    reads = beginning(world, link)
    await bookie.has_come(1)
    await link.info()
    for _ in reads:
        bookie.gate.release()
    assert entry_ids(await asyncio.gather(*reads)) == [0, 1, 2]
    assert (bookie.came, bookie.most) == ([0, 1, 2], 1)


@played()
async def test_however_many_read_at_once_all_get_their_reply(world: World) -> None:
    link = world.link()
    writer, lane, outcomes = await opened(link, 7)
    lane.append(writer.frame(b"x"))
    await outcomes.all_of(1)
    large = read(7, 0, 0, bytes_max=2 << 20)
    replies = await asyncio.gather(*(link.read(large) for _ in range(200)))
    assert entry_ids(replies) == [0] * 200


@played()
async def test_a_cancelled_read_gives_its_place_to_the_next_whether_it_waited_or_not(
    world: World,
) -> None:
    bookie, link = await gated(world, ONE)
    under_way, waiting, last = beginning(world, link)
    await bookie.has_come(1)
    waiting.cancel()
    under_way.cancel()
    await bookie.has_come(2)
    bookie.gate.release()
    bookie.gate.release()
    assert entry_ids([await last]) == [2]
    assert bookie.came == [0, 2], "who did not wait any more was not asked for"


@played()
async def test_closing_a_link_ends_the_wait_of_reads(world: World) -> None:
    bookie, link = await gated(world, ONE)
    reads = beginning(world, link)
    await bookie.has_come(1)
    await link.close()
    sent, *waited = await asyncio.gather(*reads)
    assert isinstance(sent, errors.ConnectionLost)
    for error in waited:
        assert isinstance(error, errors.NotConnected)
        assert "the link was closed" in str(error)
    assert bookie.came == [0]


@played()
async def test_a_lost_connection_ends_the_wait_of_reads(world: World) -> None:
    bookie, link = await gated(world, ONE)
    reads = beginning(world, link)
    await bookie.has_come(1)
    await world.crash()
    sent, *waited = await asyncio.gather(*reads)
    assert isinstance(sent, errors.ConnectionLost)
    assert [type(error) for error in waited] == [errors.NotConnected] * 2


@worlds.played_on_twin()
async def test_the_deadline_of_a_read_begins_when_it_has_room(world: World) -> None:
    bookie, link = await gated(
        world, LinkSettings(read_budget_bytes=1_000_000, read_timeout_ms=1_000)
    )
    loop = asyncio.get_running_loop()
    start_s = loop.time()
    reads = beginning(world, link)
    late = await reads[0]
    assert isinstance(late, errors.Timeout)
    for count in (2, 3):
        await bookie.has_come(count)
        loop.call_later(0.9, bookie.gate.release)
        if count == 2:
            bookie.gate.release()  # for the answer that no caller waits for any more
        await reads[count - 1]
    assert entry_ids([await each for each in reads[1:]]) == [1, 2]
    assert 2.8 < loop.time() - start_s < 3
