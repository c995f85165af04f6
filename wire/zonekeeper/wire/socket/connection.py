"""One connection of the socket lane, at either end: one protocol object, and no task of its own.

It cuts what comes into messages (``socket_framing``), answers pings, and hands every other message
to its ``Taker`` at once. It decides nothing about what the messages mean. It ends the connection,
and this one alone, if its peer breaks a rule that is the same for all:

* A message that has begun is complete within ``half_ms``.
* A peer that is sent something takes it within ``send_ms``.
* A peer is heard at least every ``silent_ms``. The side that has a ``ping_ms`` pings before that.
* Lengths are legal.

Time in which this process stood still, and time in which it did not read, is blamed on no peer. One
timer looks at all of these, so they may be noticed up to a quarter of the shortest time late.

A side that ends a connection says why, and then reads on, without looking, until the peer has gone
or ``LINGER_MS`` are over. To close a socket with unread bytes would destroy the reason on its way.
"""

import asyncio
import enum
import socket
import ssl
from dataclasses import dataclass
from typing import Final, Protocol

from zonekeeper.wire.formats import errors, socket_framing, socket_messages
from zonekeeper.wire.formats.socket_framing import Incoming
from zonekeeper.wire.link.patience import LATE_MS

#: The time for a peer to take the reason for which its connection ends.
LINGER_MS: Final = 2_000
#: With more bytes than this that have not left, nothing further is sent.
UNSENT_BYTES_MAX: Final = 64 << 10
_LOOKS_IN_SHORTEST: Final = 4
#: A message of fewer bytes is joined with its length before it is sent.
JOINED_BYTES_MAX: Final = 64 << 10

Message = bytes | bytearray


class EndCause(enum.Enum):
    """Why a connection ended, for a metric."""

    IN_ORDER = "in-order"
    LOST = "lost"
    HANDSHAKE = "handshake"
    OTHER_PROTOCOL = "other-protocol"
    NOT_MEANT = "not-meant"
    VERSION = "version"
    WRONG_KEYS = "wrong-keys"
    MALFORMED = "malformed"
    OVERSIZED = "oversized"
    HALF_MESSAGE = "half-message"
    TAKES_NOTHING = "takes-nothing"
    SILENT = "silent"
    TOO_MANY = "too-many"
    CROWDED_OUT = "crowded-out"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionTimes:
    """The times after which a connection ends that makes no progress."""

    half_ms: int = 30_000
    send_ms: int = 30_000
    silent_ms: int = 30_000
    #: After so much silence of either side this side pings; 0: it never does.
    ping_ms: int = 0

    def shortest_ms(self) -> int:
        """Give the shortest of the times."""
        return min(filter(None, (self.half_ms, self.send_ms, self.silent_ms, self.ping_ms)))


class Taker(Protocol):
    """Takes what a connection hears."""

    def taken(self, message: Message) -> None:
        """Take a message; raises ``WireError`` if it breaks a rule: then the connection ends."""
        ...

    def ended(self) -> None:
        """Note that nothing more comes; ``Connection.failure`` says why."""
        ...

    def writable(self) -> None:
        """Note that the peer takes what it is sent again."""
        ...


class HalfMessages:
    """The memory of half messages of all connections of a port, with a limit.

    Above the limit the connection ends whose half message began first: honest ones take moments.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._held: dict[Connection, int] = {}
        self.bytes = 0

    def hold(self, connection: "Connection", size_bytes: int) -> None:
        """Note how much a connection's half message takes now."""
        self.bytes += size_bytes - self._held.get(connection, 0)
        if size_bytes:
            self._held[connection] = size_bytes
        else:
            self._held.pop(connection, None)
        while self.bytes > self._bytes_max:
            oldest = next(iter(self._held))
            oldest.fail(
                errors.TooManyRequests(
                    f"half messages take {self.bytes} bytes, the limit is {self._bytes_max}: "
                    "send messages whole"
                ),
                EndCause.HALF_MESSAGE,
            )


