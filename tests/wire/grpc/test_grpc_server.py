"""What is gRPC's alone: sizes, trailers, unreadable requests, the port."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable

import grpc
import pytest
from grpc import aio

from tests.support import playing
from tests.wire.link.reference_bookie import ReferenceBookie
from tests.wire.link.worlds import BOOKIE, PATIENT, GrpcWorld, World, opened
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.wire.formats import carriers, errors
from zonekeeper.wire.formats.proofs import Shown
from zonekeeper.wire.grpc import grpc_edge, grpc_server
from zonekeeper.wire.host.serving import Host

MEANT = grpc_edge.meant_for(BOOKIE)


def play(scenario: Callable[[GrpcWorld], Awaitable[None]]) -> None:
    async def narrowed(world: World) -> None:
        assert isinstance(world, GrpcWorld)
        await scenario(world)

    GrpcWorld.run(narrowed)


played = playing.by(play)


def raw_channel(world: GrpcWorld) -> aio.Channel:
    """A client without manners."""
    return aio.insecure_channel(
        f"127.0.0.1:{world._port}", options=[("grpc.max_send_message_length", -1)]
    )


async def ask(channel: aio.Channel, method: str, request: bytes) -> aio.AioRpcError:
    """Call a method that must fail."""
    call: aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
        grpc_edge.method_path(method)
    )
    with pytest.raises(aio.AioRpcError) as caught:
        await call(request, timeout=60, metadata=MEANT)
    return caught.value


@played()
async def test_an_oversized_message_ends_its_stream_and_no_other(world: GrpcWorld) -> None:
    writer, lane, outcomes = await opened(world.link(), 7)
    async with raw_channel(world) as channel:
        start: aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(
            grpc_edge.method_path("Append")
        )
        stream = start(metadata=MEANT)
        await stream.read()
        await stream.write(b"x" * (grpc_edge.MESSAGE_BYTES_MAX + 1))
        assert await stream.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    lane.append(writer.frame(b"x"))
    await outcomes.all_of(1)
    assert outcomes.acked_order == [0]


@played()
async def test_a_carrier_above_its_limit_is_refused_with_the_reason(world: GrpcWorld) -> None:
    async with raw_channel(world) as channel:
        start: aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(
            grpc_edge.method_path("Append")
        )
        stream = start(metadata=MEANT)
        await stream.read()
        hello = carriers.build([carriers.Hello(boot_epoch=1)])
        await stream.write(hello + b"x" * carriers.CARRIER_BYTES_MAX)
        assert await stream.code() is grpc_edge.STATUS
        assert "larger than the limit" in await stream.details()


@played()
async def test_a_request_that_cannot_be_read_is_a_bad_request(world: GrpcWorld) -> None:
    async with raw_channel(world) as channel:
        fault = await ask(channel, "Fence", b"\xff\xff\xff")
        assert dict(fault.trailing_metadata())[grpc_edge.ERROR_TRAILER] == "12"
        assert "FenceRequest cannot be read" in (fault.details() or "")


@played()
async def test_a_method_of_a_newer_client_is_an_unsupported_version(world: GrpcWorld) -> None:
    async with raw_channel(world) as channel:
        fault = await ask(channel, "Juggle", b"")
        error = grpc_edge.translated(fault.code(), fault.details(), fault.trailing_metadata())
        assert isinstance(error, errors.UnsupportedVersion)


@played()
async def test_a_deadline_is_the_bookies_too(world: GrpcWorld) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    class Ponders(ReferenceBookie):
        async def force(self, ledger_id: LedgerId, key: Shown | None = None) -> None:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

    await world.crash()
    world.bookie = Ponders(BOOKIE, world.disk)
    await world.start()
    link = world.link(dataclasses.replace(PATIENT, call_timeout_ms=50))
    await opened(link, 7)  # so that it is connected
    while not began.is_set():  # on a busy machine the time may be over on the way
        with pytest.raises(errors.Timeout) as caught:
            await link.force(LedgerId(1))
        assert caught.value.maybe_applied
    await ended.wait()


@played()
async def test_long_words_are_cut(world: GrpcWorld) -> None:
    class Rants(ReferenceBookie):
        async def force(self, ledger_id: LedgerId, key: Shown | None = None) -> None:
            raise errors.IoFailed("no! " * 100_000)

    await world.crash()
    world.bookie = Rants(BOOKIE, world.disk)
    await world.start()
    with pytest.raises(errors.IoFailed, match=r"^no! no! ") as caught:
        await world.link().force(LedgerId(1))
    assert len(caught.value.detail) == carriers.DETAIL_BYTES_MAX


@played()
async def test_a_port_that_is_taken_is_named(world: GrpcWorld) -> None:
    address = f"127.0.0.1:{world._port}"
    with pytest.raises(OSError, match=address):
        grpc_server.GrpcServer(Host(world.bookie), address, name=BOOKIE, credentials=None)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (grpc.StatusCode.UNAVAILABLE, errors.ConnectionLost),
        (grpc.StatusCode.CANCELLED, errors.ConnectionLost),
        (grpc.StatusCode.INTERNAL, errors.ConnectionLost),
        (grpc.StatusCode.UNKNOWN, errors.ConnectionLost),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, errors.ConnectionLost),
        (grpc.StatusCode.DEADLINE_EXCEEDED, errors.Timeout),
        (grpc.StatusCode.UNIMPLEMENTED, errors.UnsupportedVersion),
        (grpc.StatusCode.PERMISSION_DENIED, errors.UnauthorizedAccess),
    ],
)
def test_grpcs_own_failures_assume_no_more_than_is_known(
    status: grpc.StatusCode, kind: type[errors.ProtocolError]
) -> None:
    assert type(grpc_edge.translated(status, "words", ())) is kind
    junk = ((grpc_edge.ERROR_TRAILER, "x"), ("other", "2"))
    assert type(grpc_edge.translated(status, None, junk)) is kind
    named = ((grpc_edge.ERROR_TRAILER, "2"),)
    assert type(grpc_edge.translated(status, "words", named)) is errors.Fenced
