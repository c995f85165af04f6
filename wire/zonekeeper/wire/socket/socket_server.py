"""The socket lane at a bookie: a port in front of a bookie's host.

The first message of a connection is a greeting (``socket_messages``). It names the bookie that is
meant. It also says what the client speaks, and what the connection is for: one of the host's two
streams, or calls. A connection that begins with something else ends, and the log says what it was.
Apache BookKeeper's own dialects are recognised, and not served.

A peer that reaches the port may be hostile. Whatever it does ends its own connection and no other,
with a line in the log and a count by cause. Its memory here is bounded (``SocketLimits``).
"""

import asyncio
import functools
import logging
import socket
import ssl
from dataclasses import dataclass, field
from typing import Final

from zonekeeper.wire.formats import (
    bookie_names,
    carriers,
    errors,
    socket_framing,
    socket_messages,
)
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.formats.socket_framing import Dialect
from zonekeeper.wire.formats.socket_messages import (
    BookieGreeting,
    ClientGreeting,
    ConnectionKind,
    RefusedGreeting,
)
from zonekeeper.wire.host.access import Guard
from zonekeeper.wire.host.serving import Host
from zonekeeper.wire.host.shares import Shared
from zonekeeper.wire.identity import certificates
from zonekeeper.wire.running import listening
from zonekeeper.wire.socket import connection as connections
from zonekeeper.wire.socket import socket_calls
from zonekeeper.wire.socket.accepting import Accepting, SocketFigures, Unfinished
from zonekeeper.wire.socket.connection import (
    Connection,
    ConnectionTimes,
    EndCause,
    HalfMessages,
)
from zonekeeper.wire.socket.flat_stream import FlatStream
from zonekeeper.wire.socket.handshakes import HandshakeLimits
from zonekeeper.wire.socket.queued_pipe import QueuedPipe
from zonekeeper.wire.socket.socket_tls import SocketTls

_BACKLOG: Final = 1_024
#: The ends of honest connections, and those of which ``accepting`` tells.
_UNTOLD: Final = (EndCause.IN_ORDER, EndCause.LOST, EndCause.CROWDED_OUT, EndCause.STOPPING)

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketLimits:
    """The limits of a port."""

    #: Each connection is a descriptor; a link has three. Further ones are closed at once.
    connections_max: int = 8_192
    #: A peer must have finished TLS's handshake and the greeting within this time. It begins when
    #: the connection is taken.
    greeting_ms: int = 5_000
    handshakes: HandshakeLimits = field(default_factory=HandshakeLimits)
    #: Calls and tails of one connection at the same time.
    calls_max: int = 1_024
    tails_max: int = 1_024
    #: Messages of all connections that have begun and are not complete.
    half_bytes_max: int = 256 << 20
    times: ConnectionTimes = field(default_factory=ConnectionTimes)


