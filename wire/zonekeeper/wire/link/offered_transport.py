"""The way to a bookie that may offer the socket lane: the lane where it is reached, else gRPC.

Each stream and each call finds its way by itself, and keeps it. So nothing that works is ever ended
because something else does not. A first attempt over the lane has a part of the time
(``1 / LANE_SHARE``), and gRPC has the rest: for the link above, and for the ledger, the bookie is
reached either way. What is decided, and when the lane is tried again, is in ``way_choice``.

A probe runs beside the callers. It reads what the bookie registers now, and connects there for
calls. If the lane is reached again, the link leaves its streams over gRPC (``when_reached``): what
is in them ends there, and what is new goes over the lane.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, Protocol

from zonekeeper.wire.contract.inlets import ClientPipe, FlatWay, Inlet
from zonekeeper.wire.contract.pipes import StreamKind
from zonekeeper.wire.formats import errors
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.formats.versions import WireVersions
from zonekeeper.wire.host.methods import Call, Q, R, Subscription
from zonekeeper.wire.lanes.way_choice import WayChoice
from zonekeeper.wire.link import patience
from zonekeeper.wire.link.transports import Transport

#: The part of the time to connect that a first attempt over the lane may take.
LANE_SHARE: Final = 4

#: The bookie was not reached. After any other error it was.
_UNREACHED: Final = (errors.NotConnected, errors.ConnectionLost, errors.Timeout)


class LaneTransport(Transport, Protocol):
    """The socket lane of a bookie."""

    async def reach(self) -> None:
        """Connect for calls, if that is not done; raises NotConnected."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedLane:
    """What a bookie's registration says of its lane."""

    address: Address | None
    boot_epoch: int | None


class WayWatcher(Protocol):
    """Is told when the way changes, for a log and a metric."""

    def blocked(self, why: str) -> None:
        """Note that the bookie is reached over gRPC, and not over its lane."""
        ...

    def opened(self) -> None:
        """Note that a lane that was blocked or absent is reached."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """How a bookie's lane is found and reached."""

    first: OfferedLane
    #: Reads the registration again; None: it cannot be read now.
    look: Callable[[], Awaitable[OfferedLane | None]]
    connect: Callable[[Address], LaneTransport]


@dataclass(frozen=True, slots=True)
class _Blame:
    """An attempt over the lane that failed: blamed if gRPC is reached."""

    attempt: int
    why: str


