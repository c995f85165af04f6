"""A link over gRPC: one channel to one bookie.

The channel connects by itself when something is sent; the link above decides when that may be
tried, and what a failure means.
"""

import asyncio
from collections.abc import AsyncGenerator

import grpc
from grpc import aio

from zonekeeper.placement.chance import Chance
from zonekeeper.placement.ids import BookieId
from zonekeeper.wire import errors, grpc_edge
from zonekeeper.wire.links import LinkSettings
from zonekeeper.wire.methods import Call, Q, R, Subscription
from zonekeeper.wire.pipes import StreamKind
from zonekeeper.wire.stream_link import StreamLink

_Ask = aio.UnaryUnaryMultiCallable[bytes, bytes]
_Subscribe = aio.UnaryStreamMultiCallable[bytes, bytes]
_Stream = aio.StreamStreamMultiCallable[bytes, bytes]


def connect(
    bookie_id: BookieId,
    address: str,
    *,
    credentials: grpc.ChannelCredentials | None,
    tasks: asyncio.TaskGroup,
    chance: Chance,
    settings: LinkSettings | None = None,
) -> StreamLink:
    """Give a link to the bookie at an address; it connects when it is first used.

    Without credentials nothing is encrypted, and whoever answers at the address is believed.
    """
    transport = _GrpcTransport(bookie_id, address, credentials)
    return StreamLink(bookie_id, transport, tasks=tasks, chance=chance, settings=settings)


class _GrpcTransport:
    """A ``transports.Transport``."""

    def __init__(
        self, bookie_id: BookieId, address: str, credentials: grpc.ChannelCredentials | None
    ) -> None:
        options = grpc_edge.client_options(bookie_id)
        self._channel = (
            aio.insecure_channel(address, options=options)
            if credentials is None
            else aio.secure_channel(address, credentials, options=options)
        )

    def stream(self, kind: StreamKind) -> "_ClientPipe":
        start: _Stream = self._channel.stream_stream(grpc_edge.method_path(kind.value))
        return _ClientPipe(start())

    async def call(self, method: Call[Q, R], request: Q, timeout_ms: int) -> R:
        ask: _Ask = self._channel.unary_unary(grpc_edge.method_path(method.name))
        try:
            reply = await ask(method.request.encode(request), timeout=timeout_ms / 1_000)
        except aio.AioRpcError as fault:
            raise _translated(fault) from fault
        except aio.UsageError as fault:
            raise errors.NotConnected("the link was closed") from fault
        except asyncio.CancelledError as fault:
            if _asked_to_end():
                raise
            raise errors.ConnectionLost("the link was closed") from fault
        return method.reply.decode(reply)

    async def subscribe(self, method: Subscription[Q, R], request: Q) -> AsyncGenerator[R, None]:
        ask: _Subscribe = self._channel.unary_stream(grpc_edge.method_path(method.name))
        try:
            answers = ask(method.request.encode(request))
        except aio.UsageError as fault:
            raise errors.NotConnected("the link was closed") from fault
        try:
            while (answer := await _read(answers)) is not None:
                yield method.reply.decode(answer)
        finally:
            answers.cancel()

    async def close(self) -> None:
        await self._channel.close()


class _ClientPipe:
    """A ``pipes.ClientPipe``."""

    def __init__(self, call: aio.StreamStreamCall[bytes, bytes]) -> None:
        self._call = call

    async def send(self, message: bytes) -> None:
        try:
            await self._call.write(message)
        except aio.AioRpcError as fault:
            raise _translated(fault) from fault
        except asyncio.InvalidStateError as fault:
            # The stream has ended, and the status says why.
            raise grpc_edge.translated(
                await self._call.code(),
                await self._call.details(),
                await self._call.trailing_metadata(),
            ) from fault

    async def receive(self) -> bytes | None:
        return await _read(self._call)

    def cancel(self) -> None:
        self._call.cancel()


async def _read(
    call: aio.StreamStreamCall[bytes, bytes] | aio.UnaryStreamCall[bytes, bytes],
) -> bytes | None:
    try:
        message = await call.read()
    except aio.AioRpcError as fault:
        raise _translated(fault) from fault
    except asyncio.CancelledError as fault:
        if _asked_to_end():
            raise
        raise errors.ConnectionLost("the link was closed") from fault
    return message if isinstance(message, bytes) else None  # aio.EOF


def _asked_to_end() -> bool:
    """Was this task cancelled? gRPC raises the same error when its channel is closed."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _translated(fault: aio.AioRpcError) -> errors.ProtocolError:
    return grpc_edge.translated(fault.code(), fault.details(), fault.trailing_metadata())
