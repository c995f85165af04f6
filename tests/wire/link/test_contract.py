"""What a link and a bookie promise each other, whatever carries the messages."""

import asyncio
import dataclasses
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

import pytest

from tests.wire.link import worlds
from tests.wire.link.reference_bookie import ReferenceBookie
from tests.wire.link.worlds import BOOKIE, KEY, Outcomes, World, Writer, opened, patiently
from zonekeeper.placement.ids import NO_ENTRY, EntryId, LedgerId
from zonekeeper.wire import carriers, digests, errors, service
from zonekeeper.wire.frames import Flags, Frame
from zonekeeper.wire.links import LinkSettings
from zonekeeper.wire.pipes import Pipe, StreamKind

Run = Callable[[Callable[[World], Awaitable[None]]], None]

WRONG_KEY = digests.master_key(b"another password")


@pytest.fixture(params=[worlds.TwinWorld, worlds.GrpcWorld], ids=["twin", "grpc"])
def run(request: pytest.FixtureRequest) -> Run:
    world: type[worlds.TwinWorld | worlds.GrpcWorld] = request.param
    return world.run


def read(ledger: int, first: int, last: int, bytes_max: int = 1 << 20) -> service.ReadRequest:
    return service.ReadRequest(
        ledger_id=LedgerId(ledger),
        first_entry_id=EntryId(first),
        last_entry_id=EntryId(last),
        bytes_max=bytes_max,
    )


def test_what_was_acked_is_read_back_byte_for_byte(run: Run) -> None:
    async def scenario(world: World) -> None:
        link = world.link()
        writer, lane, outcomes = await opened(link, 7)
        frame = writer.frame(b"one", b"", b"x" * 100_000)
        assert lane.append(frame) == 0
        await outcomes.all_of(1)
        assert outcomes.acked_order == [0]
        reply = await link.read(read(7, 0, 2))
        assert reply.frames == (frame,)
        assert (reply.next_entry_id, reply.last_add_confirmed) == (3, NO_ENTRY)

    run(scenario)


def test_the_bookie_hears_the_whole_opening(run: Run) -> None:
    async def scenario(world: World) -> None:
        writer, lane, _ = await opened(world.link(), 7, first=5)
        assert world.disk.ledgers[writer.ledger_id].fragments == [
            dataclasses.replace(writer.opening(), first_entry_id=EntryId(5))
        ]
        assert lane.boot_epoch == world.bookie.boot_epoch == 1

    run(scenario)


def test_acks_come_in_the_order_of_the_appends(run: Run) -> None:
    async def scenario(world: World) -> None:
        writer, lane, outcomes = await opened(world.link(), 7)
        for _ in range(200):
            lane.append(writer.frame(b"x" * 10))
        await outcomes.all_of(200)
        assert outcomes.acked_order == list(range(200))

    run(scenario)


def test_outcomes_are_never_delivered_from_within_append(run: Run) -> None:
    async def scenario(world: World) -> None:
        writer, lane, outcomes = await opened(world.link(), 7)
        for number in range(5):
            lane.append(writer.frame(b"x"))
            assert outcomes.count == 0, number
        await outcomes.all_of(5)

    run(scenario)


def test_many_ledgers_share_one_stream(run: Run) -> None:
    async def scenario(world: World) -> None:
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

    run(scenario)


def test_a_frame_of_a_ledger_that_was_not_opened_is_refused_and_not_applied(run: Run) -> None:
    async def scenario(world: World) -> None:
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

    run(scenario)


def test_the_wrong_key_opens_nothing_and_fences_nothing(run: Run) -> None:
    async def scenario(world: World) -> None:
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

    run(scenario)


def test_a_fence_stops_the_writer_but_not_recovery(run: Run) -> None:
    async def scenario(world: World) -> None:
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

    run(scenario)


def test_a_read_with_the_key_fences(run: Run) -> None:
    async def scenario(world: World) -> None:
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

    run(scenario)


