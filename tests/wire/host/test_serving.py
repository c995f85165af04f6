"""The host's half of a stream, with more on it than any client of ours would send."""

import asyncio
import dataclasses
from collections.abc import Sequence

from tests.support import virtual_time
from tests.support.turned import Turned
from tests.wire.link.reference_bookie import Disk, ReferenceBookie
from tests.wire.link.worlds import BOOKIE, Writer
from zonekeeper.placement.base.ids import BookieId, EntryId
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import carriers, digests, errors, openings
from zonekeeper.wire.host.host_limits import HostLimits
from zonekeeper.wire.host.serving import Host


class ByHand:
    """A pipe whose other end is a test."""

    def __init__(self) -> None:
        self.coming: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.sent: asyncio.Queue[bytes] = asyncio.Queue()

    async def send(self, message: bytes) -> None:
        self.sent.put_nowait(message)

    async def receive(self) -> bytes | None:
        return await self.coming.get()

    def put(self, *items: carriers.Item) -> None:
        """Let a carrier come."""
        self.coming.put_nowait(carriers.build(items))

    async def answers(self) -> tuple[carriers.Item, ...]:
        """Wait for the next carrier that was sent."""
        return carriers.parse(await self.sent.get())


@virtual_time.played
async def test_acks_of_more_than_one_item_may_tell_are_told_in_several() -> None:
    count = carriers.ACKED_MAX + 10
    bookie, pipe, writer = ReferenceBookie(BOOKIE, Disk()), ByHand(), Writer(7)
    host = Host(bookie)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(host.serve_appends(pipe))
        assert await pipe.answers() == (carriers.Hello(boot_epoch=1),)
        pipe.put(carriers.Open(number=0, opening=writer.opening()))
        assert await pipe.answers() == (carriers.Acked(number=0, last=0),)
        bookie.held = True
        lac = writer.lac(-1)
        items = [
            carriers.WriteLac(number=1 + n, ledger_id=writer.ledger_id, packet=lac)
            for n in range(count)
        ]
        for start in range(0, count, carriers.ITEMS_MAX):
            pipe.put(*items[start : start + carriers.ITEMS_MAX])
        await asyncio.sleep(1)
        assert bookie.waiting == count
        bookie.release()
        told = 1
        while told <= count:
            for item in await pipe.answers():
                assert isinstance(item, carriers.Acked)
                assert item.number == told
                told = item.last + 1
        pipe.coming.put_nowait(None)


@virtual_time.played
async def test_a_frame_beside_its_opening_came_before_the_right_to_write_was_proven() -> None:
    bookie, pipe = ReferenceBookie(BOOKIE, Disk()), ByHand()
    first, second = Writer(7), Writer(7)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(Host(bookie).serve_appends(pipe))
        await pipe.answers()
        pipe.put(
            carriers.Open(number=0, opening=first.opening()),
            carriers.Append(number=1, frame=first.frame(b"x")),
        )
        answers = [*await pipe.answers(), *await pipe.answers()]
        refused = next(item for item in answers if isinstance(item, carriers.Refused))
        assert (refused.number, refused.code) == (1, errors.NotOpened("").code)
        assert carriers.Acked(number=0, last=0) in answers

        pipe.put(carriers.Append(number=2, frame=second.frame(b"x")))
        assert await pipe.answers() == (carriers.Acked(number=2, last=2),)
        pipe.coming.put_nowait(None)


@virtual_time.played
async def test_an_opening_that_was_refused_opens_nothing() -> None:
    bookie, pipe, writer = ReferenceBookie(BOOKIE, Disk()), ByHand(), Writer(7)
    await bookie.fence(writer.ledger_id, digests.master_key(b"another password"))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(Host(bookie).serve_appends(pipe))
        await pipe.answers()
        pipe.put(carriers.Open(number=0, opening=writer.opening()))
        (refused,) = await pipe.answers()
        pipe.put(carriers.Append(number=1, frame=writer.frame(b"x")))
        (not_opened,) = await pipe.answers()
        codes = [errors.UnauthorizedAccess("").code, errors.NotOpened("").code]
        assert isinstance(refused, carriers.Refused)
        assert isinstance(not_opened, carriers.Refused)
        assert [refused.code, not_opened.code] == codes
        pipe.coming.put_nowait(None)


@virtual_time.played
async def test_a_ledger_that_is_forgotten_must_be_opened_again_on_every_stream() -> None:
    """One stream has it open already; on the other its opening is still on the way to the disk."""
    bookie = ReferenceBookie(BOOKIE, Disk())
    pipes, writer = (ByHand(), ByHand()), Writer(7)
    host = Host(bookie)
    async with asyncio.TaskGroup() as tasks:
        for pipe in pipes:
            tasks.create_task(host.serve_appends(pipe))
            await pipe.answers()
            pipe.put(carriers.Open(number=0, opening=writer.opening()))
            await asyncio.sleep(1)
            bookie.held = True
        host.forgotten(writer.ledger_id)
        bookie.release()
        for pipe in pipes:
            assert await pipe.answers() == (carriers.Acked(number=0, last=0),)
            pipe.put(carriers.Append(number=1, frame=writer.frame(b"x")))
            (refused,) = await pipe.answers()
            assert isinstance(refused, carriers.Refused)
            assert refused.code == errors.NotOpened("").code
            pipe.put(carriers.Open(number=2, opening=writer.opening()))
            assert await pipe.answers() == (carriers.Acked(number=2, last=2),)
            pipe.coming.put_nowait(None)


