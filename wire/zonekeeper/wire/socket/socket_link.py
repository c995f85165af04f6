"""A link over the socket lane: a connection for each of the two streams, and one for all calls.

Three connections instead of one, because each stream has a flow control of its own then: a bookie
that takes no more appends still answers reads. Each connection is made when it is first used, and
begins with a greeting that names the bookie that is meant. So a wrong port is found out before
anything is done there, even that of a bookie of Apache's. For the link the bookie is then not
reached (``NotConnected``).
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Final

from zonekeeper.placement.base.chance import Chance
from zonekeeper.wire.contract.inlets import FlatWay, Inlet
from zonekeeper.wire.contract.links import LinkSettings
from zonekeeper.wire.contract.pipes import StreamKind
from zonekeeper.wire.formats import bookie_names, errors, socket_framing, socket_messages
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.formats.socket_messages import (
    BookieGreeting,
    ClientGreeting,
    ConnectionKind,
    RefusedGreeting,
)
from zonekeeper.wire.formats.versions import WireVersions
from zonekeeper.wire.grpc import tls
from zonekeeper.wire.host.methods import Call, Q, R, Subscription
from zonekeeper.wire.link import patience
from zonekeeper.wire.link.offered_transport import LaneTransport
from zonekeeper.wire.link.stream_link import StreamLink
from zonekeeper.wire.socket.asked_calls import AskedCalls
from zonekeeper.wire.socket.connection import ConnectionTimes, Message
from zonekeeper.wire.socket.flat_stream import FlatStream
from zonekeeper.wire.socket.queued_pipe import QueuedPipe
from zonekeeper.wire.socket.socket_tls import SocketTls

#: A bookie that died silently is noticed within 15 s.
TIMES: Final = ConnectionTimes(silent_ms=15_000, ping_ms=10_000)

_CLOSED: Final = "the link was closed"
_KINDS: Final = {StreamKind.APPEND: ConnectionKind.APPEND, StreamKind.READ: ConnectionKind.READ}


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketPlace:
    """A bookie, and where its socket lane is."""

    #: As ``bookie_names.name_of`` spells it.
    name: str
    address: Address
    #: None: nothing is encrypted, and any peer that claims to be that bookie is believed.
    tls: SocketTls | None
    times: ConnectionTimes = TIMES


def connect(
    place: SocketPlace,
    *,
    tasks: asyncio.TaskGroup,
    chance: Chance,
    settings: LinkSettings | None = None,
) -> StreamLink:
    """Give a link to a bookie; it connects when it is first used.

    Raises NotConnected if no certificate could name the bookie.
    """
    settings = settings or LinkSettings()
    over = transport(place, tasks=tasks, settings=settings)
    bookie_id = bookie_names.bookie_of(place.name)
    return StreamLink(bookie_id, over, tasks=tasks, chance=chance, settings=settings)


def transport(
    place: SocketPlace, *, tasks: asyncio.TaskGroup, settings: LinkSettings
) -> LaneTransport:
    """Give the way under such a link."""
    if place.tls is not None:
        try:
            tls.check_id(bookie_names.bookie_of(place.name))
        except ValueError as error:
            raise errors.NotConnected(str(error)) from error
    dialler = _Dialler(place, settings.speaks)
    return _SocketTransport(dialler, tasks, connect_ms=settings.connect_timeout_ms)


@dataclass(frozen=True, slots=True)
class _Dialler:
    """Makes connections to one bookie."""

    place: SocketPlace
    speaks: WireVersions | None

    @property
    def address(self) -> Address:
        return self.place.address

    async def dial(self, kind: ConnectionKind) -> tuple[QueuedPipe, BookieGreeting]:
        """Connect and greet; raises NotConnected, or UnsupportedVersion.

        The caller must say by ``greeted`` who takes what comes.
        """
        pipe = QueuedPipe(times=self.place.times, bytes_max=socket_messages.GREETING_BYTES_MAX)
        try:
            greeting = await self._greeted(pipe, kind)
        except BaseException:
            pipe.connection.abort()
            raise
        return pipe, greeting

    async def _greeted(self, pipe: QueuedPipe, kind: ConnectionKind) -> BookieGreeting:
        loop = asyncio.get_running_loop()
        connection = pipe.connection
        context: ssl.SSLContext | None = (
            None if self.place.tls is None else self.place.tls.current()
        )
        meant = bookie_names.bookie_of(self.place.name)
        try:
            await loop.create_connection(
                lambda: connection,
                self.address.bare_host,
                self.address.port,
                ssl=context,
                server_hostname=None if context is None else meant,
            )
        except (OSError, ValueError) as fault:  # of names and TLS, too
            raise errors.NotConnected(f"at {self.address}: {fault}") from fault
        asked = ClientGreeting(bookie=self.place.name, kind=kind, speaks=self.speaks)
        try:
            connection.put(socket_messages.build_client_greeting(asked))
            message = await pipe.receive()
        except errors.WireError as fault:
            raise self._without_greeting(fault) from fault
        if message is None:
            raise self._without_greeting("the connection was closed")
        return self._understood(message)

    def _without_greeting(self, why: object) -> errors.NotConnected:
        return errors.NotConnected(
            f"at {self.address}: no greeting came: {why}; is it the port of the bookie's socket "
            "lane, and has it TLS as this side has?"
        )

    def _understood(self, message: Message) -> BookieGreeting:
        try:
            plugin, payload = socket_messages.parse_auth(message)
            if plugin == socket_messages.APACHE_PLUGIN:
                raise errors.NotConnected(
                    f"at {self.address}: a bookie of Apache BookKeeper answers; nothing was done"
                )
            if plugin != socket_messages.PLUGIN:
                raise errors.NotConnected(
                    f"at {self.address}: a bookie with the plugin {plugin[:40]!r} answers"
                )
            greeting = socket_messages.parse_bookie_greeting(payload)
        except (errors.FormatError, errors.BadRequest) as fault:
            raise errors.NotConnected(f"at {self.address}: {fault}") from fault
        if isinstance(greeting, RefusedGreeting):
            error = errors.from_number(greeting.code, greeting.detail)
            if isinstance(error, errors.UnsupportedVersion):
                raise error
            raise errors.NotConnected(f"at {self.address}: {error}")
        return greeting


class _SocketTransport:
    """A ``transports.Transport``."""

    def __init__(self, dialler: _Dialler, tasks: asyncio.TaskGroup, *, connect_ms: int) -> None:
        self._dialler = dialler
        self.place = f"the socket lane at {dialler.address}"
        self._connect_ms = connect_ms
        self._tasks = tasks
        self._streams: set[_ClientPipe] = set()
        self._calls: AskedCalls | None = None
        #: An error is a result and not an exception here, because perhaps no caller waits for it.
        self._dialling: asyncio.Task[AskedCalls | errors.ProtocolError] | None = None
        self._closed = False

    def stream(self, kind: StreamKind) -> "_ClientPipe":
        pipe = _ClientPipe(self._dialler, _KINDS[kind], self._streams)
        if not self._closed:
            self._streams.add(pipe)
        else:
            pipe.cancel()
        return pipe

    async def reach(self) -> None:
        """Connect for calls, if that is not done; raises NotConnected."""
        await self._connected()

    async def call(self, method: Call[Q, R], request: Q, timeout_ms: int) -> R:
        asked = method.request.encode(request)
        was_asked = False
        try:
            async with patience.timeout(timeout_ms):
                calls = await self._connected()
                async with calls.turn():
                    was_asked = True
                    reply = await calls.ask(method.name, asked, timeout_ms)
        except TimeoutError as late:
            if not was_asked:
                raise errors.NotConnected(
                    f"{self._dialler.address}: not connected, or too many calls under way, for "
                    f"{timeout_ms} ms; nothing was done"
                ) from late
            raise errors.Timeout(
                f"{self._dialler.address}: no answer to {method.name} in {timeout_ms} ms"
            ) from late
        return method.reply.decode(reply)

    async def subscribe(self, method: Subscription[Q, R], request: Q) -> AsyncGenerator[R, None]:
        asked = method.request.encode(request)
        calls = await self._connected()
        answers = calls.subscribe(method.name, asked)
        try:
            while (answer := await answers.next()) is not None:
                yield method.reply.decode(answer)
        finally:
            answers.cancel()

    async def close(self) -> None:
        self._closed = True
        for pipe in list(self._streams):
            pipe.cancel()
        if self._dialling is not None:
            self._dialling.cancel()
            await asyncio.wait([self._dialling])
        if self._calls is not None:
            self._calls.close(errors.ConnectionLost(_CLOSED))

    async def _connected(self) -> AskedCalls:
        """Give the connection for calls; callers that need it at the same time share an attempt."""
        if self._closed:
            raise errors.NotConnected(_CLOSED)
        if self._calls is not None and self._calls.is_alive:
            return self._calls
        if self._dialling is None:
            self._dialling = self._tasks.create_task(self._dial_for_calls())
        try:
            made = await asyncio.shield(self._dialling)
        except asyncio.CancelledError as ending:
            if self._closed:
                raise errors.NotConnected(_CLOSED) from ending
            raise
        if isinstance(made, errors.ProtocolError):
            raise type(made)(made.detail) from made
        return made

    async def _dial_for_calls(self) -> AskedCalls | errors.ProtocolError:
        try:
            async with patience.timeout(self._connect_ms):
                pipe, greeting = await self._dialler.dial(ConnectionKind.CALLS)
        except (errors.NotConnected, errors.UnsupportedVersion) as error:
            return error
        except TimeoutError:
            return errors.NotConnected(f"{self.place}: no greeting in {self._connect_ms} ms")
        else:
            self._calls = AskedCalls(pipe.connection, greeting.calls_max)
            return self._calls
        finally:
            self._dialling = None


class _ClientPipe:
    """A ``pipes.ClientPipe``; the first ``receive`` connects."""

    def __init__(self, dialler: _Dialler, kind: ConnectionKind, others: "set[_ClientPipe]") -> None:
        self._dialler = dialler
        self._kind = kind
        self._others = others
        self._pipe: QueuedPipe | None = None
        self._speaks: WireVersions | None = None
        self._cancelled = False

    async def send(self, message: bytes) -> None:
        assert self._pipe is not None, "a stream is spoken on after it was heard"
        await self._pipe.send(message)

    async def receive(self) -> Message | None:
        if self._pipe is None:
            if self._cancelled:
                raise errors.NotConnected(_CLOSED)
            pipe, greeting = await self._dialler.dial(self._kind)
            if self._cancelled:
                pipe.connection.abort()
                raise errors.NotConnected(_CLOSED)
            self._pipe, self._speaks = pipe, greeting.speaks
            pipe.connection.greeted(pipe, socket_framing.MESSAGE_BYTES_MAX)
        message = await self._pipe.receive()
        if message is None:
            raise errors.ConnectionLost("the bookie has gone")
        return message

    async def answered_by(self) -> WireVersions | None:
        return self._speaks

    def attach(self, inlet: Inlet) -> FlatWay | None:
        assert self._pipe is not None, "a stream is attached after it was heard"
        stream = FlatStream(self._pipe.connection)
        stream.begin(inlet)
        self._pipe.hand_over(stream)
        return stream

    def cancel(self) -> None:
        self._cancelled = True
        self._others.discard(self)
        if self._pipe is not None:
            self._pipe.connection.abort()