def test_the_same_entry_twice_is_fine_and_another_one_is_not(run: Run) -> None:
    async def scenario(world: World) -> None:
        link = world.link()
        writer, lane, outcomes = await opened(link, 7)
        again, other = Writer(7), Writer(7)
        lane.append(writer.frame(b"x"))
        lane.append(again.frame(b"x"))
        lane.append(other.frame(b"y"))
        await outcomes.all_of(3)
        assert outcomes.acked_order == [0, 1]
        assert isinstance(outcomes.failures[2], errors.EntryMismatch)

    run(scenario)


def test_a_quiet_writer_tells_its_lac(run: Run) -> None:
    async def scenario(world: World) -> None:
        link = world.link()
        writer, lane, outcomes = await opened(link, 7)
        lane.append(writer.frame(b"x"))
        assert lane.write_lac(packet := writer.lac(0)) == 1
        await outcomes.all_of(2)
        assert outcomes.acked_order == [0, 1]
        assert (await link.read_lac(LedgerId(7))).explicit_lac == packet

    run(scenario)


def test_a_tail_brings_confirmed_entries_as_they_come(run: Run) -> None:
    async def scenario(world: World) -> None:
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

    async def news(
        updates: AsyncGenerator[service.TailUpdate, None],
    ) -> tuple[EntryId, tuple[Frame, ...]]:
        while not (update := await anext(updates)).frames:
            pass
        return update.last_add_confirmed, update.frames

    run(scenario)


def test_a_tail_of_nothing_says_so(run: Run) -> None:
    async def scenario(world: World) -> None:
        tail = service.TailRequest(
            ledger_id=LedgerId(7), first_entry_id=EntryId(0), bytes_max=1, quiet_ms=50
        )
        async with aclosing(world.link().tail(tail)) as updates:
            with pytest.raises(errors.NoSuchLedger):
                await anext(updates)

    run(scenario)


def test_entries_are_listed_in_pages(run: Run) -> None:
    async def scenario(world: World) -> None:
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

        assert await page(0) == service.EntryRanges(
            ranges=((EntryId(0), EntryId(1)),), complete=False
        )
        assert await page(2) == service.EntryRanges(
            ranges=((EntryId(5), EntryId(5)),), complete=True
        )
        assert await page(6) == service.EntryRanges(ranges=(), complete=True)

    run(scenario)


def test_the_small_calls_arrive(run: Run) -> None:
    async def scenario(world: World) -> None:
        link = world.link()
        assert (await link.info()).state is service.BookieState.WRITABLE
        await link.set_read_only(read_only=True)
        assert (await link.info()) == await world.bookie.info()
        await link.force(LedgerId(9))
        await link.compact(major=True)
        await link.compact(major=False)
        assert (world.bookie.forced, world.bookie.compactions) == ([9], [True, False])

    run(scenario)


def test_an_error_keeps_its_class_and_its_words(run: Run) -> None:
    async def scenario(world: World) -> None:
        link = world.link()
        for ask in (link.read_lac(LedgerId(404)), link.read(read(404, 0, 0))):
            with pytest.raises(errors.NoSuchLedger) as caught:
                await ask
            assert caught.value.detail == "ledger 404 was never here"

    run(scenario)


@pytest.mark.parametrize("number", [*errors.BY_NUMBER, 4_000_000_000])
def test_every_error_number_crosses_the_wire(run: Run, number: int) -> None:
    class Refuses(ReferenceBookie):
        async def force(self, ledger_id: LedgerId) -> None:
            raise errors.from_number(number, "because, and so on: ü")

        async def read(self, request: service.ReadRequest) -> service.ReadReply:
            raise errors.from_number(number, "because, and so on: ü")

    async def scenario(world: World) -> None:
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

    run(scenario)


def test_a_read_stops_at_its_bytes_and_goes_on_from_there(run: Run) -> None:
    async def scenario(world: World) -> None:
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

    run(scenario)


