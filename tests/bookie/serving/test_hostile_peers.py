"""Peers that follow no rule, over real gRPC: they harm themselves, and the others are served."""

import asyncio

import grpc
import pytest
from grpc import aio

from tests.bookie.hostile import (
    ENTRIES,
    ENTRY,
    LIMIT_S,
    TAKING_MS,
    Stream,
    honest,
    serving,
    stream_of,
    until,
)
from tests.bookie.running import BOOKIE, KEY, LEDGER, frame, opening
from tests.bookie.serving.test_links import Sink, reading
from tests.wire import carrying, tampering
from zonekeeper.bookie.serving.capacity import BookieLimits
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.contract import messages, service
from zonekeeper.wire.formats import carriers, errors
from zonekeeper.wire.grpc import grpc_edge, grpc_server
from zonekeeper.wire.host.host_limits import HostLimits

_AT_LEAST_SO_OFTEN_MS = 60_000
MEANT = grpc_edge.meant_for(BOOKIE)


def greedy(*numbers: int) -> bytes:
    """Reads of all there is, in one carrier."""
    return carriers.build(
        carriers.Read(
            number=number,
            ledger_id=LEDGER,
            first=EntryId(0),
            last=EntryId(ENTRIES - 1),
            step=1,
            max_bytes=4 << 20,
            fence_key=None,
        )
        for number in numbers
    )


async def to_its_end(stream: Stream) -> None:
    while await stream.read() is not aio.EOF:
        pass


async def refused(stream: Stream, error: type[errors.ProtocolError]) -> str:
    """Take what comes until the stream ends; it must be with this error. Give its words."""
    async with asyncio.timeout(LIMIT_S):
        with pytest.raises(aio.AioRpcError) as caught:
            await to_its_end(stream)
    assert caught.value.code() is grpc_edge.STATUS
    assert dict(caught.value.trailing_metadata())[grpc_edge.ERROR_TRAILER] == str(error.code)
    return caught.value.details() or ""


