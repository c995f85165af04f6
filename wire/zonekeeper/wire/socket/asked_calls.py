"""Calls and tails of one connection, at the client.

Every answer is taken off the connection at once, so no caller can hold up another one. A tail whose
reader is slow is held back by the bookie, which waits until answers were taken (``socket_calls``).
"""

import asyncio
from collections import deque

from zonekeeper.wire.formats import errors, socket_framing, socket_messages
from zonekeeper.wire.formats.socket_messages import (
    AnswerTaken,
    CallAnswer,
    CallBegun,
    CallCancelled,
    CallEnd,
)
from zonekeeper.wire.socket.connection import Connection, Message


class Answers:
    """The answers to one call or subscription, as they come."""

    def __init__(self, calls: "AskedCalls", number: int) -> None:
        self._calls = calls
        self._number = number
        self._come: deque[bytes] = deque()
        self._has_ended = False
        self._error: errors.ProtocolError | None = None
        self._changed = asyncio.Event()

    async def next(self) -> bytes | None:
        """Wait for the next answer; None at their end. Raises the error that ended them."""
        while not self._come and not self._has_ended:
            self._changed.clear()
            await self._changed.wait()
        if self._come:
            self._calls.tell(AnswerTaken(number=self._number))
            return self._come.popleft()
        if self._error is not None:
            raise self._error
        return None

    def came(self, answer: bytes) -> None:
        """Note an answer."""
        self._come.append(answer)
        self._changed.set()

    def end(self, error: errors.ProtocolError | None) -> None:
        """Note that none follows."""
        if not self._has_ended:
            self._has_ended, self._error = True, error
            self._changed.set()

    def cancel(self) -> None:
        """Want no more of them; the bookie hears of it."""
        self._calls.forget(self._number, tell=not self._has_ended)


class AskedCalls:
    """The ``Taker`` of a connection for calls."""

    def __init__(self, connection: Connection, calls_max: int) -> None:
        self._connection = connection
        self._next_number = 0
        self._asked: dict[int, Answers] = {}
        self._turns = asyncio.Semaphore(calls_max)
        connection.greeted(self, socket_framing.MESSAGE_BYTES_MAX)

    @property
    def is_alive(self) -> bool:
        """Can something be asked here?"""
        return not self._connection.is_over

    def turn(self) -> asyncio.Semaphore:
        """Give what a call holds while it is under way, so that there are not too many."""
        return self._turns

    async def ask(self, name: str, request: bytes, timeout_ms: int) -> bytes:
        """Call, and wait for the answer."""
        answers = self._begin(name, request, timeout_ms)
        try:
            answer = await answers.next()
        finally:
            answers.cancel()
        if answer is None:
            raise errors.BadRequest(f"the bookie ended {name} without an answer")
        return answer

    def subscribe(self, name: str, request: bytes) -> Answers:
        """Begin a subscription; its caller must cancel it."""
        return self._begin(name, request, 0)

    def taken(self, message: Message) -> None:
        """Take an answer, or the end of answers."""
        match socket_messages.parse(message):
            case CallAnswer(number=number, answer=answer):
                if (asked := self._asked.get(number)) is not None:  # else: nobody waits
                    asked.came(answer)
            case CallEnd(number=number, code=code, detail=detail):
                if (asked := self._asked.get(number)) is not None:
                    asked.end(socket_messages.error_of(code, detail))
            case said:
                raise errors.BadRequest(f"the bookie sent {type(said).__name__} among answers")

    def ended(self) -> None:
        """End everything that was asked: the connection is over."""
        why = self._connection.failure or "the bookie has ended the connection"
        for answers in list(self._asked.values()):
            answers.end(errors.ConnectionLost(f"the connection ended before the answer: {why}"))

    def writable(self) -> None:
        """Do nothing: callers wait for this by themselves."""

    def tell(self, said: AnswerTaken | CallCancelled) -> None:
        """Say something of a call, if there is still somebody to hear it."""
        if self.is_alive:
            self._connection.put(socket_messages.build(said))

    def forget(self, number: int, *, tell: bool) -> None:
        """Wait no more for the answers of this number."""
        if self._asked.pop(number, None) is not None and tell:
            self.tell(CallCancelled(number=number))

    def close(self, error: errors.ProtocolError) -> None:
        """End the connection, and everything asked on it."""
        for answers in list(self._asked.values()):
            answers.end(error)
        self._connection.abort()

    def _begin(self, name: str, request: bytes, timeout_ms: int) -> Answers:
        if not self.is_alive:
            raise errors.NotConnected("the connection was lost before the request was sent")
        number = self._next_number
        self._next_number += 1
        self._asked[number] = answers = Answers(self, number)
        begun = CallBegun(number=number, timeout_ms=timeout_ms, name=name, request=request)
        self._connection.put(socket_messages.build(begun))
        return answers
