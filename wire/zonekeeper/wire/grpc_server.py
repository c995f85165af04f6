"""A bookie's host on a gRPC port.

Methods are declared by hand, with bytes in and bytes out: gRPC's own (de)serializers turn an
unreadable message into None and a log line, and here it is a BadRequest for its sender.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Final

import grpc
from grpc import aio

from zonekeeper.wire import errors, grpc_edge, methods
from zonekeeper.wire.methods import SpelledCall, SpelledSubscription
from zonekeeper.wire.pipes import Pipe, StreamKind
from zonekeeper.wire.serving import Host

#: Streams and calls at once, over all connections.
RPCS_MAX: Final = 20_000
#: Who takes no answer for so long loses the stream: answers that wait are other peers' memory.
SEND_TIMEOUT_MS: Final = 30_000

_Context = aio.ServicerContext[bytes, bytes]


class GrpcServer:
    """Serves one host; bound when made, so that the port is known, served after ``start``."""

    def __init__(
        self, host: Host, address: str, *, credentials: grpc.ServerCredentials | None
    ) -> None:
        self._server = aio.server(
            options=grpc_edge.server_options(), maximum_concurrent_rpcs=RPCS_MAX
        )
        self._server.add_generic_rpc_handlers((_handlers(host),))
        try:
            #: Differs from the address asked for if that said port 0.
            self.port = (
                self._server.add_insecure_port(address)
                if credentials is None
                else self._server.add_secure_port(address, credentials)
            )
        except RuntimeError as fault:
            raise OSError(f"cannot listen on {address}: is the port taken? ({fault})") from fault

    async def start(self) -> None:
        """Begin to serve."""
        await self._server.start()

    async def stop(self, grace_ms: int) -> None:
        """Take nothing new, and cut off what has not ended after the grace."""
        await self._server.stop(grace_ms / 1_000)


def _handlers(host: Host) -> grpc.GenericRpcHandler:
    streams = {
        StreamKind.APPEND: host.serve_appends,
        StreamKind.READ: host.serve_reads,
    }
    handlers = {kind.value: _stream(serve) for kind, serve in streams.items()}
    for call in methods.CALLS:
        handlers[call.name] = _call(host, call)
    for subscription in methods.SUBSCRIPTIONS:
        handlers[subscription.name] = _subscription(host, subscription)
    return grpc.method_handlers_generic_handler(grpc_edge.SERVICE, handlers)


async def _refuse(context: _Context, error: errors.WireError) -> None:
    assert isinstance(error, errors.ProtocolError), "format errors are translated where they occur"
    await context.abort(grpc_edge.STATUS, grpc_edge.message(error), grpc_edge.trailers(error))


class _ServerPipe:
    """The bookie's end of a stream."""

    def __init__(self, context: _Context) -> None:
        self._context = context

    async def send(self, message: bytes) -> None:
        try:
            async with asyncio.timeout(SEND_TIMEOUT_MS / 1_000):
                await self._context.write(message)
        except TimeoutError as fault:
            raise errors.Timeout(
                f"the client took nothing for {SEND_TIMEOUT_MS} ms; take answers, or ask for less"
            ) from fault
        except (aio.BaseError, asyncio.InvalidStateError) as fault:
            raise errors.ConnectionLost(f"the client has gone: {fault}") from fault

    async def receive(self) -> bytes | None:
        try:
            message: object = await self._context.read()
        except (aio.BaseError, asyncio.InvalidStateError) as fault:
            raise errors.ConnectionLost(f"the client has gone: {fault}") from fault
        return message if isinstance(message, bytes) else None  # aio.EOF


def _stream(serve: Callable[[Pipe], Awaitable[None]]) -> "grpc.RpcMethodHandler[bytes, bytes]":
    async def handle(_: AsyncIterator[bytes], context: _Context) -> None:
        try:
            await serve(_ServerPipe(context))
        except errors.WireError as error:
            await _refuse(context, error)

    return grpc.stream_stream_rpc_method_handler(handle)


def _call(host: Host, method: SpelledCall) -> "grpc.RpcMethodHandler[bytes, bytes]":
    async def handle(data: bytes, context: _Context) -> bytes:
        try:
            return await method.serve_bytes(host, data)
        except errors.WireError as error:
            await _refuse(context, error)
            raise

    return grpc.unary_unary_rpc_method_handler(handle)


def _subscription(host: Host, method: SpelledSubscription) -> "grpc.RpcMethodHandler[bytes, bytes]":
    async def handle(data: bytes, context: _Context) -> None:
        try:
            async with aclosing(method.serve_bytes(host, data)) as answers:
                async for answer in answers:
                    await _ServerPipe(context).send(answer)
        except errors.WireError as error:
            await _refuse(context, error)

    return grpc.unary_stream_rpc_method_handler(handle)
