"""A bookie's host on a gRPC port.

Methods are declared by hand, with bytes in and bytes out: gRPC's own (de)serializers turn an
unreadable message into None and a log line, and here it is a BadRequest for its sender.

Whoever reaches the port may be out to harm. What a peer has sent of a message is memory of this
side, whether the rest ever comes or not. So a connection has few streams on which messages come for
as long as the peer likes, and a call's request has to be there in time. gRPC knows only messages
that are whole. So every method is declared as one of streams, which is the same on the wire: a
request is then read under a time limit of ours.

Whoever reaches the port may also have meant another bookie, which listened here before. That is
found out first (``grpc_edge.check_meant``), for every method.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, aclosing, contextmanager
from typing import Final

import grpc
from grpc import aio

from zonekeeper.wire.contract.pipes import Pipe, StreamKind
from zonekeeper.wire.formats import errors
from zonekeeper.wire.grpc import grpc_edge
from zonekeeper.wire.host import methods
from zonekeeper.wire.host.methods import SpelledCall, SpelledSubscription
from zonekeeper.wire.host.serving import Host

#: Streams and calls at once, over all connections.
RPCS_MAX: Final = 20_000
#: Who takes no answer for so long loses the stream: answers that wait are other peers' memory.
SEND_TIMEOUT_MS: Final = 30_000
#: A call's request is here so soon after the call has begun, or the call ends.
REQUEST_TIMEOUT_MS: Final = 5_000
#: Append and Read streams of one connection, and of all. A link has one of each.
RAW_STREAMS_MAX: Final = 8
ALL_RAW_STREAMS_MAX: Final = 8_192
#: Answers that a connection may leave untaken beyond the timeout; until then it gets no others.
STUCK_MAX: Final = 8

_Context = aio.ServicerContext[bytes, bytes]


class GrpcServer:
    """Serves one host; bound when made, so that the port is known, served after ``start``.

    Only who means the bookie of this name is served (``grpc_edge.name_of``).
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


def _handlers(host: Host, name: str) -> grpc.GenericRpcHandler:
    crowd = _Crowd()
    serves = {
        StreamKind.APPEND.value: _stream(host.serve_appends, crowd),
        StreamKind.READ.value: _stream(host.serve_reads, crowd),
    }
    for call in methods.CALLS:
        serves[call.name] = _call(host, call)
    for subscription in methods.SUBSCRIPTIONS:
        serves[subscription.name] = _subscription(host, subscription)
    handlers = {method: _handler(serve, name, crowd) for method, serve in serves.items()}
    return grpc.method_handlers_generic_handler(grpc_edge.SERVICE, handlers)


async def _refuse(context: _Context, name: str, error: errors.WireError) -> None:
    assert isinstance(error, errors.ProtocolError), "format errors are translated where they occur"
    trailers = grpc_edge.trailers(name, error)
    await context.abort(grpc_edge.STATUS, grpc_edge.message(error), trailers)


class _Crowd:
    """What each connection has open, as far as it costs this side memory."""

    def __init__(self) -> None:
        #: Append and Read streams.
        self._streams = Counter[str]()
        #: Calls and streams with an answer that the peer has not taken in time.
        self._stuck = Counter[str]()

    @contextmanager
    def admitted(self, peer: str) -> Iterator[None]:
        """Count an Append or Read stream in; raises TooManyRequests."""
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
        """Count an answer in that is not taken."""
        return _counted(self._stuck, peer)

    def refuse_stuck(self, peer: str) -> None:
        """Raise TooManyRequests for a connection that leaves too many answers untaken."""
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

    A message that was handed to gRPC cannot be taken back, and nothing can be sent before it has
    left, a status neither. So who waits for one in vain gives up waiting; the stream stays until
    the peer has taken the message or is gone (``emptied``), and is counted for so long.
    """

    def __init__(self, context: _Context, crowd: _Crowd) -> None:
        self._context = context
        self._crowd = crowd
        self._peer = context.peer()
        #: The message that is under way, if somebody gave up waiting for it.
        self._unsent: asyncio.Future[None] | None = None

    async def send(self, message: bytes) -> None:
        self._crowd.refuse_stuck(self._peer)
        sending = asyncio.ensure_future(self._context.write(message))
        self._unsent = sending
        # Whoever is cancelled meanwhile does not hear how it ended.
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
        """Wait until nothing is under way any more; ends with the call if the peer is gone."""
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


def _handler(serve: _Serve, name: str, crowd: _Crowd) -> "grpc.RpcMethodHandler[bytes, bytes]":
    async def handle(_: AsyncIterator[bytes], context: _Context) -> None:
        pipe, failure = _ServerPipe(context, crowd), None
        try:
            grpc_edge.check_meant(name, context.invocation_metadata() or ())
            await serve(pipe, context.peer())
        except errors.WireError as error:
            failure = error
        await pipe.emptied()
        if failure is not None:
            await _refuse(context, name, failure)

    return grpc.stream_stream_rpc_method_handler(handle)


def _stream(serve: Callable[[Pipe], Awaitable[None]], crowd: _Crowd) -> _Serve:
    async def admit(pipe: _ServerPipe, peer: str) -> None:
        with crowd.admitted(peer):
            await serve(pipe)

    return admit


def _call(host: Host, method: SpelledCall) -> _Serve:
    async def answer(pipe: _ServerPipe, _: str) -> None:
        await pipe.send(await method.serve_bytes(host, await pipe.request()))

    return answer


def _subscription(host: Host, method: SpelledSubscription) -> _Serve:
    async def answer(pipe: _ServerPipe, _: str) -> None:
        async with aclosing(method.serve_bytes(host, await pipe.request())) as answers:
            async for one in answers:
                await pipe.send(one)

    return answer
