"""A link over gRPC: one channel to one bookie.

A channel connects by itself when something is sent. The link above decides when that may be tried,
and what a failure means. So two kinds of channels are replaced by new ones, which do nothing until
they are used:

* A channel that is not connected and has no call: gRPC would dial for ever, five times a second,
  even if no request is made.
* A channel that leads to another bookie: its connection may live long, and only a new connection
  goes to the place to which the bookie's name leads now.

gRPC keeps a closed channel, which goes on dialling, as long as a call of it exists. Errors keep the
stack frames that they passed, and errors may be kept for long. So no stack frame of an error may
hold a call.
"""

import asyncio
import traceback
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

import grpc
from grpc import aio

from zonekeeper.placement.base.chance import Chance
from zonekeeper.wire.contract.inlets import NotFlat
from zonekeeper.wire.contract.links import LinkSettings
from zonekeeper.wire.contract.pipes import StreamKind
from zonekeeper.wire.formats import bookie_names, errors
from zonekeeper.wire.formats.versions import WireVersions
from zonekeeper.wire.grpc import grpc_edge, tls
from zonekeeper.wire.host.methods import Call, Q, R, Subscription
from zonekeeper.wire.link.stream_link import StreamLink
from zonekeeper.wire.link.transports import Transport

_Understood = Callable[[aio.AioRpcError], errors.ProtocolError]
_Ask = aio.UnaryUnaryMultiCallable[bytes, bytes]
_Subscribe = aio.UnaryStreamMultiCallable[bytes, bytes]
_Stream = aio.StreamStreamMultiCallable[bytes, bytes]

#: A channel in one of these states dials by itself, now or soon.
_DIALS: Final = frozenset(
    {grpc.ChannelConnectivity.CONNECTING, grpc.ChannelConnectivity.TRANSIENT_FAILURE}
)
CallT = TypeVar("CallT", bound=aio.Call)

_CLOSED: Final = "the link was closed, or another bookie answers at its address"


def connect(
    name: str,
    address: str,
    *,
    credentials: tls.ClientCredentials | None,
    tasks: asyncio.TaskGroup,
    chance: Chance,
    settings: LinkSettings | None = None,
) -> StreamLink:
    """Give a link to the bookie of this name (``bookie_names.name_of``) at an address.

    The link connects when it is first used. Raises NotConnected if no certificate could name the
    bookie.
    """
    settings = settings or LinkSettings()
    over = transport(name, address, credentials=credentials, speaks=settings.speaks)
    return StreamLink(
        bookie_names.bookie_of(name), over, tasks=tasks, chance=chance, settings=settings
    )


def transport(
    name: str,
    address: str,
    *,
    credentials: tls.ClientCredentials | None,
    speaks: WireVersions | None,
) -> Transport:
    """Give the way under such a link.

    Without credentials nothing is encrypted, and any peer that claims to be that bookie is
    believed.
    """
    if credentials is not None:
        try:
            tls.check_id(bookie_names.bookie_of(name))
        except ValueError as error:
            raise errors.NotConnected(str(error)) from error
    return _GrpcTransport(name, address, credentials, speaks)


@dataclass(slots=True, eq=False)
class _Way:
    """A channel, and the number of calls and streams under way on it."""

    channel: aio.Channel
    users: int = 0


