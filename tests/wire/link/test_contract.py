"""What a link and a bookie promise each other, whatever carries the messages."""

import asyncio
import dataclasses
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from tests.wire.link.reference_bookie import ReferenceBookie
from tests.wire.link.worlds import BOOKIE, KEY, Outcomes, World, Writer, opened, played, read
from zonekeeper.placement.base.ids import NO_ENTRY, EntryId, LedgerId
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import digests, errors
from zonekeeper.wire.formats.frames import Flags, Frame
from zonekeeper.wire.formats.proofs import Shown

WRONG_KEY = digests.master_key(b"another password")


@played()
async def test_what_was_acked_is_read_back_byte_for_byte(world: World) -> None:
    link = world.link()
    writer, lane, outcomes = await opened(link, 7)
    frame = writer.frame(b"one", b"", b"x" * 100_000)
    assert lane.append(frame) == 0
    await outcomes.all_of(1)
    assert outcomes.acked_order == [0]
    reply = await link.read(read(7, 0, 2))
    assert reply.frames == (frame,)
    assert (reply.next_entry_id, reply.last_add_confirmed) == (3, NO_ENTRY)


@played()
async def test_the_bookie_hears_the_whole_opening(world: World) -> None:
    writer, lane, _ = await opened(world.link(), 7, first=5)
    assert world.disk.ledgers[writer.ledger_id].fragments == [
        dataclasses.replace(writer.opening(), first_entry_id=EntryId(5))
    ]
    assert lane.boot_epoch == world.bookie.boot_epoch == 1


@played()
async def test_acks_come_in_the_order_of_the_appends(world: World) -> None:
    writer, lane, outcomes = await opened(world.link(), 7)
    for _ in range(200):
        lane.append(writer.frame(b"x" * 10))
    await outcomes.all_of(200)
    assert outcomes.acked_order == list(range(200))


@played()
async def test_outcomes_are_never_delivered_from_within_append(world: World) -> None:
    writer, lane, outcomes = await opened(world.link(), 7)
    for number in range(5):
        lane.append(writer.frame(b"x"))
        assert outcomes.count == 0, number
    await outcomes.all_of(5)


@played()
async def test_many_ledgers_share_one_stream(world: World) -> None:
    link = world.link()
    all_opened = await asyncio.gather(*(opened(link, ledger) for ledger in range(50)))
    for number in range(4):
        for writer, lane, _ in all_opened:
            lane.append(writer.frame(b"%d" % number))
    for writer, _, outcomes in all_opened:
        await outcomes.all_of(4)
        assert outcomes.acked_order == [0, 1, 2, 3]
        assert len(world.disk.ledgers[writer.ledger_id].packets) == 4
    assert world.bookie.batches < 50, "frames of many ledgers came in few carriers"


@played()
async def test_a_frame_of_a_ledger_that_was_not_opened_is_refused_and_not_applied(
    world: World,
) -> None:
    world.limits = dataclasses.replace(world.limits, open_ledgers_max=1)
    await world.restart()
    link = world.link()
    writer, lane, outcomes = await opened(link, 1)
    await opened(link, 2)  # pushes ledger 1 out of the bookie's memory
    lane.append(writer.frame(b"x"))
    await outcomes.all_of(1)
    assert isinstance(outcomes.failures[0], errors.NotOpened)
    assert (outcomes.failures[0].retryable, outcomes.failures[0].maybe_applied) == (True, False)
    assert world.disk.ledgers[writer.ledger_id].packets == {}


@played()
async def test_the_wrong_key_opens_nothing_and_fences_nothing(world: World) -> None:
    link = world.link()
    writer, lane, outcomes = await opened(link, 7)
    with pytest.raises(errors.UnauthorizedAccess):
        await link.open_fragment(writer.opening(WRONG_KEY), Outcomes())
    with pytest.raises(errors.UnauthorizedAccess):
        await link.fence(LedgerId(7), WRONG_KEY)
    fencing = dataclasses.replace(read(7, 0, 0), fence_key=WRONG_KEY)
    with pytest.raises(errors.UnauthorizedAccess):
        await link.read(fencing)
    lane.append(writer.frame(b"still mine"))
    await outcomes.all_of(1)
    assert outcomes.acked_order == [0]


