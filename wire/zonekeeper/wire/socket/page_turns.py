"""The turns in which a port of pages shakes hands, so that a flood of peers holds no append up.

The pages are served in the event loop that takes appends, and a handshake costs that loop some
milliseconds. ``handshakes`` decides who is next. Here a turn of the loop begins one handshake. What
a peer without a certificate does counts as a handshake that failed: strangers can do it as often as
they like. So such handshakes are slowed, and hosts alternate: a probe, which has no certificate
either, waits for one other handshake at the most, whatever comes from other hosts.

The number of connections is bounded by the port itself, and so is the time of each.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from zonekeeper.wire.running import looking
from zonekeeper.wire.socket.handshakes import HandshakeLimits, Handshakes

#: The port has no more connections, so only the turns are scarce. One that gave way to a newer one
#: may wait here for a moment longer.
LIMITS: Final = HandshakeLimits(
    waiting_max=2 * looking.CONNECTIONS_MAX, begun_max=2 * looking.CONNECTIONS_MAX
)


class PageTurns:
    """The turns of one port."""

    def __init__(self, limits: HandshakeLimits | None = None) -> None:
        self._limits = limits or LIMITS
        self._handshakes: Handshakes[asyncio.Future[None]] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def turn(self, host: str) -> AsyncIterator[Callable[[], None]]:
        """Wait for the turn of a peer of this host, which lasts as long as the block.

        The block calls what it is given if the peer showed a certificate. Raises
        ``ConnectionAbortedError`` if the peer must make room for another one.
        """
        loop = asyncio.get_running_loop()
        if self._handshakes is None:
            self._handshakes = Handshakes(self._limits, loop.time())
        handshakes, mine, succeeded = self._handshakes, loop.create_future(), False

        def gained() -> None:
            nonlocal succeeded
            succeeded = True

        goes = handshakes.come(mine, host)
        if goes is not None and not goes.done():
            goes.set_exception(ConnectionAbortedError("a newer connection has its place"))
        try:
            if goes is not mine:
                handshakes.ready(mine)
            self._plan()
            await mine
            yield gained
        finally:
            handshakes.leave(mine, succeeded=succeeded)
            self._plan()

    def _plan(self) -> None:
        """Let the next handshake begin when it may, and not in this turn of the loop."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        loop = asyncio.get_running_loop()
        wait_s = None if self._handshakes is None else self._handshakes.wait_s(loop.time())
        if wait_s is not None:
            self._timer = loop.call_later(wait_s, self._begin)

    def _begin(self) -> None:
        assert self._handshakes is not None, "it was planned for one"
        self._timer = None
        begun = self._handshakes.next(asyncio.get_running_loop().time())
        if begun is not None:
            one, _gone = begun  # one that has begun ends by its own limit of time
            if not one.done():
                one.set_result(None)
        self._plan()