async def let_in(channel: aio.Channel, method: str) -> None:
    """Open a stream as soon as there is room: the bookie may hear later that others have ended."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            try:
                assert isinstance(await (await stream_of(channel, method)).read(), bytes)
            except aio.AioRpcError as fault:
                number = dict(fault.trailing_metadata())[grpc_edge.ERROR_TRAILER]
                assert number == str(errors.TooManyRequests.code)
            else:
                return


async def test_a_message_above_the_limit_ends_its_stream_and_no_other() -> None:
    async with serving() as place, honest(place) as writer, place.hostile() as channel:
        stream = await stream_of(channel, "Append")
        await stream.read()
        await stream.write(bytes(grpc_edge.MESSAGE_BYTES_MAX + 1))
        assert await stream.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert await writer.goes_on()


async def test_who_asks_for_much_and_takes_nothing_is_bounded_and_then_cut_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grpc_server, "SEND_TIMEOUT_MS", TAKING_MS)
    limits = HostLimits(read_bytes_max=8 << 20, all_replies_bytes_max=8 << 20)
    async with serving(limits) as place, honest(place) as writer, place.hostile() as channel:
        streams = [await stream_of(channel, "Read") for _ in range(6)]
        for stream in streams:
            await stream.write(greedy(*range(20)))
        await until(lambda: place.host.reply_bytes >= limits.all_replies_bytes_max)
        # One reply may pass on each stream that saw room.
        assert place.host.reply_bytes <= limits.all_replies_bytes_max + 6 * (4 << 20)
        assert await writer.goes_on()
        await until(lambda: not place.host.reply_bytes)
        assert await place.serves_a_newcomer()


async def test_reading_all_there_is_again_and_again_takes_turns_with_an_honest_writer() -> None:
    async with serving() as place, honest(place) as writer, place.hostile() as channel:
        stream = await stream_of(channel, "Read")
        assert isinstance(await stream.read(), bytes)
        for number in range(40):
            await stream.write(greedy(number))
        for _ in range(40):
            assert isinstance(await stream.read(), bytes)
            assert place.host.reply_bytes <= HostLimits().read_bytes_max + (4 << 20)
        assert await writer.goes_on()
        stream.cancel()


async def test_more_appends_than_the_memory_is_for_are_refused_and_the_rest_is_kept() -> None:
    waiting_max = 1 << 20
    async with serving(HostLimits(), BookieLimits(waiting_bytes_max=waiting_max)) as place:
        async with place.friendly() as link:
            sink = Sink()
            lane = await link.open_fragment(opening(), sink)
            count = 60
            for number in range(ENTRIES, ENTRIES + count):
                lane.append(frame(number, data=ENTRY))
            outcomes = [await sink.outcomes.get() for _ in range(count)]
            refusals = [error for _, error in outcomes if error is not None]
            assert all(isinstance(error, errors.TooManyRequests) for error in refusals)
            acked = [ENTRIES + number for number, error in outcomes if error is None]
            for number in acked:
                assert (await link.read(reading(number, number))).frames
        assert acked
        await place.bookie.fence(LEDGER, KEY)


async def test_streams_above_the_limit_of_a_connection_wait_and_other_peers_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limit, extra = 64, 1_000
    monkeypatch.setattr(grpc_edge, "CONNECTION_STREAMS_MAX", limit)
    follow = service.TailRequest(
        ledger_id=LEDGER,
        first_entry_id=EntryId(ENTRIES),
        bytes_max=1,
        quiet_ms=_AT_LEAST_SO_OFTEN_MS,
    )
    request = messages.tail(follow).SerializeToString()
    async with serving() as place, honest(place) as writer, place.hostile() as channel:
        start: aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(
            grpc_edge.method_path("Tail")
        )
        # A peer hears the limit with the server's first message, and may break it before.
        first = start(request, metadata=MEANT)
        assert isinstance(await first.read(), bytes)
        rest = [start(request, metadata=MEANT) for _ in range(limit - 1 + extra)]
        waiting = {asyncio.ensure_future(tail.read()) for tail in rest}
        async with asyncio.timeout(LIMIT_S):
            while len(waiting) > extra:
                done, waiting = await asyncio.wait(
                    waiting, return_when=asyncio.FIRST_COMPLETED, timeout=LIMIT_S
                )
                assert all(isinstance(each.result(), bytes) for each in done)
            assert await writer.goes_on()
            assert not any(each.done() for each in waiting)
            first.cancel()
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            assert all(isinstance(each.result(), bytes) for each in done)
        for tail in rest:
            tail.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_connection_has_few_streams_that_can_hold_half_a_message() -> None:
    async with serving() as place, honest(place) as writer, place.hostile() as channel:
        streams = [
            await stream_of(channel, "Append" if number % 2 else "Read")
            for number in range(grpc_server.RAW_STREAMS_MAX)
        ]
        for stream in streams:
            assert isinstance(await stream.read(), bytes)
        words = await refused(await stream_of(channel, "Append"), errors.TooManyRequests)
        assert words.startswith("this connection has 8 Append and Read streams")
        assert await writer.goes_on()
        streams[0].cancel()
        await let_in(channel, "Append")


async def test_all_connections_together_have_a_limit_of_such_streams_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(grpc_server, "ALL_RAW_STREAMS_MAX", 4)
    async with serving() as place, honest(place) as writer:
        async with place.hostile() as one, place.hostile() as other:
            for _ in range(3):
                assert isinstance(await (await stream_of(one, "Read")).read(), bytes)
            words = await refused(await stream_of(other, "Append"), errors.TooManyRequests)
            assert words == "there are 4 Append and Read streams; come again later"
            assert await writer.goes_on()
        async with place.hostile() as later:
            await let_in(later, "Read")


async def test_a_flood_of_tails_is_answered_up_to_a_limit() -> None:
    limit, asked = 20, 60
    follow = service.TailRequest(
        ledger_id=LEDGER, first_entry_id=EntryId(ENTRIES + 1_000_000), bytes_max=1, quiet_ms=1
    )
    request = messages.tail(follow).SerializeToString()
    limits = HostLimits(tails_max=limit)
    async with serving(limits) as place, place.hostile() as channel:
        start: aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(
            grpc_edge.method_path("Tail")
        )
        tails = [start(request, metadata=MEANT) for _ in range(asked)]
        answers = await asyncio.gather(*[one.read() for one in tails], return_exceptions=True)
        refusals = [one for one in answers if isinstance(one, aio.AioRpcError)]
        assert len(refusals) == asked - limit
        assert {one.details() for one in refusals} == {"20 ledgers are followed here: go elsewhere"}
        async with honest(place) as writer:
            assert await writer.goes_on(), "beside those that are told of every entry"


async def test_ledgers_above_the_limit_are_refused_and_those_that_are_known_go_on() -> None:
    limit, asked = 100, 1_000
    ledgers = [LedgerId(1_000 + number) for number in range(asked)]
    async with (
        serving(None, BookieLimits(ledgers_max=limit)) as place,
        honest(place) as writer,
        place.friendly() as link,
    ):
        outcomes = await asyncio.gather(
            *[link.open_fragment(opening(ledger_id=ledger), Sink()) for ledger in ledgers],
            return_exceptions=True,
        )
        refusals = [one for one in outcomes if isinstance(one, errors.TooManyRequests)]
        assert len(refusals) == asked - limit + 1, "one was there before"
        assert "knows 100 ledgers, --ledgers is 100" in str(refusals[0])
        with pytest.raises(errors.TooManyRequests):
            await link.fence(LedgerId(77), KEY)
        await link.fence(ledgers[0], KEY)
        assert await writer.goes_on()


ITEM = carriers.build([carriers.Append(number=0, frame=frame(99))])
ALL_KINDS = carriers.build(carrying.ONE_OF_EACH.values())
LIES = {
    "more items than there are": tampering.carrier(ITEM, tampering.CARRIER_ITEMS, tampering.u32(2)),
    "as many items as a number can say": tampering.carrier(
        ITEM, tampering.CARRIER_ITEMS, tampering.u32((1 << 32) - 1)
    ),
    "no items": tampering.carrier(ITEM, tampering.CARRIER_ITEMS, tampering.u32(0)),
    "a size that no message has": tampering.carrier(
        ITEM, tampering.CARRIER_SIZE, tampering.u32((1 << 32) - 1)
    ),
    "items that end behind the end": tampering.patched(
        ITEM, tampering.CARRIER_FRAMES_AT, tampering.u32((1 << 32) - 1)
    ),
    "another checksum": tampering.patched(ITEM, tampering.CRC_AT, b"????"),
    "a reply with as many frames as a number can say": tampering.carrier(
        carriers.build([carrying.ONE_OF_EACH["ReadReply"]]),
        tampering.CARRIER_CONTROL + 4,
        tampering.u32((1 << 32) - 1),
    ),
    "what only a bookie says": carriers.build([carrying.ONE_OF_EACH["Acked"]]),
    "one of each kind": ALL_KINDS,
    "nothing": b"",
    "zeros, as many as a carrier may have": bytes(carriers.CARRIER_BYTES_MAX),
}
FRAME_AT = len(ITEM) - frame(99).size_bytes
LIES |= {
    f"a frame that says {what}": ITEM[:FRAME_AT] + tampering.frame(ITEM[FRAME_AT:], at, new)
    for what, at, new in [
        ("it is 4 GiB long", tampering.FRAME_SIZE, tampering.u32((1 << 32) - 1)),
        ("it has no bytes", tampering.FRAME_SIZE, tampering.u32(0)),
        ("it has 4 G entries", tampering.FRAME_COUNT, tampering.u32((1 << 32) - 1)),
        ("it has no entries", tampering.FRAME_COUNT, tampering.u32(0)),
        ("its entry is 4 GiB long", tampering.FRAME_TABLES, tampering.u32((1 << 32) - 1)),
        ("its ledger is negative", tampering.FRAME_LEDGER, tampering.u64(-1)),
        ("its entry is the last of all", tampering.FRAME_FIRST, tampering.u64(-1)),
    ]
}


@pytest.mark.parametrize("method", ["Append", "Read"])
async def test_who_lies_in_a_carrier_is_told_what_is_wrong_and_loses_the_stream(
    method: str,
) -> None:
    async with serving() as place, honest(place) as writer, place.hostile() as channel:
        for what, lie in LIES.items():
            stream = await stream_of(channel, method)
            assert isinstance(await stream.read(), bytes)
            await stream.write(lie)
            words = await refused(stream, errors.BadRequest)
            assert words.startswith(("carrier ", "frame ")) or "does not belong" in words, what
        assert await writer.goes_on()