@played()
async def test_a_fence_stops_the_writer_but_not_recovery(world: World) -> None:
    link, other = world.link(), world.link()
    writer, lane, outcomes = await opened(link, 7)
    lane.append(writer.frame(b"zero", b"one"))
    await outcomes.all_of(1)
    evidence = await other.fence(LedgerId(7), KEY)
    assert evidence.explicit_lac is None
    assert evidence.last_entry == world.disk.ledgers[LedgerId(7)].packets[EntryId(1)]
    lane.append(writer.frame(b"two"))
    await outcomes.all_of(2)
    assert isinstance(outcomes.failures[1], errors.Fenced)
    recovery, recovery_lane, recovered = await opened(other, 7, first=2)
    recovery_lane.append(recovery.frame(b"two", flags=Flags.RECOVERY))
    await recovered.all_of(1)
    assert recovered.acked_order == [0]


@played()
async def test_a_read_with_the_key_fences(world: World) -> None:
    link = world.link()
    writer, lane, outcomes = await opened(link, 7)
    lane.append(writer.frame(b"x"))
    await outcomes.all_of(1)
    reply = await link.read(dataclasses.replace(read(7, 0, 3), fence_key=KEY))
    assert (len(reply.frames), reply.next_entry_id) == (1, 4)
    assert reply.last_add_confirmed is None
    lane.append(writer.frame(b"late"))
    await outcomes.all_of(2)
    assert isinstance(outcomes.failures[1], errors.Fenced)


@played()
async def test_the_same_entry_twice_is_fine_and_another_one_is_not(world: World) -> None:
    link = world.link()
    writer, lane, outcomes = await opened(link, 7)
    again, other = Writer(7), Writer(7)
    lane.append(writer.frame(b"x"))
    lane.append(again.frame(b"x"))
    lane.append(other.frame(b"y"))
    await outcomes.all_of(3)
    assert outcomes.acked_order == [0, 1]
    assert isinstance(outcomes.failures[2], errors.EntryMismatch)


@played()
async def test_a_refusal_between_acks_is_not_taken_for_one(world: World) -> None:
    link = world.link()
    writer, lane, outcomes = await opened(link, 7)
    lane.append(writer.frame(b"zero"))
    await outcomes.all_of(1)
    lane.append(writer.frame(b"one"))
    lane.append(Writer(7).frame(b"another zero"))
    lane.append(writer.frame(b"two"))
    await outcomes.all_of(4)
    assert outcomes.acked_order == [0, 1, 3]
    assert isinstance(outcomes.failures[2], errors.EntryMismatch)


@played()
async def test_a_quiet_writer_tells_its_lac(world: World) -> None:
    link = world.link()
    writer, lane, outcomes = await opened(link, 7)
    lane.append(writer.frame(b"x"))
    assert lane.write_lac(packet := writer.lac(0)) == 1
    await outcomes.all_of(2)
    assert outcomes.acked_order == [0, 1]
    assert (await link.read_lac(LedgerId(7))).explicit_lac == packet


@played()
async def test_a_tail_brings_confirmed_entries_as_they_come(world: World) -> None:
    async def news(
        updates: AsyncGenerator[service.TailUpdate, None],
    ) -> tuple[EntryId, tuple[Frame, ...]]:
        while not (update := await anext(updates)).frames:
            pass
        return update.last_add_confirmed, update.frames

    link = world.link()
    writer, lane, _ = await opened(link, 7)
    tail = service.TailRequest(
        ledger_id=LedgerId(7), first_entry_id=EntryId(0), bytes_max=1 << 20, quiet_ms=50
    )
    async with aclosing(world.link().tail(tail)) as updates:
        assert (await anext(updates)).frames == ()
        lane.append(zero_and_one := writer.frame(b"zero", b"one"))
        lane.append(two := writer.frame(b"two"))  # it says that one is confirmed
        assert await news(updates) == (1, (zero_and_one,))
        lane.write_lac(writer.lac(2))
        assert await news(updates) == (2, (two,))
        quiet = await anext(updates)
        assert (quiet.last_add_confirmed, quiet.frames) == (2, ())


@played()
async def test_a_tail_of_nothing_says_so(world: World) -> None:
    tail = service.TailRequest(
        ledger_id=LedgerId(7), first_entry_id=EntryId(0), bytes_max=1, quiet_ms=50
    )
    async with aclosing(world.link().tail(tail)) as updates:
        with pytest.raises(errors.NoSuchLedger):
            await anext(updates)


