"""One stream at a time, made when it is needed, and shared by all callers that need it.

``current`` gives the live stream. Without one it starts an attempt, or waits for the attempt that
is under way. After a failed attempt it fails at once until the back-off is over. So no caller waits
for a bookie that is away, and the next caller after the back-off tries the bookie again.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from zonekeeper.wire.formats import errors
from zonekeeper.wire.lanes.back_off import BackOff

StreamT = TypeVar("StreamT")


class Connecting(Generic[StreamT]):
    """Owns the task that makes a stream and serves it until it ends."""

    def __init__(
        self,
        name: str,
        run: Callable[[Callable[[StreamT], None]], Awaitable[None]],
        *,
        back_off: BackOff,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._name = name
        #: Makes a stream, gives it to the callback, and serves it; raises the error that ended it.
        self._run = run
        self._back_off = back_off
        self._tasks = tasks
        self._loop = asyncio.get_running_loop()
        self._stream: StreamT | None = None
        #: An error is a result and not an exception here, because perhaps no caller waits for it.
        self._attempt: asyncio.Future[StreamT | errors.WireError] | None = None
        #: The task of the stream, and those of streams that were left and have not ended.
        self._lives: set[asyncio.Task[None]] = set()
        self._failure: errors.WireError | None = None
        self._closed = False

    async def current(self) -> StreamT:
        """Give the live stream; raises NotConnected, or UnsupportedVersion, as the peer said it."""
        if self._closed:
            raise errors.NotConnected(f"{self._name}: the link was closed")
        if self._stream is not None:
            return self._stream
        if self._attempt is None:
            self._start()
        assert self._attempt is not None
        made = await asyncio.shield(self._attempt)
        if isinstance(made, errors.UnsupportedVersion):
            raise errors.UnsupportedVersion(made.detail) from made
        if isinstance(made, errors.WireError):
            raise errors.NotConnected(f"{self._name}: cannot connect: {made}") from made
        return made

    def renew(self) -> StreamT | None:
        """Leave the live stream, if any: the next caller gets another one.

        The caller must see to it that the stream that is left ends.
        """
        stream, self._stream = self._stream, None
        return stream

    def leave(self, stream: StreamT) -> bool:
        """Leave this stream, if it is the live one; then its caller must see to it that it ends."""
        is_live = self._stream is stream
        if is_live:
            self._stream = None
        return is_live

    async def close(self) -> None:
        """End the stream, and make no other one."""
        self._closed = True
        if self._lives:
            for life in self._lives:
                life.cancel()
            await asyncio.wait(self._lives)
        if self._attempt is not None:  # the task was cancelled before it ran at all
            self._attempt.set_result(errors.ConnectionLost("the link was closed"))
            self._attempt = None

    def _start(self) -> None:
        if (wait_s := self._back_off.remaining_s(self._loop.time())) > 0:
            if isinstance(self._failure, errors.UnsupportedVersion):
                raise errors.UnsupportedVersion(self._failure.detail) from self._failure
            raise errors.NotConnected(
                f"{self._name}: the last attempt failed ({self._failure}); "
                f"the next one may be made in {wait_s:.2f} s"
            ) from self._failure
        self._attempt = self._loop.create_future()
        life = self._tasks.create_task(self._life(self._attempt))
        self._lives.add(life)
        life.add_done_callback(self._lives.discard)

    async def _life(self, attempt: "asyncio.Future[StreamT | errors.WireError]") -> None:
        made: list[StreamT] = []

        def ready(stream: StreamT) -> None:
            made.append(stream)
            self._stream = stream
            self._attempt = None
            self._back_off.succeeded()
            attempt.set_result(stream)

        self._failure = errors.ConnectionLost("the link was closed")
        try:
            await self._run(ready)
        except errors.WireError as failure:
            self._failure = failure
        finally:
            if made and self._stream is made[0]:
                self._stream = None
            if not attempt.done():
                self._attempt = None
                self._back_off.failed(self._loop.time())
                attempt.set_result(self._failure)
