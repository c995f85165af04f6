"""A gRPC server on a port, in front of a bookie's host.

Methods are declared by hand, with bytes in and bytes out. gRPC's own deserializers turn an
unreadable message into None and a log line; here its sender gets a BadRequest.

A peer that reaches the port may be hostile. The bytes of a message that have come are memory of
this side, even if the rest never comes. So a connection has only few streams on which messages may
come for as long as the peer likes, and the request of a call must be complete in time. gRPC shows
only complete messages. So every method is declared as a stream in both directions, which is the
same on the wire: then a request is read under a time limit of ours.

A peer that reaches the port may also mean another bookie, which listened here before. For every
method this is checked first (``grpc_edge.check_meant``).
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, aclosing, contextmanager
from typing import Final

import grpc
from grpc import aio

from zonekeeper.wire.contract.pipes import Pipe, StreamKind
from zonekeeper.wire.formats import bookie_names, errors
from zonekeeper.wire.grpc import grpc_edge
from zonekeeper.wire.host import methods
from zonekeeper.wire.host.access import Guard
from zonekeeper.wire.host.methods import SpelledCall, SpelledSubscription
from zonekeeper.wire.host.serving import Host

#: Streams and calls at the same time, over all connections.
RPCS_MAX: Final = 20_000
#: A peer that takes no answer for this time loses the stream: the memory of a waiting answer would
#: be missing for other peers.
SEND_TIMEOUT_MS: Final = 30_000
#: The request of a call must be complete within this time, or the call ends.
REQUEST_TIMEOUT_MS: Final = 5_000
#: Append and Read streams of one connection, and of all. A link has one of each.
RAW_STREAMS_MAX: Final = 8
ALL_RAW_STREAMS_MAX: Final = 8_192
#: With this many answers not taken in time, a connection gets no other answers.
STUCK_MAX: Final = 8

_Context = aio.ServicerContext[bytes, bytes]


class GrpcServer:
    """Serves one host. The port is bound when this is made, and served after ``start``.

    It serves only requests that mean the bookie of this name (``bookie_names.name_of``).
    """

    def __init__(
        self,
        host: Host,
        address: str,
        *,
        name: str,
        credentials: grpc.ServerCredentials | None,
    ) -> None:
        self._server = aio.server(
            options=grpc_edge.server_options(), maximum_concurrent_rpcs=RPCS_MAX
        )
        self._server.add_generic_rpc_handlers((_handlers(host, name),))
        try:
            #: Differs from the port in ``address`` if that was 0.
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
        """Take no new requests, and end those that are still running after the grace."""
        await self._server.stop(grace_ms / 1_000)


def _handlers(host: Host, name: str) -> grpc.GenericRpcHandler:
    crowd = _Crowd()
    serves = {
        StreamKind.APPEND.value: _stream(host.serve_appends, host, crowd),
        StreamKind.READ.value: _stream(host.serve_reads, host, crowd),
    }
    for call in methods.CALLS:
        serves[call.name] = _call(host, call)
    for subscription in methods.SUBSCRIPTIONS:
        serves[subscription.name] = _subscription(host, subscription)
    handlers = {method: _handler(serve, host, name, crowd) for method, serve in serves.items()}
    return grpc.method_handlers_generic_handler(grpc_edge.SERVICE, handlers)


async def _refuse(context: _Context, name: str, error: errors.WireError) -> None:
    assert isinstance(error, errors.ProtocolError), "format errors are translated where they occur"
    trailers = grpc_edge.trailers(name, error)
    await context.abort(grpc_edge.STATUS, grpc_edge.message(error), trailers)


class _Crowd:
    """Counts the open streams and answers of each connection that cost this side memory."""

    def __init__(self) -> None:
        #: Append and Read streams.
        self._streams = Counter[str]()
        #: Calls and streams with an answer that the peer did not take in time.
        self._stuck = Counter[str]()

    @contextmanager
    def admitted(self, peer: str) -> Iterator[None]:
        """Count an Append or Read stream during the block; raises TooManyRequests."""
        if self._streams[peer] >= RAW_STREAMS_MAX:
            raise errors.TooManyRequests(
                f"this connection has {RAW_STREAMS_MAX} Append and Read streams, and gets no more: "
                "each can carry any number of ledgers"
            )
        if self._streams.total() >= ALL_RAW_STREAMS_MAX:
            raise errors.TooManyRequests(
                f"there are {ALL_RAW_STREAMS_MAX} Append and Read streams; come again later"
            )
        with _counted(self._streams, peer):
            yield

    def stuck(self, peer: str) -> AbstractContextManager[None]:
        """Count an answer that is not taken, during the block."""
        return _counted(self._stuck, peer)

    def refuse_stuck(self, peer: str) -> None:
        """Raise TooManyRequests for a connection with too many answers that it does not take."""
        if self._stuck[peer] >= STUCK_MAX:
            raise errors.TooManyRequests(
                f"this connection leaves {STUCK_MAX} answers untaken, and gets no more: take them"
            )


@contextmanager
def _counted(counts: Counter[str], peer: str) -> Iterator[None]:
    counts[peer] += 1
    try:
        yield
    finally:
        counts[peer] -= 1
        if not counts[peer]:
            del counts[peer]


class _ServerPipe:
    """The bookie's end of a stream.

    A message that was given to gRPC cannot be taken back, and nothing else, not even a status, can
    be sent before it has left. So after a time ``send`` gives up waiting. The stream then stays,
    and is counted, until the peer has taken the message or is gone (``emptied``).
    """

    def __init__(self, context: _Context, crowd: _Crowd, guard: Guard) -> None:
        self._context = context
        self.guard = guard
        self._crowd = crowd
        self._peer = context.peer()
        #: What both sides speak on this stream.
        self.wire_version = 1
        #: The message that is being sent, if ``send`` gave up waiting for it.
        self._unsent: asyncio.Future[None] | None = None

    async def say(self, headers: tuple[tuple[str, str], ...]) -> None:
        """Let these headers leave with the first message."""
        try:
            await self._context.send_initial_metadata(headers)
        except (aio.BaseError, asyncio.InvalidStateError) as fault:
            raise errors.ConnectionLost(f"the client has gone: {fault}") from fault

    async def send(self, message: bytes) -> None:
        self._crowd.refuse_stuck(self._peer)
        sending = asyncio.ensure_future(self._context.write(message))
        self._unsent = sending
        # If ``send`` is cancelled meanwhile, it does not see how the sending ended.
        sending.add_done_callback(_heard)
        done, _ = await asyncio.wait([sending], timeout=SEND_TIMEOUT_MS / 1_000)
        if not done:
            raise errors.Timeout(
                f"the client took nothing for {SEND_TIMEOUT_MS} ms; take answers, or ask for less"
            )
        self._unsent = None
        try:
            sending.result()
        except (aio.BaseError, asyncio.InvalidStateError) as fault:
            raise errors.ConnectionLost(f"the client has gone: {fault}") from fault

    async def emptied(self) -> None:
        """Wait until no message is being sent; ends with the call if the peer is gone."""
        if self._unsent is not None:
            with self._crowd.stuck(self._peer):
                await asyncio.gather(self._unsent, return_exceptions=True)

    async def request(self) -> bytes:
        """Receive the one message of a call."""
        self._crowd.refuse_stuck(self._peer)
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_MS / 1_000):
                message = await self.receive()
        except TimeoutError as fault:
            raise errors.Timeout(
                f"the request was not here within {REQUEST_TIMEOUT_MS} ms; nothing was done"
            ) from fault
        if message is None:
            raise errors.BadRequest("the call ended without a request")
        return message

    async def receive(self) -> bytes | None:
        try:
            message: object = await self._context.read()
        except (aio.BaseError, asyncio.InvalidStateError) as fault:
            raise errors.ConnectionLost(f"the client has gone: {fault}") from fault
        return message if isinstance(message, bytes) else None  # aio.EOF


#: Serves one method to a peer.
_Serve = Callable[[_ServerPipe, str], Awaitable[None]]


def _heard(sending: "asyncio.Future[None]") -> None:
    if not sending.cancelled():
        sending.exception()


def _handler(
    serve: _Serve, host: Host, name: str, crowd: _Crowd
) -> "grpc.RpcMethodHandler[bytes, bytes]":
    async def handle(_: AsyncIterator[bytes], context: _Context) -> None:
        try:
            grpc_edge.check_meant(name, context.invocation_metadata() or ())
        except errors.WireError as error:
            await _refuse(context, grpc_edge.ANOTHER, error)
        names = grpc_edge.names_of(context.auth_context())
        guard = host.access.guard(names, grpc_edge.peer_of(context.peer()))
        pipe, failure = _ServerPipe(context, crowd, guard), None
        try:
            said = grpc_edge.spoken_by(context.invocation_metadata() or ())
            pipe.wire_version = host.meet(said, bookie_names.bookie_of(name))
            await serve(pipe, context.peer())
        except errors.WireError as error:
            failure = error
        await pipe.emptied()
        if failure is not None:
            await _refuse(context, name, failure)

    return grpc.stream_stream_rpc_method_handler(handle)


def _stream(
    serve: Callable[[Pipe, int, Guard], Awaitable[None]], host: Host, crowd: _Crowd
) -> _Serve:
    async def admit(pipe: _ServerPipe, peer: str) -> None:
        with crowd.admitted(peer):
            await pipe.say(grpc_edge.speaking(host.speaks))
            await serve(pipe, pipe.wire_version, pipe.guard)

    return admit


def _call(host: Host, method: SpelledCall) -> _Serve:
    async def answer(pipe: _ServerPipe, _: str) -> None:
        request = await pipe.request()
        await pipe.send(await method.serve_bytes(host, pipe.guard, request))

    return answer


def _subscription(host: Host, method: SpelledSubscription) -> _Serve:
    async def answer(pipe: _ServerPipe, _: str) -> None:
        request = await pipe.request()
        async with aclosing(method.serve_bytes(host, pipe.guard, request)) as answers:
            async for one in answers:
                await pipe.send(one)

    return answer
