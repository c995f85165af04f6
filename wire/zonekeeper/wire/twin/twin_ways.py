"""One direction of a stream of the network in memory: in order, bounded, and sometimes broken."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

from zonekeeper.placement.base.ids import BookieId
from zonekeeper.wire.formats import errors

#: Messages of one stream and direction that were not received yet; with more, ``send`` waits.
WINDOW_MESSAGES: Final = 8

ItemT = TypeVar("ItemT")


class TwinTime(Protocol):
    """The time of all processes; an event loop is one."""

    def time(self) -> float:
        """Give the time, in seconds."""
        ...

    def call_at(self, when: float, callback: Callable[[], object], /) -> object:
        """Call a function at that time."""
        ...


class Live(Protocol):
    """A stream, a subscription or a call."""

    client: str
    bookie_id: BookieId

    def snap(self, error: errors.ProtocolError) -> None:
        """Break it for both ends."""

    def lose_peer(self) -> None:
        """Let the bookie's end be gone, and the client's end not know it."""


class Road(Protocol):
    """The network under a line."""

    def arrival(self, source: str, target: str) -> float:
        """Give the time at which a message that is sent now arrives."""

    def pass_on(self, source: str, target: str, when: float, arrive: Callable[[], None]) -> None:
        """Call ``arrive`` at that time, or once the direction is healed."""

    def breaks(self, live: Live) -> bool:
        """Decide whether this message breaks its connection; if so, the connection is broken."""


class Way(Generic[ItemT]):
    """One direction of a line: in order, and with a limit on the messages under way."""

    def __init__(self, road: Road, line: Live, source: str, target: str) -> None:
        self._road = road
        self._line = line
        self._source = source
        self._target = target
        self._last_arrival = 0.0
        #: Messages under way. Each arrival takes the oldest: timers of one moment have no order.
        self._on_its_way: deque[Callable[[], None]] = deque()
        self._under_way = 0
        #: Is the sender gone, and does the receiver not know it?
        self._muted = False
        self._arrived: deque[ItemT] = deque()
        self._ended = False
        self._error: errors.ProtocolError | None = None
        self._changed = asyncio.Event()

    async def send(self, item: ItemT) -> None:
        """Send a message; waits while too many are under way."""
        while self._under_way >= WINDOW_MESSAGES and not self._ended:
            await self._change()
        if self._muted:
            raise errors.ConnectionLost("the sender is gone")
        if self._ended:
            raise self._error or errors.ConnectionLost("the stream has ended")
        if self._road.breaks(self._line):
            return
        self._under_way += 1
        self._pass_on(lambda: self._arrive(item))

    async def receive(self) -> ItemT | None:
        """Wait for the next message; None if the way has ended."""
        while not self._arrived and not self._ended:
            await self._change()
        if self._arrived:
            self._under_way -= 1
            self._changed.set()
            return self._arrived.popleft()
        if self._error is not None:
            raise self._error
        return None

    def finish(self, error: errors.ProtocolError | None) -> None:
        """End the way after all messages that were sent."""
        if not self._muted:
            self._pass_on(lambda: self._end(error))

    def mute(self) -> None:
        """Let nothing more be sent; the messages under way arrive, and the way does not end."""
        self._muted = True

    def snap(self, error: errors.ProtocolError) -> None:
        """End the way now; messages that were not received are lost."""
        self._arrived.clear()
        self._end(error)

    def _pass_on(self, arrive: Callable[[], None]) -> None:
        self._on_its_way.append(arrive)
        when = self._road.arrival(self._source, self._target)
        self._last_arrival = max(self._last_arrival, when)
        self._road.pass_on(self._source, self._target, self._last_arrival, self._next_arrives)

    def _next_arrives(self) -> None:
        self._on_its_way.popleft()()

    def _arrive(self, item: ItemT) -> None:
        if not self._ended:
            self._arrived.append(item)
            self._changed.set()

    def _end(self, error: errors.ProtocolError | None) -> None:
        if not self._ended:
            self._ended = True
            self._error = error
            self._changed.set()

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()
