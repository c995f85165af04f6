"""Calls and tails of one connection, at the bookie.

Each call that is under way is a task, and there are at most ``calls_max`` of them, and at most
``tails_max`` tails. What comes above that is refused with TooManyRequests. A client that keeps to
what the greeting says never meets that with its calls.

A tail is sent only so many answers that its client has not taken: ``ANSWERS_UNTAKEN_MAX``, and
``BYTES_UNTAKEN_MAX`` or one larger answer. So a client that leaves one tail alone gets the answers
of its other calls on the same connection. A tail of which nothing is taken for ``send_ms`` ends.
"""

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from zonekeeper.wire.formats import errors, socket_messages
from zonekeeper.wire.formats.socket_messages import (
    AnswerTaken,
    CallAnswer,
    CallBegun,
    CallCancelled,
    CallEnd,
)
from zonekeeper.wire.host import methods
from zonekeeper.wire.host.access import Guard
from zonekeeper.wire.host.methods import SpelledCall, SpelledSubscription
from zonekeeper.wire.host.serving import Host
from zonekeeper.wire.socket.connection import Connection, Message

ANSWERS_UNTAKEN_MAX: Final = 64
BYTES_UNTAKEN_MAX: Final = 1 << 20
#: A call without a timeout of its caller has this one.
CALL_TIMEOUT_MS: Final = 60_000