class _GrpcTransport:
    """A ``transports.Transport``."""

    def __init__(
        self,
        name: str,
        address: str,
        credentials: tls.ClientCredentials | None,
        speaks: WireVersions | None,
    ) -> None:
        self._name = name
        self._address = address
        self.place = f"gRPC at {address}"
        self._credentials = credentials
        self._headers = (*grpc_edge.meant_for(name), *grpc_edge.speaking(speaks))
        self._way = self._new_way()
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False

    def _new_way(self) -> _Way:
        options = grpc_edge.client_options(bookie_names.bookie_of(self._name))
        if self._credentials is None:
            return _Way(aio.insecure_channel(self._address, options=options))
        credentials = self._credentials.current()
        return _Way(aio.secure_channel(self._address, credentials, options=options))

    def stream(self, kind: StreamKind) -> "_ClientPipe":
        way = self._way
        start: _Stream = way.channel.stream_stream(grpc_edge.method_path(kind.value))
        call = self._counted(way, start(metadata=self._headers))
        return _ClientPipe(call, partial(self._understood, way))

    async def call(self, method: Call[Q, R], request: Q, timeout_ms: int) -> R:
        way = self._way
        ask: _Ask = way.channel.unary_unary(grpc_edge.method_path(method.name))
        asked = method.request.encode(request)
        timeout_s = timeout_ms / 1_000
        try:
            reply = await self._counted(way, ask(asked, timeout=timeout_s, metadata=self._headers))
        except aio.AioRpcError as fault:
            _let_go(fault)
            raise self._understood(way, fault) from fault
        except aio.UsageError as fault:
            raise errors.NotConnected("the link was closed") from fault
        except asyncio.CancelledError as fault:
            _let_go(fault)
            if _asked_to_end():
                raise
            raise errors.ConnectionLost(_CLOSED) from fault
        return method.reply.decode(reply)

    async def subscribe(self, method: Subscription[Q, R], request: Q) -> AsyncGenerator[R, None]:
        way = self._way
        ask: _Subscribe = way.channel.unary_stream(grpc_edge.method_path(method.name))
        try:
            asked = method.request.encode(request)
            answers = self._counted(way, ask(asked, metadata=self._headers))
        except aio.UsageError as fault:
            raise errors.NotConnected("the link was closed") from fault
        try:
            while (answer := await _read(answers, partial(self._understood, way))) is not None:
                yield method.reply.decode(answer)
        finally:
            answers.cancel()
            del answers

    async def close(self) -> None:
        self._closed = True
        await self._way.channel.close()
        await asyncio.gather(*self._closing)

    def _counted(self, way: _Way, call: CallT) -> CallT:
        """Count a call until it ends."""
        way.users += 1
        call.add_done_callback(lambda _: self._left(way))
        return call

    def _left(self, way: _Way) -> None:
        way.users -= 1
        if way.users == 0 and way is self._way and way.channel.get_state() in _DIALS:
            self._give_up()

    def _give_up(self) -> None:
        if self._closed:
            return
        channel, self._way = self._way.channel, self._new_way()
        closing = asyncio.get_running_loop().create_task(channel.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def _understood(self, way: _Way, fault: aio.AioRpcError) -> errors.ProtocolError:
        """Give the error that a failure means; replace a channel that leads to another bookie."""
        trailers = fault.trailing_metadata()
        error = grpc_edge.translated(fault.code(), fault.details(), trailers)
        if not grpc_edge.is_of_another(self._name, trailers):
            return error
        if way is self._way:
            self._give_up()
        return errors.NotConnected(f"at {self._address}: {error}")


class _ClientPipe(NotFlat):
    """A ``pipes.ClientPipe``."""

    def __init__(self, call: aio.StreamStreamCall[bytes, bytes], understood: _Understood) -> None:
        self._call: aio.StreamStreamCall[bytes, bytes] | None = call
        self._understood = understood

    async def send(self, message: bytes) -> None:
        assert self._call is not None, "it was not cancelled"
        try:
            await self._call.write(message)
        except aio.AioRpcError as fault:
            _let_go(fault)
            raise self._understood(fault) from fault
        except asyncio.InvalidStateError as fault:
            # The stream has ended, and its status says why.
            raise grpc_edge.translated(
                await self._call.code(),
                await self._call.details(),
                await self._call.trailing_metadata(),
            ) from fault

    async def receive(self) -> bytes | None:
        assert self._call is not None, "it was not cancelled"
        return await _read(self._call, self._understood)

    async def answered_by(self) -> WireVersions | None:
        assert self._call is not None, "it was not cancelled"
        return grpc_edge.spoken_by(await self._call.initial_metadata())

    def cancel(self) -> None:
        if self._call is not None:
            self._call.cancel()
        self._call = None


async def _read(
    call: aio.StreamStreamCall[bytes, bytes] | aio.UnaryStreamCall[bytes, bytes],
    understood: _Understood,
) -> bytes | None:
    try:
        message = await call.read()
    except aio.AioRpcError as fault:
        del call
        _let_go(fault)
        raise understood(fault) from fault
    except asyncio.CancelledError as fault:
        del call
        _let_go(fault)
        if _asked_to_end():
            raise
        raise errors.ConnectionLost(_CLOSED) from fault
    return message if isinstance(message, bytes) else None  # aio.EOF


def _let_go(fault: BaseException) -> None:
    """Make a failure hold no call of gRPC's."""
    traceback.clear_frames(fault.__traceback__)


def _asked_to_end() -> bool:
    """Was this task cancelled? gRPC raises the same error when its channel is closed."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