class Connection(asyncio.BufferedProtocol):
    """One end of a connection."""

    def __init__(
        self,
        taker: Taker,
        *,
        times: ConnectionTimes,
        bytes_max: int,
        halves: HalfMessages | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._times = times
        self.taker = taker
        self.incoming = Incoming(bytes_max)
        self._halves = halves
        self._transport: asyncio.Transport | None = None
        #: Why it ended; None with ``is_over``: the peer ended it in order.
        self.failure: errors.WireError | None = None
        self.is_over = False
        self.cause = EndCause.IN_ORDER
        #: The first bytes, if they were no legal message.
        self.first = b""
        #: Set once nothing of it is left.
        self.gone = asyncio.Event()
        self._has_greeting = False
        #: What came and was not handed over: the taker has enough, or both sides have not greeted.
        self._aside: list[Message] = []
        self._is_handing = False
        self._greeted = False
        self._reading = True
        self._writable = asyncio.Event()
        self._writable.set()
        #: A side that takes no answers is not heard, where each message has an answer.
        self.stops_reading_while_stuck = False
        self._stuck_s: float | None = None
        now_s = self._loop.time()
        self._begun_s: float | None = None
        self._heard_s = self._sent_s = self._pinged_s = now_s
        self._looked_s = now_s
        self._look_every_s = times.shortest_ms() / _LOOKS_IN_SHORTEST / 1_000
        self._timer: asyncio.TimerHandle | None = None

    # ── asyncio's side ──

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to look at times."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=UNSENT_BYTES_MAX)
        _send_at_once(transport)
        now_s = self._loop.time()
        self._heard_s = self._sent_s = self._looked_s = now_s
        self._timer = self._loop.call_later(self._look_every_s, self._look)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Give where to receive into."""
        del sizehint
        if self.is_over:
            return memoryview(bytearray(socket_framing.READ_BYTES))
        return self.incoming.room()

    def buffer_updated(self, nbytes: int) -> None:
        """Take the messages that are complete now."""
        if self.is_over:
            return
        self._heard_s = self._loop.time()
        try:
            messages = self.incoming.received(nbytes)
        except errors.FormatError as fault:
            self.first = self.incoming.first()
            self._fail_of(fault)
            return
        if messages:
            self._hand(messages)
        if not self.is_over:
            self._note_half(is_new=bool(messages))

    def eof_received(self) -> None:
        """Note that the peer has ended the connection in order."""
        self._over(None, EndCause.IN_ORDER)

    def pause_writing(self) -> None:
        """Note that the peer takes less than it is sent."""
        self._writable.clear()
        self._stuck_s = self._loop.time()
        if self.stops_reading_while_stuck:
            self.pause_reading()

    def resume_writing(self) -> None:
        """Note that the peer has taken enough."""
        self._writable.set()
        self._stuck_s = None
        if self.stops_reading_while_stuck:
            self.resume_reading()
        self.taker.writable()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that nothing is left of the connection."""
        lost = errors.ConnectionLost(f"the connection was lost: {exc or 'the peer has gone'}")
        self._over(None if exc is None else lost, EndCause.LOST if exc else EndCause.IN_ORDER)
        if self._timer is not None:
            self._timer.cancel()
        self._writable.set()
        self.gone.set()

    # ── our side ──

    def greeted(self, taker: Taker, bytes_max: int) -> None:
        """Note that both sides have greeted; what came meanwhile goes to this taker now."""
        self._greeted = True
        self.taker = taker
        self.incoming.bytes_max = bytes_max
        if self.is_over:
            taker.ended()
        self.resume_reading()

    @property
    def certificate(self) -> bytes:
        """The peer's certificate in DER, which was checked; empty without one."""
        assert self._transport is not None
        secured: ssl.SSLObject | None = self._transport.get_extra_info("ssl_object")
        return (secured and secured.getpeercert(binary_form=True)) or b""

    def pass_to(self, taker: Taker, messages: list[Message]) -> None:
        """Go on with another taker, and give it what the one before had not used."""
        self.taker = taker
        if self.is_over:
            taker.ended()
        elif messages:
            self._aside = [*messages, *self._aside]
            self.pause_reading()
        self.resume_reading()

    @property
    def has_room(self) -> bool:
        """Does the peer take what it is sent?"""
        return self._writable.is_set() and not self.is_over

    async def send(self, body: bytes) -> None:
        """Send a message; return when there is room for another. Raises if the peer is gone."""
        while not self._writable.is_set() and not self.is_over:
            await self._writable.wait()
        self.put(body)
        while not self._writable.is_set() and not self.is_over:
            await self._writable.wait()
        self._check_alive()

    def put(self, body: bytes) -> None:
        """Send a message at once, whatever waits already; raises if the connection is over."""
        self._check_alive()
        self._write(body)

    def pause_reading(self) -> None:
        """Read nothing more for the time being."""
        if self._reading and not self.is_over:
            self._reading = False
            assert self._transport is not None
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again, once what was put aside is handed over; the peer's times begin anew."""
        if not self._reading:
            self._reading = True
            self._heard_s = self._loop.time()
            if self._begun_s is not None:
                self._begun_s = self._heard_s
            self._go_on()

    def fail(self, error: errors.WireError, cause: EndCause) -> None:
        """End the connection for this reason; the peer is told it."""
        if self.is_over:
            return
        assert isinstance(error, errors.ProtocolError), "format errors are translated before"
        if self._greeted:
            end = socket_messages.StreamEnd(code=error.code, detail=error.detail)
            self._write(socket_messages.build(end))
        self.leave(error, cause)

    def leave(self, error: errors.WireError | None, cause: EndCause) -> None:
        """End the connection: what was sent may still be taken, and nothing more is heard."""
        self._over(error, cause)
        if self._transport is None or self._transport.is_closing():
            return
        self._reading = True
        self._transport.resume_reading()  # without looking, until the peer has gone
        if self._transport.can_write_eof():
            self._transport.write_eof()
            self._loop.call_later(LINGER_MS / 1_000, self._abort)
        else:
            self._loop.call_later(LINGER_MS / 1_000, self._abort)
            self._transport.close()

    def abort(self) -> None:
        """End the connection without a word."""
        self._over(errors.ConnectionLost("this side has ended it"), EndCause.IN_ORDER)
        self._abort()

    def abort_soon(self) -> None:
        """Leave the last words a moment to be sent, and no time to be taken."""
        if self._transport is None:
            self.gone.set()
        else:
            self._loop.call_soon(self._abort)

    def gone_if_never_made(self) -> None:
        """Note that there will be no connection, if none was made yet."""
        if self._transport is None:
            self._over(None, EndCause.HANDSHAKE)
            self.gone.set()

    def _go_on(self) -> None:
        """Hand over what was put aside, in a turn of its own, and then read again."""
        if self.is_over or not self._reading:
            return
        assert self._transport is not None
        if not self._aside:
            self._transport.resume_reading()
        elif not self._is_handing:
            self._is_handing = True
            self._loop.call_soon(self._hand_aside)

    def _hand_aside(self) -> None:
        self._is_handing = False
        aside, self._aside = self._aside, []
        self._hand(aside)
        self._go_on()

    def _abort(self) -> None:
        # asyncio fails to abort a connection that is gone.
        if self._transport is not None and not self.gone.is_set():
            self._transport.abort()

    def _check_alive(self) -> None:
        if self.is_over:
            raise self.failure or errors.ConnectionLost("the peer has ended the connection")

    def _write(self, body: bytes) -> None:
        assert self._transport is not None
        self._sent_s = self._loop.time()
        if len(body) < JOINED_BYTES_MAX:
            self._transport.write(socket_framing.headed(body))
        else:  # one more call of the system costs less than a copy
            self._transport.write(socket_framing.head(body))
            self._transport.write(body)

    def _hand(self, messages: list[Message]) -> None:
        """Hand messages over, up to the one at which the taker has enough."""
        try:
            for at, message in enumerate(messages):
                if self.is_over:
                    return
                if not self._reading:
                    self._aside += messages[at:]
                    return
                self._take(message)
        except errors.FormatError as fault:
            self._fail_of(fault)
        except errors.WireError as error:
            self.fail(error, cause_of(error))

    def _fail_of(self, fault: errors.FormatError) -> None:
        oversized = fault.fault is errors.Fault.OVERSIZED
        cause = EndCause.OVERSIZED if oversized else EndCause.MALFORMED
        self.fail(fault.as_protocol_error(), cause)

    def _take(self, message: Message) -> None:
        if not self._greeted:
            if self._has_greeting:
                self._aside.append(message)
                self.pause_reading()
            else:
                self._has_greeting = True
                self.taker.taken(message)
        elif socket_messages.is_carrier(message):
            self.taker.taken(message)
        elif message == _PING:
            if self._writable.is_set():
                self._write(_PONG)
        elif message == _PONG:
            pass
        elif message.startswith(_END_TAG):
            end = socket_messages.parse(message)
            assert isinstance(end, socket_messages.StreamEnd)
            error = socket_messages.error_of(end.code, end.detail)
            self._over(error, EndCause.IN_ORDER)
            assert self._transport is not None
            self._transport.close()
        else:
            self.taker.taken(message)

    def _note_half(self, *, is_new: bool) -> None:
        if not self.incoming.half_bytes:
            self._begun_s = None
        elif is_new or self._begun_s is None:
            self._begun_s = self._heard_s
        if self._halves is not None:
            self._halves.hold(self, self.incoming.held_bytes)

    def _over(self, error: errors.WireError | None, cause: EndCause) -> None:
        if self.is_over:
            return
        self.is_over, self.failure, self.cause = True, error, cause
        if self._halves is not None:
            self._halves.hold(self, 0)
        self.incoming.drop()
        self._aside.clear()
        self._writable.set()
        self.taker.ended()

    def _look(self) -> None:
        """End the connection if a time is over; ping if it is time."""
        if self.is_over:
            return
        now_s = self._loop.time()
        stood_s = now_s - self._looked_s - self._look_every_s
        if stood_s > LATE_MS / 1_000:  # this process stood still: what came may still be unread
            self._shift(stood_s)
        self._looked_s = now_s
        self._timer = self._loop.call_later(self._look_every_s, self._look)
        times = self._times
        if self._stuck_s is not None and _is_over(times.send_ms, self._stuck_s, now_s):
            late: errors.ProtocolError = errors.Timeout(
                f"the peer took nothing for {times.send_ms} ms; take answers, or ask for less"
            )
            self.fail(late, EndCause.TAKES_NOTHING)
        elif not self._reading:
            return
        elif self._begun_s is not None and _is_over(times.half_ms, self._begun_s, now_s):
            late = errors.Timeout(f"half a message, and no more of it within {times.half_ms} ms")
            self.fail(late, EndCause.HALF_MESSAGE)
        elif _is_over(times.silent_ms, self._heard_s, now_s):
            late = errors.ConnectionLost(f"nothing was heard for {times.silent_ms} ms")
            self.fail(late, EndCause.SILENT)
        elif times.ping_ms and self._greeted and self._writable.is_set():
            quiet_since_s = max(min(self._heard_s, self._sent_s), self._pinged_s)
            if _is_over(times.ping_ms, quiet_since_s, now_s):
                self._pinged_s = now_s
                self._write(_PING)

    def _shift(self, stood_s: float) -> None:
        self._heard_s += stood_s
        if self._begun_s is not None:
            self._begun_s += stood_s
        if self._stuck_s is not None:
            self._stuck_s += stood_s


def _send_at_once(transport: asyncio.Transport) -> None:
    """Let no small message wait in the kernel until the peer has acknowledged the one before.

    A peer acknowledges up to 40 ms late, or with its own next message. So the answer to an append
    would come with the next append. asyncio does this only for sockets that name their protocol,
    and those that a ``socket.socket`` has accepted do not.
    """
    transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


_PING: Final = socket_messages.build(socket_messages.Ping())
_PONG: Final = socket_messages.build(socket_messages.Pong())
_END_TAG: Final = socket_messages.build(socket_messages.StreamEnd(code=0))[:4]

_CAUSES: Final[tuple[tuple[type[errors.WireError], EndCause], ...]] = (
    (errors.UnsupportedVersion, EndCause.VERSION),
    (errors.UnauthorizedAccess, EndCause.WRONG_KEYS),
    (errors.NotConnected, EndCause.NOT_MEANT),
    (errors.TooManyRequests, EndCause.TOO_MANY),
    (errors.Timeout, EndCause.TAKES_NOTHING),
    (errors.ConnectionLost, EndCause.LOST),
    (errors.ShuttingDown, EndCause.STOPPING),
)


def cause_of(error: errors.WireError) -> EndCause:
    """Give the cause that an error of a stream stands for."""
    return next((cause for kind, cause in _CAUSES if isinstance(error, kind)), EndCause.MALFORMED)


def _is_over(time_ms: int, since_s: float, now_s: float) -> bool:
    return now_s - since_s > time_ms / 1_000