_CALLS: Final[dict[str, SpelledCall]] = {call.name: call for call in methods.CALLS}
_SUBSCRIPTIONS: Final[dict[str, SpelledSubscription]] = {
    subscription.name: subscription for subscription in methods.SUBSCRIPTIONS
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimits:
    """The limits of one connection."""

    calls_max: int
    tails_max: int
    #: A tail of which nothing is taken for so long ends.
    send_ms: int


class _Untaken:
    """The answers of one tail that its client has not taken."""

    def __init__(self) -> None:
        self._sizes: list[int] = []
        self._taken = asyncio.Event()

    async def room(self, send_ms: int) -> None:
        """Wait until another answer may be sent; raises Timeout."""
        try:
            async with asyncio.timeout(send_ms / 1_000):
                while self._is_full():
                    self._taken.clear()
                    await self._taken.wait()
        except TimeoutError as late:
            raise errors.Timeout(
                f"the client took nothing of this tail for {send_ms} ms; take answers"
            ) from late

    def sent(self, size_bytes: int) -> None:
        self._sizes.append(size_bytes)

    def taken(self) -> None:
        """Note that the oldest one was taken; raises BadRequest if there is none."""
        if not self._sizes:
            raise errors.BadRequest("an answer was taken that was never sent")
        del self._sizes[0]
        self._taken.set()

    def _is_full(self) -> bool:
        return len(self._sizes) >= ANSWERS_UNTAKEN_MAX or sum(self._sizes) >= BYTES_UNTAKEN_MAX


class ServedCalls:
    """The ``Taker`` of a connection for calls."""

    def __init__(
        self,
        host: Host,
        connection: Connection,
        tasks: asyncio.TaskGroup,
        guard: Guard,
        limits: CallLimits,
    ) -> None:
        self._host = host
        self._connection = connection
        self._tasks = tasks
        self._guard = guard
        self._limits = limits
        self._calls: dict[int, asyncio.Task[None]] = {}
        self._tails: dict[int, asyncio.Task[None]] = {}
        self._untaken: dict[int, _Untaken] = {}
        self.over = asyncio.Event()

    def taken(self, message: Message) -> None:
        """Take a request, or what its client says of it later."""
        match socket_messages.parse(message):
            case CallBegun() as begun:
                self._begin(begun)
            case AnswerTaken(number=number):
                if (untaken := self._untaken.get(number)) is not None:  # else: it has ended
                    untaken.taken()
            case CallCancelled(number=number):
                self._cancel(number)
            case said:
                raise errors.BadRequest(f"{type(said).__name__} does not belong here")

    def ended(self) -> None:
        """Let the calls end: their client has gone."""
        self.over.set()

    def writable(self) -> None:
        """Do nothing: callers wait for this by themselves."""

    def _begin(self, begun: CallBegun) -> None:
        number = begun.number
        if number in self._calls or number in self._tails:
            raise errors.BadRequest(f"call {number} is under way already")
        if (call := _CALLS.get(begun.name)) is not None:
            if len(self._calls) >= self._limits.calls_max:
                self._refuse(
                    begun, f"{self._limits.calls_max} calls of this connection are under way"
                )
                return
            self._calls[number] = task = self._tasks.create_task(self._answer(begun, call))
            task.add_done_callback(lambda done: self._left(number, done))
        elif (subscription := _SUBSCRIPTIONS.get(begun.name)) is not None:
            if len(self._tails) >= self._limits.tails_max:
                self._refuse(begun, f"this connection has {self._limits.tails_max} tails")
                return
            self._untaken[number] = untaken = _Untaken()
            tail = self._tasks.create_task(self._follow(begun, subscription, untaken))
            self._tails[number] = tail
            tail.add_done_callback(lambda done: self._left(number, done))
        else:
            error = errors.UnsupportedVersion(f"{begun.name[:40]!r} is no call that is known here")
            self._end(number, error)

    def _cancel(self, number: int) -> None:
        """End a call. It does not count any more: its client may begin another one at once."""
        task = self._calls.pop(number, None) or self._tails.pop(number, None)
        self._untaken.pop(number, None)
        if task is not None:
            task.cancel()

    def _left(self, number: int, task: "asyncio.Task[None]") -> None:
        """Forget a call that has ended, unless its number means another one by now."""
        if self._calls.get(number) is task:
            del self._calls[number]
        elif self._tails.get(number) is task:
            del self._tails[number]
            del self._untaken[number]

    def _refuse(self, begun: CallBegun, why: str) -> None:
        self._end(begun.number, errors.TooManyRequests(f"{why}; nothing was done"))

    async def _answer(self, begun: CallBegun, call: SpelledCall) -> None:
        try:
            async with asyncio.timeout((begun.timeout_ms or CALL_TIMEOUT_MS) / 1_000):
                answer = await call.serve_bytes(self._host, self._guard, begun.request)
        except errors.ProtocolError as error:
            self._end(begun.number, error)
        except TimeoutError:
            self._end(begun.number, errors.Timeout(f"no answer within {begun.timeout_ms} ms"))
        else:
            await self._send(CallAnswer(number=begun.number, answer=answer))

    async def _follow(
        self, begun: CallBegun, subscription: SpelledSubscription, untaken: _Untaken
    ) -> None:
        try:
            answers = subscription.serve_bytes(self._host, self._guard, begun.request)
            async with aclosing(answers):
                async for answer in answers:
                    untaken.sent(len(answer))
                    await self._send(CallAnswer(number=begun.number, answer=answer))
                    await untaken.room(self._limits.send_ms)
            self._end(begun.number, None)
        except errors.ProtocolError as error:
            self._end(begun.number, error)

    async def _send(self, answer: CallAnswer) -> None:
        try:
            await self._connection.send(socket_messages.build(answer))
        except errors.WireError:
            await asyncio.Event().wait()  # the connection is over, and ends this task

    def _end(self, number: int, error: errors.ProtocolError | None) -> None:
        code, detail = (0, "") if error is None else (error.code, error.detail)
        if not self._connection.is_over:
            self._connection.put(
                socket_messages.build(CallEnd(number=number, code=code, detail=detail))
            )


async def serve_calls(host: Host, connection: Connection, guard: Guard, limits: CallLimits) -> None:
    """Serve the calls of a connection until it ends; raises the error that ended it."""
    async with asyncio.TaskGroup() as tasks:
        calls = ServedCalls(host, connection, tasks, guard, limits)
        connection.stops_reading_while_stuck = True
        connection.greeted(calls, socket_messages.REQUEST_BYTES_MAX)
        await calls.over.wait()
        for task in [*calls._calls.values(), *calls._tails.values()]:  # noqa: SLF001 its own
            task.cancel()
    if connection.failure is not None:
        raise connection.failure