def test_a_hundred_reads_at_once_find_their_replies(run: Run) -> None:
    async def scenario(world: World) -> None:
        link = world.link()
        writer, lane, outcomes = await opened(link, 7)
        for _ in range(100):
            lane.append(writer.frame(b"%d" % writer.next))
        await outcomes.all_of(100)
        replies = await asyncio.gather(
            *(link.read(read(7, n, n, bytes_max=1_000)) for n in range(100))
        )
        assert [reply.frames[0].entry_ids[0] for reply in replies] == list(range(100))

    run(scenario)


def test_entries_of_the_largest_size_pass(run: Run) -> None:
    async def scenario(world: World) -> None:
        link = world.link()
        writer, lane, outcomes = await opened(link, 7)
        sent = [writer.frame(b"x" * (4 << 20)) for _ in range(3)]
        for frame in sent:
            lane.append(frame)
        await outcomes.all_of(3)
        assert outcomes.acked_order == [0, 1, 2]
        reply = await link.read(read(7, 0, 2, bytes_max=1 << 30))
        assert reply.frames[0].packet(EntryId(0)) == sent[0].packet(EntryId(0))

    run(scenario)


def test_a_slow_bookie_is_held_back_by_its_budget(run: Run) -> None:
    async def scenario(world: World) -> None:
        world.bookie.held = True
        link = world.link(LinkSettings(budget_bytes=1 << 20, append_timeout_ms=60_000))
        writer, lane, outcomes = await opened(link, 7)
        frames = [writer.frame(b"x" * 10_000) for _ in range(105)]
        for frame in frames[:104]:
            lane.append(frame)
        with pytest.raises(errors.TooManyRequests) as caught:
            lane.append(frames[104])
        assert (caught.value.retryable, caught.value.maybe_applied) == (True, False)
        assert outcomes.rooms == 0
        world.bookie.release()
        await outcomes.until(lambda: outcomes.rooms == 1)
        lane.append(frames[104])
        await outcomes.all_of(105)
        assert outcomes.acked_order == list(range(105))

    run(scenario)


def test_reads_are_held_back_by_what_they_may_bring(run: Run) -> None:
    async def scenario(world: World) -> None:
        link = world.link(LinkSettings(read_budget_bytes=1_000_000))
        writer, lane, outcomes = await opened(link, 7)
        lane.append(writer.frame(b"x"))
        await outcomes.all_of(1)
        asked = read(7, 0, 0, bytes_max=600_000)
        both = await asyncio.gather(link.read(asked), link.read(asked), return_exceptions=True)
        assert isinstance(both[0], service.ReadReply)
        assert isinstance(both[1], errors.TooManyRequests)
        assert isinstance(await link.read(asked), service.ReadReply), "there is room again"

    run(scenario)


def test_a_host_reads_no_further_than_its_bytes(run: Run) -> None:
    async def scenario(world: World) -> None:
        world.limits = dataclasses.replace(world.limits, append_bytes_max=100_000)
        await world.restart()
        world.bookie.held = True
        writer, lane, outcomes = await opened(world.link(LinkSettings(append_timeout_ms=200)), 7)
        for _ in range(30):
            lane.append(writer.frame(b"x" * 1_000_000))
        await outcomes.all_of(30)
        assert isinstance(outcomes.failures[0], errors.Timeout)
        assert world.bookie.waiting == 1
        world.bookie.release()

    run(scenario)


def test_a_lost_connection_gives_every_frame_one_outcome(run: Run) -> None:
    async def scenario(world: World) -> None:
        world.bookie.held = True
        writer, lane, outcomes = await opened(world.link(), 7)
        sent = [lane.append(writer.frame(b"x" * 200_000)) for _ in range(100)]
        await world.bookie.has_taken_in()
        await world.crash()
        await outcomes.all_of(len(sent))
        assert outcomes.acked_order == []
        unknown = [n for n, error in outcomes.failures.items() if error.maybe_applied]
        refused = [n for n, error in outcomes.failures.items() if not error.maybe_applied]
        assert unknown
        assert refused
        assert sorted(unknown + refused) == sent
        assert max(unknown) < min(refused), "what was never sent is known not to be there"
        assert {type(outcomes.failures[n]) for n in unknown} == {errors.ConnectionLost}
        assert {type(outcomes.failures[n]) for n in refused} == {errors.NotConnected}
        assert not lane.alive
        with pytest.raises(errors.NotOpened):
            lane.append(writer.frame(b"x"))

    run(scenario)