class SocketServer:
    """Serves one host. The port is bound when this is made, and served after ``start``.

    It serves only connections that mean the bookie of this name (``bookie_names.name_of``).
    """

    def __init__(
        self,
        host: Host,
        address: Address,
        *,
        name: str,
        tls: SocketTls | None,
        limits: SocketLimits | None = None,
        figures: SocketFigures | None = None,
    ) -> None:
        self._host = host
        self._name = name
        self._tls = tls
        self._limits = limits or SocketLimits()
        self.figures = figures or SocketFigures()
        self._halves = HalfMessages(self._limits.half_bytes_max)
        try:
            self._listener = listening.opened(address, backlog=_BACKLOG)
        except OSError as fault:
            raise OSError(f"cannot listen on {address}: is the port taken? ({fault})") from fault
        self._listener.setblocking(False)
        #: Differs from the port in ``address`` if that was 0.
        self.port: int = self._listener.getsockname()[1]
        self._accepting: Accepting | None = None
        self._serving: set[asyncio.Task[None]] = set()

    @property
    def half_bytes(self) -> int:
        """The memory of half messages now."""
        return self._halves.bytes

    async def start(self) -> None:
        """Begin to serve."""
        self._accepting = Accepting(
            self._listener,
            self,
            self.figures,
            limits=self._limits.handshakes,
            patience_ms=self._limits.greeting_ms,
            waits_for_hello=self._tls is not None,
        )

    async def stop(self, grace_ms: int) -> None:
        """Take no new connections, and end those that are still there after the grace.

        Those whose peers have not shaken hands end at once.
        """
        if self._accepting is not None:
            self._accepting.stop()
        self._listener.close()
        if self._serving:
            await asyncio.wait(self._serving, timeout=grace_ms / 1_000)
        for task in self._serving:
            task.cancel()
        if self._serving:
            await asyncio.wait(self._serving)

    # ── what ``Accepting`` asks ──

    def admits(self, peer: str) -> bool:
        """Count one more connection, if there may be one."""
        if self.figures.now >= self._limits.connections_max:
            self._ended(peer, EndCause.TOO_MANY, "there are too many connections")
            return False
        self.figures.now += 1
        return True

    def begin(self, one: Unfinished) -> "asyncio.Task[None]":
        """Shake hands and serve."""
        task = asyncio.get_running_loop().create_task(self._serve(one))
        self._serving.add(task)
        task.add_done_callback(functools.partial(self._left, one))
        return task

    def ended(self, peer: str, cause: EndCause, why: object) -> None:
        """Note the end of a connection that was counted, and never served."""
        self.figures.now -= 1
        self._ended(peer, cause, why)

    def _left(self, one: Unfinished, task: "asyncio.Task[None]") -> None:
        self._serving.discard(task)
        self.figures.now -= 1
        if not one.is_taken:  # it was cancelled before it ran
            self._shaken(one, succeeded=False)
            one.sock.close()
            self._ended(one.peer, EndCause.CROWDED_OUT if one.goes else EndCause.STOPPING, None)
        if not task.cancelled() and (bug := task.exception()) is not None:
            _logger.error("socket: a bug ended a connection", exc_info=bug)

    def _ended(self, peer: str, cause: EndCause, why: object) -> None:
        self.figures.ended[cause] += 1
        if cause not in _UNTOLD:
            _logger.warning(
                "socket: ended the connection of %s: %s",
                peer,
                why,
                extra={"peer": peer, "cause": cause.value},
            )

    async def _serve(self, one: Unfinished) -> None:
        one.is_taken = True
        limits = self._limits
        pipe = QueuedPipe(
            times=limits.times,
            bytes_max=socket_messages.GREETING_BYTES_MAX,
            halves=self._halves,
        )
        connection = pipe.connection
        try:
            await self._greet_and_serve(one, pipe)
            connection.leave(None, EndCause.IN_ORDER)
        except errors.WireError as error:
            connection.fail(error, connections.cause_of(error))
        except _RefusedError as refused:
            connection.leave(refused.error, refused.cause)
            # It may have ended before, for a reason that says less.
            connection.failure, connection.cause = refused.error, refused.cause
        except asyncio.CancelledError:
            if one.goes:
                connection.gone_if_never_made()
                connection.abort()
                self._ended(one.peer, EndCause.CROWDED_OUT, None)
                return
            stopping = errors.ShuttingDown("the bookie is shutting down")
            connection.fail(stopping, EndCause.STOPPING)
            connection.abort_soon()
            raise
        except BaseException:
            connection.abort()
            raise
        finally:
            self._shaken(one, succeeded=False)
        self._ended(one.peer, connection.cause, connection.failure)
        await connection.gone.wait()

    def _shaken(self, one: Unfinished, *, succeeded: bool) -> None:
        assert self._accepting is not None
        self._accepting.finished(one, succeeded=succeeded)

    async def _greet_and_serve(self, one: Unfinished, pipe: QueuedPipe) -> None:
        connection, limits = pipe.connection, self._limits
        try:
            async with asyncio.timeout_at(one.since_s + limits.greeting_ms / 1_000):
                await self._shake_hands(one.sock, connection)
                names = None if self._tls is None else certificates.names_in(connection.certificate)
                if names is not None:
                    self._shaken(one, succeeded=True)
                guard = self._host.access.guard(names, one.peer)
                greeting, version = await self._greet(pipe, guard)
                self._shaken(one, succeeded=True)
        except TimeoutError as late:
            connection.gone_if_never_made()
            error = errors.Timeout(f"no greeting within {limits.greeting_ms} ms")
            raise _RefusedError(error, EndCause.HANDSHAKE) from late
        await self._serve_kind(greeting.kind, pipe, version, guard)

    async def _serve_kind(
        self, kind: ConnectionKind, pipe: QueuedPipe, version: int, guard: Guard
    ) -> None:
        connection, limits = pipe.connection, self._limits
        match kind:
            case ConnectionKind.APPEND:
                stream = FlatStream(connection)
                with self._host.appending(stream, version, guard) as inlet:
                    stream.begin(inlet)
                    connection.greeted(stream, socket_framing.MESSAGE_BYTES_MAX)
                    await stream.over()
            case ConnectionKind.READ:
                connection.greeted(pipe, socket_framing.MESSAGE_BYTES_MAX)
                await self._host.serve_reads(pipe, version, guard)
            case ConnectionKind.CALLS:
                of_calls = socket_calls.CallLimits(
                    calls_max=limits.calls_max,
                    tails_max=limits.tails_max,
                    send_ms=limits.times.send_ms,
                )
                with self._host.shares.joined(guard, Shared.STREAMS):
                    await socket_calls.serve_calls(self._host, connection, guard, of_calls)

    async def _shake_hands(self, sock: socket.socket, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        context: ssl.SSLContext | None = None if self._tls is None else self._tls.current()
        try:
            await loop.connect_accepted_socket(lambda: connection, sock, ssl=context)
        except (OSError, ValueError) as fault:  # of TLS, too; ValueError: names that are no text
            connection.gone_if_never_made()
            error = errors.UnauthorizedAccess(f"the handshake failed: {fault}")
            raise _RefusedError(error, EndCause.HANDSHAKE) from fault

    async def _greet(self, pipe: QueuedPipe, guard: Guard) -> tuple[ClientGreeting, int]:
        """Take the greeting and answer it; give it, and the version that both sides speak."""
        connection = pipe.connection
        try:
            message = await pipe.receive()
        except errors.WireError as fault:
            raise self._stranger(connection.first, fault, connection.cause) from fault
        if message is None:
            raise _RefusedError(None, EndCause.IN_ORDER)
        try:
            plugin, payload = socket_messages.parse_auth(message)
        except errors.FormatError as fault:
            first = socket_framing.headed(bytes(message))[: socket_framing.FIRST_BYTES]
            raise self._stranger(first, fault, EndCause.MALFORMED) from fault
        if plugin != socket_messages.PLUGIN:
            raise self._of(Dialect.APACHE_2, f"its plugin is {plugin[:40]!r}")
        try:
            greeting = socket_messages.parse_client_greeting(payload)
            bookie_names.check_meant(self._name, [greeting.bookie])
            version = self._host.meet(greeting.speaks, bookie_names.bookie_of(self._name))
            self._host.shares.check(guard, Shared.STREAMS)
        except errors.WireError as fault:
            error = _told(fault)
            refused = RefusedGreeting(code=error.code, detail=error.detail)
            connection.put(socket_messages.build_bookie_greeting(refused))
            raise _RefusedError(error, connections.cause_of(error)) from fault
        answer = BookieGreeting(
            boot_epoch=self._host.bookie.boot_epoch,
            speaks=self._host.speaks,
            message_bytes_max=carriers.CARRIER_BYTES_MAX,
            calls_max=self._limits.calls_max,
        )
        connection.put(socket_messages.build_bookie_greeting(answer))
        return greeting, version

    def _stranger(self, first: bytes, fault: errors.WireError, cause: EndCause) -> "_RefusedError":
        """Give why a connection ends that began with these bytes: they say it, or the fault."""
        dialect = socket_framing.dialect(first) if first else Dialect.UNKNOWN
        if dialect in (Dialect.UNKNOWN, Dialect.GREETING):
            return _RefusedError(_told(fault), cause)
        return self._of(dialect, "")

    def _of(self, dialect: Dialect, why: str) -> "_RefusedError":
        told = "this port has no TLS" if dialect is Dialect.TLS else "this port serves only our own"
        error = errors.BadRequest(
            f"the peer speaks {dialect.value}, and {told}" + (f" ({why})" if why else "")
        )
        return _RefusedError(error, EndCause.OTHER_PROTOCOL)


def _told(fault: errors.WireError) -> errors.ProtocolError:
    if isinstance(fault, errors.FormatError):
        return fault.as_protocol_error()
    assert isinstance(fault, errors.ProtocolError)
    return fault


class _RefusedError(Exception):
    """Ends a connection before both sides have greeted: the reason cannot be told, or was."""

    def __init__(self, error: errors.ProtocolError | None, cause: EndCause) -> None:
        super().__init__(str(error))
        self.error = error
        self.cause = cause
