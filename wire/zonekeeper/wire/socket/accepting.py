"""Connections of a port from their first byte until the peer has shaken hands (``handshakes``).

Whatever strangers do here takes little of the event loop, because appends run in the same one:

* A turn of the loop takes at most ``HANDLED_A_TURN`` connections, and begins one handshake. Those
  that came together are out of patience together, and all may break off at once: of them, too, no
  more end in a turn.
* With TLS a handshake begins when the peer's whole hello is here. Until then a connection is a
  socket and an entry of a table. The kernel wakes this process for the whole hello, not for each of
  its bytes (``SO_RCVLOWAT``). A kernel that wakes it earlier is asked again after a time that
  doubles.
* A connection that must go for others is ended without a line of its own in the log.

The hello is looked at and stays in the kernel, for TLS to read it.
"""

import asyncio
import logging
import select
import socket
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Final, Protocol

from zonekeeper.wire.formats import socket_framing
from zonekeeper.wire.formats.socket_framing import Dialect
from zonekeeper.wire.running import listening
from zonekeeper.wire.socket.connection import EndCause
from zonekeeper.wire.socket.handshakes import HandshakeLimits, Handshakes

#: Connections that are taken, or end, before anything else runs.
HANDLED_A_TURN: Final = 8
#: The pause after a failure to take a connection, such as too many open files.
_ACCEPT_PAUSE_S: Final = 0.1
#: The time between two lines about connections that had to go.
_TELL_S: Final = 10.0
#: The head of a record of TLS: its kind, a version, and the length of what follows.
_RECORD_HEAD_BYTES: Final = 5
#: No record is longer (RFC 8446, 5.1); a hello that is comes in several.
_RECORD_BYTES_MAX: Final = 1 << 14
#: After so long a hello that is not whole is looked at again, where the kernel woke us for it.
_LOOK_AGAIN_S: Final = 0.01

_logger = logging.getLogger(__name__)


@dataclass(slots=True)
class SocketFigures:
    """What a port has seen since the start."""

    now: int = 0
    #: Those of them whose peers have not shaken hands.
    unfinished: int = 0
    #: Connections that have ended, by cause.
    ended: Counter[EndCause] = field(default_factory=Counter)


class Unfinished:
    """A connection whose peer has not shaken hands."""

    def __init__(self, sock: socket.socket, sockname: tuple[object, ...], since_s: float) -> None:
        self.sock = sock
        self.peer = listening.peer_of(sockname)
        #: Its patience counts from here.
        self.since_s = since_s
        #: What shakes hands, once that has begun.
        self.task: asyncio.Task[None] | None = None
        #: Has ``task`` taken the socket? A task that is cancelled at once never runs.
        self.is_taken = False
        #: Why it must go, if ``task`` was cancelled for that.
        self.goes = False
        #: With fewer bytes there is nothing to look at.
        self.wanted_bytes = _RECORD_HEAD_BYTES
        self.look_again_s = _LOOK_AGAIN_S
        #: The next look at it, once the kernel has woken this process too early.
        self.timer: asyncio.TimerHandle | None = None


class Served(Protocol):
    """What becomes of connections (``SocketServer``)."""

    def admits(self, peer: str) -> bool:
        """Say whether one more connection is taken; otherwise it has been counted as ended."""
        ...

    def begin(self, one: Unfinished) -> "asyncio.Task[None]":
        """Shake hands and serve, in a task; ``Accepting.finished`` hears of it in any case."""
        ...

    def ended(self, peer: str, cause: EndCause, why: object) -> None:
        """Note the end of a connection that was admitted and not begun."""
        ...