@played()
async def test_entries_are_listed_in_pages(world: World) -> None:
    link = world.link()
    writer, lane, outcomes = await opened(link, 7)
    lane.append(writer.frame(b"0", b"1"))
    writer.next = 5
    lane.append(writer.frame(b"5"))
    await outcomes.all_of(2)

    async def page(first: int) -> service.EntryRanges:
        return await link.list_entries(
            service.ListEntriesRequest(
                ledger_id=LedgerId(7), first_entry_id=EntryId(first), ranges_max=1
            )
        )

    assert await page(0) == service.EntryRanges(ranges=((EntryId(0), EntryId(1)),), complete=False)
    assert await page(2) == service.EntryRanges(ranges=((EntryId(5), EntryId(5)),), complete=True)
    assert await page(6) == service.EntryRanges(ranges=(), complete=True)


@played()
async def test_the_small_calls_arrive(world: World) -> None:
    link = world.link()
    assert (await link.info()).state is service.BookieState.WRITABLE
    await link.set_read_only(read_only=True)
    assert (await link.info()) == await world.bookie.info()
    await link.force(LedgerId(9))
    await link.end_limbo(LedgerId(8), 3)
    assert world.bookie.out_of_limbo == [(8, 3)]
    await link.compact(major=True)
    await link.compact(major=False)
    assert (world.bookie.forced, world.bookie.compactions) == ([9], [True, False])


@played()
async def test_an_error_keeps_its_class_and_its_words(world: World) -> None:
    link = world.link()
    for ask in (link.read_lac(LedgerId(404)), link.read(read(404, 0, 0))):
        with pytest.raises(errors.NoSuchLedger) as caught:
            await ask
        assert caught.value.detail == "ledger 404 was never here"


@pytest.mark.parametrize("number", [*errors.BY_NUMBER, 4_000_000_000])
@played()
async def test_every_error_number_crosses_the_wire(world: World, number: int) -> None:
    class Refuses(ReferenceBookie):
        async def force(self, ledger_id: LedgerId, key: Shown | None = None) -> None:
            raise errors.from_number(number, "because, and so on: ü")

        async def read(self, request: service.ReadRequest) -> service.ReadReply:
            raise errors.from_number(number, "because, and so on: ü")

    await world.crash()
    world.bookie = Refuses(BOOKIE, world.disk)
    await world.start()
    link = world.link()
    for ask in (link.force(LedgerId(1)), link.read(read(1, 0, 0))):
        with pytest.raises(errors.ProtocolError) as caught:
            await ask
        expected = errors.from_number(number, "")
        assert type(caught.value) is type(expected)
        assert (caught.value.code, caught.value.detail) == (number, "because, and so on: ü")


@played()
async def test_a_read_stops_at_its_bytes_and_goes_on_from_there(world: World) -> None:
    link = world.link()
    writer, lane, outcomes = await opened(link, 7)
    lane.append(writer.frame(*[b"x" * 1_000] * 10))
    await outcomes.all_of(1)
    heard: list[EntryId] = []
    while len(heard) < 10:
        reply = await link.read(read(7, len(heard), 9, bytes_max=3_500))
        heard += [number for frame in reply.frames for number in frame.entry_ids]
        assert reply.next_entry_id == len(heard)
    assert heard == list(range(10))


@played()
async def test_a_hundred_reads_at_once_find_their_replies(world: World) -> None:
    link = world.link()
    writer, lane, outcomes = await opened(link, 7)
    for _ in range(100):
        lane.append(writer.frame(b"%d" % writer.next))
    await outcomes.all_of(100)
    replies = await asyncio.gather(*(link.read(read(7, n, n, bytes_max=1_000)) for n in range(100)))
    assert [reply.frames[0].entry_ids[0] for reply in replies] == list(range(100))


@played()
async def test_entries_of_the_largest_size_pass(world: World) -> None:
    link = world.link()
    writer, lane, outcomes = await opened(link, 7)
    sent = [writer.frame(b"x" * (4 << 20)) for _ in range(3)]
    for frame in sent:
        lane.append(frame)
    await outcomes.all_of(3)
    assert outcomes.acked_order == [0, 1, 2]
    reply = await link.read(read(7, 0, 2, bytes_max=1 << 30))
    assert reply.frames[0].packet(EntryId(0)) == sent[0].packet(EntryId(0))
