"""A link over gRPC: one channel to one bookie.

The channel connects by itself when something is sent; the link above decides when that may be
tried, and what a failure means. Where another bookie answers, the channel is given up for a new
one: the connection may live long, and only a new one is made to where the bookie's name leads now.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from typing import Final

import grpc
from grpc import aio

from zonekeeper.placement.chance import Chance
from zonekeeper.wire import errors, grpc_edge
from zonekeeper.wire.links import LinkSettings
from zonekeeper.wire.methods import Call, Q, R, Subscription
from zonekeeper.wire.pipes import StreamKind
from zonekeeper.wire.stream_link import StreamLink

_Understood = Callable[[aio.AioRpcError], Awaitable[errors.ProtocolError]]
_Ask = aio.UnaryUnaryMultiCallable[bytes, bytes]
_Subscribe = aio.UnaryStreamMultiCallable[bytes, bytes]
_Stream = aio.StreamStreamMultiCallable[bytes, bytes]

_CLOSED: Final = "the link was closed, or another bookie answers at its address"


def connect(
    name: str,
    address: str,
    *,
    credentials: grpc.ChannelCredentials | None,
    tasks: asyncio.TaskGroup,
    chance: Chance,
    settings: LinkSettings | None = None,
) -> StreamLink:
    """Give a link to the bookie of this name (``grpc_edge.name_of``) at an address.

    It connects when it is first used.
    Without credentials nothing is encrypted, and whoever says to be that bookie is believed.
    """
    transport = _GrpcTransport(name, address, credentials)
    return StreamLink(
        grpc_edge.bookie_of(name), transport, tasks=tasks, chance=chance, settings=settings
    )


class _GrpcTransport:
    """A ``transports.Transport``."""

    def __init__(
        self, name: str, address: str, credentials: grpc.ChannelCredentials | None
    ) -> None:
        self._name = name
        self._address = address
        self._credentials = credentials
        self._meant = grpc_edge.meant_for(name)
        self._channel = self._new_channel()
        self._closed = False

    def _new_channel(self) -> aio.Channel:
        options = grpc_edge.client_options(grpc_edge.bookie_of(self._name))
        if self._credentials is None:
            return aio.insecure_channel(self._address, options=options)
        return aio.secure_channel(self._address, self._credentials, options=options)

    def stream(self, kind: StreamKind) -> "_ClientPipe":
        start: _Stream = self._channel.stream_stream(grpc_edge.method_path(kind.value))
        return _ClientPipe(start(metadata=self._meant), partial(self._understood, self._channel))

    async def call(self, method: Call[Q, R], request: Q, timeout_ms: int) -> R:
        channel = self._channel
        ask: _Ask = channel.unary_unary(grpc_edge.method_path(method.name))
        asked = method.request.encode(request)
        try:
            reply = await ask(asked, timeout=timeout_ms / 1_000, metadata=self._meant)
        except aio.AioRpcError as fault:
            raise await self._understood(channel, fault) from fault
        except aio.UsageError as fault:
            raise errors.NotConnected("the link was closed") from fault
        except asyncio.CancelledError as fault:
            if _asked_to_end():
                raise
            raise errors.ConnectionLost(_CLOSED) from fault
        return method.reply.decode(reply)

    async def subscribe(self, method: Subscription[Q, R], request: Q) -> AsyncGenerator[R, None]:
        understood = partial(self._understood, self._channel)
        ask: _Subscribe = self._channel.unary_stream(grpc_edge.method_path(method.name))
        try:
            answers = ask(method.request.encode(request), metadata=self._meant)
        except aio.UsageError as fault:
            raise errors.NotConnected("the link was closed") from fault
        try:
            while (answer := await _read(answers, understood)) is not None:
                yield method.reply.decode(answer)
        finally:
            answers.cancel()

    async def close(self) -> None:
        self._closed = True
        await self._channel.close()

    async def _understood(
        self, channel: aio.Channel, fault: aio.AioRpcError
    ) -> errors.ProtocolError:
        """Say what a failure means, and give a channel up that leads to another bookie."""
        trailers = fault.trailing_metadata()
        error = grpc_edge.translated(fault.code(), fault.details(), trailers)
        if not grpc_edge.is_of_another(self._name, trailers):
            return error
        if channel is self._channel and not self._closed:
            self._channel = self._new_channel()
            await channel.close()
        return errors.NotConnected(f"at {self._address}: {error}")


class _ClientPipe:
    """A ``pipes.ClientPipe``."""

    def __init__(self, call: aio.StreamStreamCall[bytes, bytes], understood: _Understood) -> None:
        self._call = call
        self._understood = understood

    async def send(self, message: bytes) -> None:
        try:
            await self._call.write(message)
        except aio.AioRpcError as fault:
            raise await self._understood(fault) from fault
        except asyncio.InvalidStateError as fault:
            # The stream has ended, and the status says why.
            raise grpc_edge.translated(
                await self._call.code(),
                await self._call.details(),
                await self._call.trailing_metadata(),
            ) from fault

    async def receive(self) -> bytes | None:
        return await _read(self._call, self._understood)

    def cancel(self) -> None:
        self._call.cancel()


async def _read(
    call: aio.StreamStreamCall[bytes, bytes] | aio.UnaryStreamCall[bytes, bytes],
    understood: _Understood,
) -> bytes | None:
    try:
        message = await call.read()
    except aio.AioRpcError as fault:
        raise await understood(fault) from fault
    except asyncio.CancelledError as fault:
        if _asked_to_end():
            raise
        raise errors.ConnectionLost(_CLOSED) from fault
    return message if isinstance(message, bytes) else None  # aio.EOF


def _asked_to_end() -> bool:
    """Was this task cancelled? gRPC raises the same error when its channel is closed."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