class SlowDisk(ReferenceBookie):
    """A bookie that has answered nothing yet."""

    taken_bytes = 0

    def append(self, items: Sequence[carriers.Request], replies: service.Replies) -> None:
        for item in items:
            assert isinstance(item, carriers.Open)
            self.taken_bytes += len(openings.spell(item.opening))


@virtual_time.played
async def test_openings_without_an_answer_are_bounded_by_what_they_hold() -> None:
    limit, each, count = 1 << 20, 60_000, 40
    names = (BookieId("b" * 20_000),) * 3
    bookie, pipe = SlowDisk(BOOKIE, Disk()), ByHand()
    opening = dataclasses.replace(Writer(7).opening(), ensemble=names)
    host = Host(bookie, HostLimits(append_bytes_max=limit))
    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(host.serve_appends(pipe))
        for number in range(count):
            pipe.put(carriers.Open(number=number, opening=opening))
        await asyncio.sleep(1)
        assert limit < bookie.taken_bytes < limit + 2 * each
        assert pipe.coming.qsize() > count / 2, "the rest is left to the network"
        serving.cancel()


class Taking:
    """A pipe of a reader that wants much and takes it; notes the turn in which each answer left."""

    def __init__(self, question: bytes, left: "asyncio.Queue[int]", turns: Turned) -> None:
        self._question: bytes | None = question
        self._left = left
        self._turns = turns
        self._greeted = False

    async def send(self, message: bytes) -> None:
        if self._greeted:
            self._left.put_nowait(self._turns.count)
        self._greeted = True

    async def receive(self) -> bytes | None:
        if self._question is None:
            await asyncio.Event().wait()
        question, self._question = self._question, None
        return question


def test_of_many_readers_who_catch_up_one_is_answered_in_a_turn_and_an_ack_between() -> None:
    readers = 40

    async def scenario() -> None:
        bookie, writing, writer = ReferenceBookie(BOOKIE, Disk()), ByHand(), Writer(7)
        host, left = Host(bookie), asyncio.Queue[int]()
        question = carriers.Read(
            number=0,
            ledger_id=writer.ledger_id,
            first=EntryId(0),
            last=EntryId(0),
            max_bytes=1 << 20,
        )
        turns = Turned()
        async with asyncio.TaskGroup() as tasks:
            appends = tasks.create_task(host.serve_appends(writing))
            await writing.answers()
            writing.put(carriers.Open(number=0, opening=writer.opening()))
            await writing.answers()
            writing.put(carriers.Append(number=1, frame=writer.frame(bytes(1_000_000))))
            await writing.answers()
            pipes = [Taking(carriers.build([question]), left, turns) for _ in range(readers)]
            reads = [tasks.create_task(host.serve_reads(pipe)) for pipe in pipes]
            found = [await left.get()]
            writing.put(carriers.Append(number=2, frame=writer.frame(b"x")))
            await writing.answers()
            before_the_ack = 1 + left.qsize()
            while len(found) < readers:
                found.append(await left.get())
            turns.stop()
            for task in (appends, *reads):
                task.cancel()
        assert len(set(found)) == readers, "no two answers in one turn"
        assert before_the_ack < readers // 2, "the ack came between the answers"

    asyncio.run(scenario())


class Collected:
    """An outlet that always has room, and keeps what is put."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.has_room = True

    def put(self, message: bytes) -> None:
        self.messages.append(message)

    def hold(self) -> None:
        raise AssertionError("there is room")

    def go_on(self) -> None:
        raise AssertionError("nothing was held")


@virtual_time.played
async def test_after_its_end_a_stream_says_nothing_more() -> None:
    bookie, outlet, writer = ReferenceBookie(BOOKIE, Disk()), Collected(), Writer(7)
    with Host(bookie).appending(outlet, 1) as inlet:
        inlet.taken(carriers.build([carriers.Open(number=0, opening=writer.opening())]))
        await asyncio.sleep(1)
        bookie.held = True
        inlet.taken(carriers.build([carriers.Append(number=1, frame=writer.frame(b"x"))]))
        await asyncio.sleep(1)
        assert len(outlet.messages) == 2, "a Hello, and the opening's ack"
    bookie.release()
    await asyncio.sleep(1)
    assert len(outlet.messages) == 2


@virtual_time.played
async def test_acks_wait_while_there_is_no_room_and_leave_when_there_is() -> None:
    bookie, outlet, writer = ReferenceBookie(BOOKIE, Disk()), Collected(), Writer(7)
    with Host(bookie).appending(outlet, 1) as inlet:
        inlet.taken(carriers.build([carriers.Open(number=0, opening=writer.opening())]))
        await asyncio.sleep(1)
        outlet.has_room = False
        for number in (1, 2):
            frame = writer.frame(b"x")
            inlet.taken(carriers.build([carriers.Append(number=number, frame=frame)]))
            await asyncio.sleep(1)
        assert len(outlet.messages) == 2
        outlet.has_room = True
        inlet.has_room_again()
        (*_, last) = outlet.messages
        assert carriers.parse(last) == (carriers.Acked(number=1, last=2),)