class OfferedTransport:
    """A ``transports.Transport`` over two of them, which it owns."""

    def __init__(
        self,
        grpc: Transport,
        offers: Offers,
        choice: WayChoice,
        *,
        watcher: WayWatcher,
        tasks: asyncio.TaskGroup,
        connect_timeout_ms: int,
    ) -> None:
        self.grpc = grpc
        self.choice = choice
        self.lane_ms = max(1, connect_timeout_ms // LANE_SHARE)
        self._offers = offers
        self._watcher = watcher
        self._tasks = tasks
        self._look_ms = connect_timeout_ms
        #: A stream needs more round trips than a probe. What a probe reaches just in time would be
        #: blocked again at once.
        self._probe_ms = max(1, self.lane_ms // 2)
        self._loop = asyncio.get_running_loop()
        self._address = offers.first.address
        self.lane = None if self._address is None else offers.connect(self._address)
        self._probing: asyncio.Task[None] | None = None
        self._renew: Callable[[], None] = _nothing
        self._closed = False

    @property
    def place(self) -> str:
        """Say where it leads, for error messages."""
        return self.grpc.place if self.lane is None else f"{self.lane.place}, {self.grpc.place}"

    def when_reached(self, renew: Callable[[], None]) -> None:
        """Have a function called whenever the lane may be used that was not used before."""
        self._renew = renew

    def heard(self, boot_epoch: int) -> None:
        """Note which start of the bookie has answered."""
        self.choice.started(boot_epoch)
        self.used()

    def used(self) -> None:
        """Start a probe of the lane if its time has come: only a link that is used probes."""
        if not self._closed and self.choice.probe(self._loop.time()):
            self._probing = self._tasks.create_task(self._probe())

    def stream(self, kind: StreamKind) -> "_OfferedPipe":
        """Start a stream; its first ``receive`` finds the way."""
        return _OfferedPipe(self, kind)

    async def call(self, method: Call[Q, R], request: Q, timeout_ms: int) -> R:
        """Send a request and wait for the answer; raises Timeout."""
        begun_s = self._loop.time()
        over, blame = await self._reach()
        left_ms = max(1, timeout_ms - int(1_000 * (self._loop.time() - begun_s)))
        try:
            reply = await over.call(method, request, left_ms)
        except _UNREACHED as fault:
            if blame is None:
                raise
            raise with_blame(fault, blame) from fault
        except errors.ProtocolError:
            self.blame(blame)
            raise
        self.blame(blame)
        return reply

    async def subscribe(self, method: Subscription[Q, R], request: Q) -> AsyncGenerator[R, None]:
        """Send a request, and give its answers until the iterator is closed."""
        over, blame = await self._reach()
        async with aclosing(over.subscribe(method, request)) as answers:
            async for answer in answers:
                self.blame(blame)
                blame = None
                yield answer

    async def close(self) -> None:
        """End the connections, and the probe."""
        self._closed = True
        if self._probing is not None:
            self._probing.cancel()
            await asyncio.wait([self._probing])
        if self.lane is not None:
            await self.lane.close()
        await self.grpc.close()

    def blame(self, blame: _Blame | None) -> None:
        """Note that gRPC was reached, perhaps after an attempt over the lane."""
        if blame is not None and self.choice.blocked(blame.attempt, self._loop.time()):
            self._watcher.blocked(blame.why)

    async def _reach(self) -> tuple[Transport, _Blame | None]:
        """Give the way for a call; with what is to be blamed if it is reached."""
        self.used()
        lane, attempt = self.lane, self.choice.attempt()
        if lane is None or attempt is None:
            return self.grpc, None
        try:
            async with patience.timeout(self.lane_ms):
                await lane.reach()
        except (errors.NotConnected, TimeoutError) as fault:
            return self.grpc, blame_for(attempt, lane, fault, self.lane_ms)
        return lane, None

    async def _probe(self) -> None:
        is_reached = False
        try:
            await self._look()
            if self.lane is not None:
                async with patience.timeout(self._probe_ms):
                    await self.lane.reach()
                is_reached = True
        except (errors.ProtocolError, TimeoutError):
            pass  # it was said once why, and the next probe comes later
        finally:
            is_open = self.choice.probed(is_reached=is_reached, now_s=self._loop.time())
        if is_open:
            self._watcher.opened()
            self._renew()

    async def _look(self) -> None:
        """Read what the bookie registers now; without an answer all stays as it was."""
        try:
            async with patience.timeout(self._look_ms):
                offered = await self._offers.look()
        except TimeoutError:
            return
        if offered is None or not self.choice.looked(
            is_offered=offered.address is not None, boot_epoch=offered.boot_epoch
        ):
            return
        if offered.address == self._address:
            return
        # A lane moves with a start of its bookie, so the connections to the former one are gone.
        former, self._address, self.lane = self.lane, offered.address, None
        if former is not None:
            await former.close()
        if offered.address is not None:
            self.lane = self._offers.connect(offered.address)


class _OfferedPipe:
    """A ``ClientPipe``; the first ``receive`` finds the way."""

    def __init__(self, ways: OfferedTransport, kind: StreamKind) -> None:
        self._ways = ways
        self._kind = kind
        self._pipe: ClientPipe | None = None
        self._cancelled = False

    async def send(self, message: bytes) -> None:
        assert self._pipe is not None, "a stream is spoken on after it was heard"
        await self._pipe.send(message)

    async def receive(self) -> bytes | bytearray | None:
        if self._pipe is not None:
            return await self._pipe.receive()
        ways = self._ways
        lane, attempt, blame = ways.lane, ways.choice.attempt(), None
        if lane is not None and attempt is not None:
            pipe = self._begin(lane)
            try:
                async with patience.timeout(ways.lane_ms):
                    first = await _first_of(pipe)
            except (errors.NotConnected, errors.ConnectionLost, TimeoutError) as fault:
                pipe.cancel()
                blame = blame_for(attempt, lane, fault, ways.lane_ms)
            else:
                ways.choice.reached(attempt)
                return first
        try:
            message = await self._begin(ways.grpc).receive()
        except _UNREACHED as fault:
            if blame is None:
                raise
            raise with_blame(fault, blame) from fault
        if message is not None:
            ways.blame(blame)
        return message

    async def answered_by(self) -> WireVersions | None:
        return await self._pipe_begun().answered_by()

    def attach(self, inlet: Inlet) -> FlatWay | None:
        return self._pipe_begun().attach(inlet)

    def cancel(self) -> None:
        self._cancelled = True
        if self._pipe is not None:
            self._pipe.cancel()

    def _begin(self, over: Transport) -> ClientPipe:
        if self._cancelled:
            raise errors.NotConnected("the link was closed")
        self._pipe = pipe = over.stream(self._kind)
        return pipe

    def _pipe_begun(self) -> ClientPipe:
        assert self._pipe is not None, "a stream is used after it was heard"
        return self._pipe


async def _first_of(pipe: ClientPipe) -> bytes | bytearray:
    message = await pipe.receive()
    if message is None:
        raise errors.ConnectionLost("the bookie ended the stream")
    return message


def blame_for(attempt: int, lane: Transport, fault: Exception, lane_ms: int) -> _Blame:
    """Give what a lane is blamed for if gRPC is reached."""
    late = isinstance(fault, TimeoutError)
    said = f"{lane.place}: no answer in {lane_ms} ms" if late else str(fault)
    return _Blame(attempt, said)


def with_blame(fault: errors.ProtocolError, blame: _Blame) -> errors.ProtocolError:
    """Give the error of a bookie that was reached neither way, with what both said."""
    return type(fault)(f"{fault.detail}; over its socket lane: {blame.why}")


def _nothing() -> None:
    """Stand where no link is to be told."""
