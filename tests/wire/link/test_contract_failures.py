"""What a link and a bookie promise each other when something is slow, lost or wrong."""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from tests.wire.link import worlds
from tests.wire.link.reference_bookie import ReferenceBookie
from tests.wire.link.worlds import BOOKIE, PATIENT, World, Writer, opened, patiently, played, read
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.contract import service
from zonekeeper.wire.contract.pipes import Pipe, StreamKind
from zonekeeper.wire.formats import carriers, errors, versions
from zonekeeper.wire.formats.frames import Frame
from zonekeeper.wire.formats.proofs import Shown


@played()
async def test_a_slow_bookie_is_held_back_by_its_budget(world: World) -> None:
    world.bookie.held = True
    link = world.link(dataclasses.replace(PATIENT, budget_bytes=1 << 20))
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


@played()
async def test_a_reply_that_fits_no_message_is_cut_and_goes_on_in_the_next(world: World) -> None:
    class GivesAll(ReferenceBookie):
        async def read(self, request: service.ReadRequest) -> service.ReadReply:
            return service.ReadReply(
                frames=tuple(sent[request.first_entry_id :]),
                next_entry_id=EntryId(len(sent)),
                last_add_confirmed=EntryId(0),
            )

    sent = [Writer(7, first=number).frame(b"x" * 3_000_000) for number in range(5)]
    await world.crash()
    world.bookie = GivesAll(BOOKIE, world.disk)
    await world.start()
    link = world.link()
    heard: list[Frame] = []
    for following in (2, 4, 5):
        reply = await link.read(read(7, len(heard), 4))
        heard += reply.frames
        assert reply.next_entry_id == len(heard) == following
    assert heard == sent


@played()
async def test_a_host_carries_out_only_so_many_reads_at_once(world: World) -> None:
    class Counts(ReferenceBookie):
        now = most = 0

        async def read(self, request: service.ReadRequest) -> service.ReadReply:
            self.now += 1
            self.most = max(self.most, self.now)
            await asyncio.sleep(0)
            self.now -= 1
            return await super().read(request)

    world.limits = dataclasses.replace(world.limits, reads_max=3)
    await world.crash()
    world.bookie = bookie = Counts(BOOKIE, world.disk)
    await world.start()
    link = world.link()
    writer, lane, outcomes = await opened(link, 7)
    lane.append(writer.frame(b"x"))
    await outcomes.all_of(1)
    asked = read(7, 0, 0, bytes_max=100)
    replies = await asyncio.gather(*(link.read(asked) for _ in range(40)))
    assert all(reply.frames for reply in replies)
    assert bookie.most == 3


async def flood(pipe: Pipe) -> None:
    """Send what is refused, and never look at the answers, until the stream ends.

    A cancelled call of this may end the stream instead: gRPC takes the cancelling of a write for
    that.
    """
    packet, sent = Writer(1).lac(0), 0
    with contextlib.suppress(errors.ConnectionLost):
        while True:
            numbers = range(sent, sent + 4_000)
            await pipe.send(
                carriers.build(
                    (
                        carriers.WriteLac(number=number, ledger_id=LedgerId(1), packet=packet)
                        for number in numbers
                    ),
                    versions.SPOKEN.highest,
                )
            )
            sent += len(numbers)


@played()
async def test_who_does_not_take_answers_is_not_heard_further(world: World) -> None:
    world.limits = dataclasses.replace(world.limits, answers_max=1_000)
    await world.restart()
    pipe = world.link()._transport.stream(StreamKind.APPEND)
    await pipe.receive()
    (counted,) = world.host.pipes
    flooding = world.tasks.create_task(flood(pipe))
    await counted.until_waiting(1_000)
    await asyncio.wait([flooding], timeout=0.3)
    assert not flooding.done()
    assert counted.waiting < 5_000, "a carrier above the limit, and no more"
    flooding.cancel()
    await asyncio.wait([flooding])
    pipe.cancel()


@pytest.mark.parametrize(
    ("confirmed", "first"), [(0, 0), (5, 1)], ids=["not confirmed", "before what was asked for"]
)
@played()
async def test_a_tail_takes_nothing_that_it_should_not_see(
    world: World, confirmed: int, first: int
) -> None:
    class Blabs(ReferenceBookie):
        async def tail(
            self, request: service.TailRequest
        ) -> AsyncGenerator[service.TailUpdate, None]:
            frame = Writer(7, first=first).frame(b"one", b"two")
            yield service.TailUpdate(last_add_confirmed=EntryId(confirmed), frames=(frame,))

    await world.crash()
    world.bookie = Blabs(BOOKIE, world.disk)
    await world.start()
    tail = service.TailRequest(
        ledger_id=LedgerId(7), first_entry_id=EntryId(2 * first), bytes_max=1, quiet_ms=50
    )
    async with aclosing(world.link().tail(tail)) as updates:
        with pytest.raises(errors.BadRequest):
            await anext(updates)