def test_a_restarted_bookie_takes_frames_once_the_fragment_is_opened_again(run: Run) -> None:
    async def scenario(world: World) -> None:
        link = world.link(LinkSettings(back_off_first_ms=10, back_off_max_ms=50))
        writer, lane, outcomes = await opened(link, 7)
        lane.append(writer.frame(b"before"))
        await outcomes.all_of(1)
        world.bookie.held = True
        lane.append(writer.frame(b"lost"))
        await world.crash()
        await outcomes.all_of(2)
        with pytest.raises(errors.NotConnected) as caught:
            await opened(link, 7)
        assert (caught.value.retryable, caught.value.maybe_applied) == (True, False)
        world.bookie = ReferenceBookie(BOOKIE, world.disk)
        await world.start()
        _, again, new = await patiently(link, 7, first=1)
        with pytest.raises(errors.NotOpened):
            lane.append(writer.frame(b"x"))
        again.append(Writer(7, first=1).frame(b"after"))
        await new.all_of(1)
        assert (again.boot_epoch, lane.boot_epoch) == (2, 1)
        assert sorted(world.disk.ledgers[LedgerId(7)].packets) == [0, 1]

    run(scenario)


def test_while_it_backs_off_a_link_refuses_at_once(run: Run) -> None:
    async def scenario(world: World) -> None:
        await world.crash()
        link = world.link(LinkSettings(back_off_first_ms=60_000, back_off_max_ms=60_000))
        loop = asyncio.get_running_loop()
        with pytest.raises(errors.NotConnected):
            await opened(link, 7)
        before = loop.time()
        with pytest.raises(errors.NotConnected, match="the next one may be made in"):
            await opened(link, 7)
        if isinstance(world, worlds.TwinWorld):
            assert loop.time() == before

    run(scenario)


def test_an_answer_that_does_not_come_is_unknown(run: Run) -> None:
    async def scenario(world: World) -> None:
        world.bookie.held = True
        link = world.link(LinkSettings(append_timeout_ms=100))
        writer, lane, outcomes = await opened(link, 7)
        sent = [lane.append(writer.frame(b"x" * 400_000)) for _ in range(20)]
        await outcomes.all_of(len(sent))
        kinds = {type(error) for error in outcomes.failures.values()}
        assert isinstance(outcomes.failures[0], errors.Timeout)
        assert kinds <= {errors.Timeout, errors.TooManyRequests}
        world.bookie.release()
        lane.append(writer.frame(b"y"))
        await outcomes.until(lambda: bool(outcomes.acked_order))
        assert outcomes.acked_order == [20], "late acks changed nothing"
        applied = world.disk.ledgers[LedgerId(7)].packets.keys()
        assert not [n for n in applied if n < 20 and not outcomes.failures[n].maybe_applied]

    run(scenario)


def test_a_closed_lane_fails_what_was_not_sent_and_keeps_the_rest(run: Run) -> None:
    async def scenario(world: World) -> None:
        link = world.link()
        writer, lane, outcomes = await opened(link, 7)
        lane.append(writer.frame(b"sent"))
        await outcomes.all_of(1)
        lane.append(writer.frame(b"not sent"))
        lane.close()
        assert isinstance(outcomes.failures[1], errors.NotOpened)
        with pytest.raises(errors.NotOpened):
            lane.append(writer.frame(b"x"))

    run(scenario)