class Accepting:
    """Takes the connections of a listener, which its caller closes."""

    def __init__(
        self,
        listener: socket.socket,
        served: Served,
        figures: SocketFigures,
        *,
        limits: HandshakeLimits,
        patience_ms: int,
        waits_for_hello: bool,
    ) -> None:
        """``waits_for_hello``: a peer must begin with TLS's hello."""
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._served = served
        self._figures = figures
        self._patience_ms = patience_ms
        self._waits_for_hello = waits_for_hello
        self._handshakes: Handshakes[Unfinished] = Handshakes(limits, self._loop.time())
        #: Those that have not begun, the oldest first.
        self._waiting: dict[Unfinished, None] = {}
        self._begun: dict[Unfinished, None] = {}
        #: Those of the waiting ones whose handshake has failed, and why.
        self._failed: deque[tuple[Unfinished, str]] = deque()
        self._patience: asyncio.TimerHandle | None = None
        self._beginning: asyncio.Handle | None = None
        self._paused: asyncio.TimerHandle | None = None
        self._has_stopped = False
        self._crowded_out = 0
        self._told_s: float | None = None
        self._loop.add_reader(listener, self._accept)

    def stop(self) -> None:
        """Take no more connections, and end those whose peers have not shaken hands."""
        if self._has_stopped:
            return
        self._has_stopped = True
        self._loop.remove_reader(self._listener)
        for timer in (self._patience, self._beginning, self._paused):
            if timer is not None:
                timer.cancel()
        self._patience = self._beginning = self._paused = None
        for one in list(self._waiting):
            self._end(one, EndCause.STOPPING, "the bookie is shutting down")
        for one in list(self._begun):
            assert one.task is not None
            one.task.cancel()

    def finished(self, one: Unfinished, *, succeeded: bool) -> None:
        """Note that a peer has shaken hands, or that its connection is over."""
        if one not in self._begun:
            return
        del self._begun[one]
        self._leave(one, succeeded=succeeded)
        if self._beginning is not None:  # there may be a turn earlier now
            self._beginning.cancel()
            self._beginning = None
            self._begin_soon()

    # ── taking connections ──

    def _accept(self) -> None:
        for _ in range(HANDLED_A_TURN):
            try:
                sock, sockname = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as fault:
                _logger.warning("socket: cannot take a connection: %s", fault)
                self._loop.remove_reader(self._listener)
                self._paused = self._loop.call_later(_ACCEPT_PAUSE_S, self._go_on)
                return
            self._take(sock, sockname)

    def _go_on(self) -> None:
        self._paused = None
        self._loop.add_reader(self._listener, self._accept)

    def _take(self, sock: socket.socket, sockname: tuple[object, ...]) -> None:
        sock.setblocking(False)
        one = Unfinished(sock, sockname, self._loop.time())
        if not self._served.admits(one.peer):
            sock.close()
            return
        goes = self._handshakes.come(one, listening.host_of(sockname))
        self._figures.unfinished = len(self._handshakes)
        if goes is not None:
            self._crowd_out(goes)
        if not self._waits_for_hello:
            self._serve(one)
            return
        self._waiting[one] = None
        if self._patience is None:
            self._wait_for_oldest()
        _wake_at(sock, _RECORD_HEAD_BYTES)
        self._loop.add_reader(sock, self._look, one)

    def _crowd_out(self, one: Unfinished) -> None:
        self._crowded_out += 1
        now_s = self._loop.time()
        if self._told_s is None or now_s - self._told_s >= _TELL_S:
            self._told_s = now_s
            _logger.warning(
                "socket: %d connections had to go before their peers had shaken hands: newer ones "
                "come all the time, the last one to go was of %s",
                self._crowded_out,
                one.peer,
                extra={"peer": one.peer, "cause": EndCause.CROWDED_OUT.value},
            )
        if one.task is None:
            self._end(one, EndCause.CROWDED_OUT, None)
        else:
            self.finished(one, succeeded=False)
            one.goes = True
            one.task.cancel()

    # ── waiting for hellos ──

    def _look(self, one: Unfinished) -> None:
        """Look how much of a hello is here."""
        try:
            first = one.sock.recv(_RECORD_HEAD_BYTES + _RECORD_BYTES_MAX, socket.MSG_PEEK)
        except OSError:  # nothing is here, or the connection is broken
            first = None
        if first is None or 0 < len(first) < one.wanted_bytes:
            self._look_later(one)
        elif not first:
            self._fail(one, "the peer has gone")
        elif (size_bytes := _hello_bytes(first)) is None:
            self._fail(one, "this port has TLS, and the peer does not begin with its hello")
        elif len(first) >= size_bytes:
            self._loop.remove_reader(one.sock)
            _wake_at(one.sock, 1)
            self._handshakes.ready(one)
            self._begin_soon()
        else:
            one.wanted_bytes = size_bytes
            if one.timer is None:
                _wake_at(one.sock, size_bytes)
            else:
                self._look_later(one)

    def _look_later(self, one: Unfinished) -> None:
        """Look again after a time: the kernel has woken this process too early.

        It does so for the end of a connection, and where it does not know the option.
        """
        self._loop.remove_reader(one.sock)
        if _has_ended(one.sock):
            self._fail(one, "the peer has gone")
            return
        one.timer = self._loop.call_later(one.look_again_s, self._look, one)
        one.look_again_s *= 2

    def _wait_for_oldest(self) -> None:
        """Set the timer of the one whose patience is over first, if there is one."""
        self._patience = None
        oldest = next(iter(self._waiting), None)
        if oldest is not None:
            until_s = oldest.since_s + self._patience_ms / 1_000
            self._patience = self._loop.call_at(until_s, self._out_of_patience)

    def _out_of_patience(self) -> None:
        over_s = self._loop.time() - self._patience_ms / 1_000
        for _ in range(HANDLED_A_TURN):
            oldest = next(iter(self._waiting), None)
            if oldest is None or oldest.since_s > over_s:
                break
            self._end(oldest, EndCause.HANDSHAKE, f"no handshake within {self._patience_ms} ms")
        self._wait_for_oldest()

    def _fail(self, one: Unfinished, why: str) -> None:
        """End a connection in a turn to come: thousands of peers may break off in this one."""
        self._loop.remove_reader(one.sock)
        if not self._failed:
            self._loop.call_soon(self._end_failed)
        self._failed.append((one, f"the handshake failed: {why}"))

    def _end_failed(self) -> None:
        for _ in range(min(HANDLED_A_TURN, len(self._failed))):
            one, why = self._failed.popleft()
            if one in self._waiting:  # it had not to go meanwhile
                self._end(one, EndCause.HANDSHAKE, why)
        if self._failed:
            self._loop.call_soon(self._end_failed)

    def _end(self, one: Unfinished, cause: EndCause, why: object) -> None:
        """End a connection that has not begun."""
        del self._waiting[one]
        self._leave(one, succeeded=False)
        self._loop.remove_reader(one.sock)
        if one.timer is not None:
            one.timer.cancel()
        one.sock.close()
        self._served.ended(one.peer, cause, why)

    def _leave(self, one: Unfinished, *, succeeded: bool) -> None:
        self._handshakes.leave(one, succeeded=succeeded)
        self._figures.unfinished = len(self._handshakes)

    # ── turns ──

    def _serve(self, one: Unfinished) -> None:
        self._begun[one] = None
        one.task = self._served.begin(one)

    def _begin_soon(self) -> None:
        if self._beginning is None:
            wait_s = self._handshakes.wait_s(self._loop.time())
            if wait_s is not None:
                self._beginning = (
                    self._loop.call_later(wait_s, self._begin)
                    if wait_s
                    else self._loop.call_soon(self._begin)
                )

    def _begin(self) -> None:
        self._beginning = None
        begun = self._handshakes.next(self._loop.time())
        if begun is not None:
            one, goes = begun
            del self._waiting[one]
            self._serve(one)
            if goes is not None:
                self._crowd_out(goes)
        self._begin_soon()


def _hello_bytes(first: bytes) -> int | None:
    """Give the size of the record that a connection begins with; None: it is none of TLS."""
    if socket_framing.dialect(first[: socket_framing.FIRST_BYTES]) is not Dialect.TLS:
        return None
    size_bytes = int.from_bytes(first[3:_RECORD_HEAD_BYTES], "big")
    return _RECORD_HEAD_BYTES + size_bytes if 0 < size_bytes <= _RECORD_BYTES_MAX else None


def _has_ended(sock: socket.socket) -> bool:
    """Has the peer ended its side, or broken the connection? Unread bytes hide that from reads.

    Only Linux tells of the first; elsewhere patience ends such a connection.
    """
    poll = select.poll()
    poll.register(sock, getattr(select, "POLLRDHUP", 0))
    return bool(poll.poll(0))


def _wake_at(sock: socket.socket, size_bytes: int) -> None:
    """Let the kernel wake this process once so many bytes are here, or the end."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size_bytes)