@played()
async def test_a_host_reads_no_further_than_its_bytes(world: World) -> None:
    world.limits = dataclasses.replace(world.limits, append_bytes_max=100_000)
    await world.restart()
    world.bookie.held = True
    writer, lane, outcomes = await opened(world.link(), 7)
    for _ in range(8):  # each in a carrier of its own
        lane.append(writer.frame(b"x" * 2_500_000))
    await world.bookie.has_taken_in()
    answered = world.tasks.create_task(outcomes.all_of(8))
    await asyncio.wait([answered], timeout=0.3)
    assert world.bookie.waiting == 1
    world.bookie.release()
    await answered
    assert outcomes.acked_order == list(range(8))


@played()
async def test_a_lost_connection_gives_every_frame_one_outcome(world: World) -> None:
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


@played()
async def test_a_restarted_bookie_takes_frames_once_the_fragment_is_opened_again(
    world: World,
) -> None:
    link = world.link(dataclasses.replace(PATIENT, back_off_first_ms=10, back_off_max_ms=50))
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


@played()
async def test_while_it_backs_off_a_link_refuses_at_once(world: World) -> None:
    await world.crash()
    hour_ms = 3_600_000
    link = world.link(
        dataclasses.replace(PATIENT, back_off_first_ms=hour_ms, back_off_max_ms=hour_ms)
    )
    loop = asyncio.get_running_loop()
    with pytest.raises(errors.NotConnected):
        await opened(link, 7)
    before = loop.time()
    with pytest.raises(errors.NotConnected, match="the next one may be made in"):
        await opened(link, 7)
    if isinstance(world, worlds.TwinWorld):
        assert loop.time() == before


@played()
async def test_an_answer_that_does_not_come_is_unknown(world: World) -> None:
    world.bookie.held = True
    link = world.link(dataclasses.replace(PATIENT, append_timeout_ms=300))
    writer, lane, outcomes = await patiently(link, 7)
    sent = [lane.append(writer.frame(b"x" * 400_000)) for _ in range(20)]
    await outcomes.all_of(len(sent))
    kinds = {type(error) for error in outcomes.failures.values()}
    assert isinstance(outcomes.failures[0], errors.Timeout)
    assert kinds <= {errors.Timeout, errors.TooManyRequests}
    world.bookie.release()
    number = await worlds.acked_in_time(writer, lane, outcomes)
    assert outcomes.acked_order == [number], "late acks changed nothing"
    applied = world.disk.ledgers[LedgerId(7)].packets.keys()
    assert not [n for n in applied if n < 20 and not outcomes.failures[n].maybe_applied]


@played()
async def test_a_closed_lane_fails_what_was_not_sent_and_keeps_the_rest(world: World) -> None:
    link = world.link()
    writer, lane, outcomes = await opened(link, 7)
    lane.append(writer.frame(b"sent"))
    await outcomes.all_of(1)
    lane.append(writer.frame(b"not sent"))
    lane.close()
    assert isinstance(outcomes.failures[1], errors.NotOpened)
    with pytest.raises(errors.NotOpened):
        lane.append(writer.frame(b"x"))


@played()
async def test_cancelling_a_caller_breaks_nothing(world: World) -> None:
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


@played()
async def test_closing_a_link_fails_everything_outstanding(world: World) -> None:
    forcing, reading = asyncio.Event(), asyncio.Event()

    class NeverAnswers(ReferenceBookie):
        async def force(self, ledger_id: LedgerId, key: Shown | None = None) -> None:
            forcing.set()
            await asyncio.Event().wait()

        async def read(self, request: service.ReadRequest) -> service.ReadReply:
            reading.set()
            await asyncio.Event().wait()
            return await super().read(request)

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


@played()
async def test_a_bookie_forgets_a_stream_whose_client_has_gone(world: World) -> None:
    world.bookie.held = True
    link = world.link()
    writer, lane, _ = await opened(link, 7)
    lane.append(writer.frame(b"x"))
    await world.bookie.has_taken_in()
    await link.close()
    await world.host.stream_ended.wait()
    world.bookie.release()  # answers without a caller are harmless
    _, _, outcomes = again = await opened(world.link(), 7)
    again[1].append(Writer(7).frame(b"x"))
    await outcomes.all_of(1)
    assert outcomes.acked_order == [0]


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (b"nonsense", errors.BadRequest),
        (
            carriers.build([carriers.Acked(number=0, last=0)], versions.SPOKEN.highest),
            errors.BadRequest,
        ),
        (
            carriers.build(
                [
                    carriers.WriteLac(number=n, ledger_id=LedgerId(1), packet=Writer(1).lac(0))
                    for n in (5, 5)
                ],
                versions.SPOKEN.highest,
            ),
            errors.BadRequest,
        ),
    ],
    ids=["no carrier", "wrong item", "numbers do not ascend"],
)
@played()
async def test_who_breaks_the_rules_loses_the_stream_and_others_do_not_notice(
    world: World, message: bytes, kind: type[errors.ProtocolError]
) -> None:
    async def to_the_end(pipe: Pipe) -> None:
        while await pipe.receive() is not None:
            pass

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