def test_cancelling_a_caller_breaks_nothing(run: Run) -> None:
    async def scenario(world: World) -> None:
        link = world.link()
        opening = asyncio.ensure_future(opened(link, 7))
        await asyncio.sleep(0)
        opening.cancel()
        writer, lane, outcomes = await opened(link, 7)
        lane.append(writer.frame(b"x"))
        await outcomes.all_of(1)
        reading = asyncio.ensure_future(link.read(read(7, 0, 0)))
        calling = asyncio.ensure_future(link.read_lac(LedgerId(7)))
        await asyncio.sleep(0)
        reading.cancel()
        calling.cancel()
        assert len((await link.read(read(7, 0, 0))).frames) == 1
        assert outcomes.acked_order == [0]
        assert opening.cancelled()
        assert reading.cancelled()

    run(scenario)


def test_closing_a_link_fails_everything_outstanding(run: Run) -> None:
    forcing, reading = asyncio.Event(), asyncio.Event()

    class NeverAnswers(ReferenceBookie):
        async def force(self, ledger_id: LedgerId) -> None:
            forcing.set()
            await asyncio.Event().wait()

        async def read(self, request: service.ReadRequest) -> service.ReadReply:
            reading.set()
            await asyncio.Event().wait()
            return await super().read(request)

    async def scenario(world: World) -> None:
        await world.crash()
        world.bookie = NeverAnswers(BOOKIE, world.disk)
        world.bookie.held = True
        await world.start()
        link = world.link()
        writer, lane, outcomes = await opened(link, 7)
        lane.append(writer.frame(b"x"))
        waiting = [
            asyncio.ensure_future(link.force(LedgerId(7))),
            asyncio.ensure_future(link.read(read(7, 0, 0))),
        ]
        await world.bookie.has_taken_in()
        await asyncio.gather(forcing.wait(), reading.wait())
        await link.close()
        for asked in waiting:
            with pytest.raises(errors.ConnectionLost):
                await asked
        assert isinstance(outcomes.failures[0], errors.ConnectionLost)
        with pytest.raises(errors.NotConnected):
            await link.read(read(7, 0, 0))
        with pytest.raises(errors.NotConnected):
            await link.info()

    run(scenario)


def test_a_bookie_forgets_a_stream_whose_client_has_gone(run: Run) -> None:
    async def scenario(world: World) -> None:
        world.bookie.held = True
        link = world.link()
        writer, lane, _ = await opened(link, 7)
        lane.append(writer.frame(b"x"))
        await world.bookie.has_taken_in()
        await link.close()
        await world.host.stream_ended.wait()
        assert world.host._append_streams == {}
        world.bookie.release()  # answers to nobody are harmless
        _, _, outcomes = again = await opened(world.link(), 7)
        again[1].append(Writer(7).frame(b"x"))
        await outcomes.all_of(1)
        assert outcomes.acked_order == [0]

    run(scenario)


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (b"nonsense", errors.BadRequest),
        (carriers.build([carriers.Acked(number=0, last=0)]), errors.BadRequest),
        (
            carriers.build(
                [
                    carriers.WriteLac(number=n, ledger_id=LedgerId(1), packet=Writer(1).lac(0))
                    for n in (5, 5)
                ]
            ),
            errors.BadRequest,
        ),
    ],
    ids=["no carrier", "wrong item", "numbers do not ascend"],
)
def test_who_breaks_the_rules_loses_the_stream_and_others_do_not_notice(
    run: Run, message: bytes, kind: type[errors.ProtocolError]
) -> None:
    async def to_the_end(pipe: Pipe) -> None:
        while await pipe.receive() is not None:
            pass

    async def scenario(world: World) -> None:
        writer, lane, outcomes = await opened(world.link(), 7)
        pipe = world.link()._transport.stream(StreamKind.APPEND)
        await pipe.receive()
        await pipe.send(message)
        with pytest.raises(kind):
            await to_the_end(pipe)
        pipe.cancel()
        lane.append(writer.frame(b"x"))
        await outcomes.all_of(1)
        assert outcomes.acked_order == [0]

    run(scenario)
