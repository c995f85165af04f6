"""Tails of the blocking client: polled, interrupted, closed and dropped, from real threads."""

import asyncio
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, cast

import pytest

from tests.client.api.test_blocking import connected, data
from tests.client.dropping import connected_with_calls
from zonekeeper.client.api import blocking
from zonekeeper.client.api.loop_thread import Calls
from zonekeeper.client.api.writer import TURN_BYTES
from zonekeeper.client.base import errors
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.client.base.errors import ClientEnded
from zonekeeper.placement.base.ids import EntryId
from zonekeeper.wire.formats.entries import Entry

if TYPE_CHECKING:
    from _typeshed import TraceFunction

LIMIT_S = 60
MANY = 1 << 20


def followed(client: blocking.Client, writer: blocking.Writer, first: int = 0) -> blocking.Tail:
    return client.open(writer.ledger_id, recover=False).follow(first)


def ids(entries: list[Entry]) -> list[EntryId]:
    return [entry.entry_id for entry in entries]


class Interrupted(BaseException):
    """What a signal may raise at any line of a waiting thread, such as KeyboardInterrupt."""


@contextmanager
def interrupted_at(number: int) -> Iterator[None]:
    """Interrupt this thread at a step of a call to the loop, which waits for its answer.

    The last step is the return of the call: the answer is there, and does not reach the caller.
    """
    left = number

    def trace(frame: FrameType, event: str, _: object) -> "TraceFunction | None":
        nonlocal left
        if frame.f_code is not Calls.do.__code__:
            return None
        if event == "return" or (event == "line" and "answer" in frame.f_locals):
            left -= 1
            if left == 0:
                raise Interrupted
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with suppress(Interrupted):
            yield
    finally:
        sys.settrace(before)


@pytest.mark.parametrize("many", [False, True], ids=["next", "read_many"])
def test_s146_a_wait_that_is_interrupted_at_any_step_loses_nothing(many: bool) -> None:
    def given(tail: blocking.Tail, found: list[Entry]) -> None:
        while True:
            with suppress(errors.TailBusy):  # an interrupted call may still be on the loop
                if many:
                    found += tail.read_many(MANY, LIMIT_S)
                elif (entry := tail.next(LIMIT_S)) is not None:
                    found.append(entry)
                return

    with connected(ClientConfig(read_bytes=1)) as client:
        writer = client.create()
        tail, found = followed(client, writer), list[Entry]()
        for number in range(12):
            writer.append_and_wait(data(number))
            with interrupted_at(number % 6 + 1):
                given(tail, found)
            assert tail.position == len(found)
        writer.close()
        before = len(found)
        while len(found) < 12:
            given(tail, found)
        assert before < 12, "some waits were interrupted"
        assert ids(found) == list(range(12))
        assert tail.next(LIMIT_S) is None


def test_s146_a_tail_that_is_polled_gives_every_entry_and_then_the_end() -> None:
    with connected() as client, ThreadPoolExecutor(1) as threads:
        writer = client.create()

        def write() -> None:
            for number in range(20):
                writer.append_and_wait(data(number))
            writer.close()

        tail, found, polls = followed(client, writer), list[bytes](), 0
        with pytest.raises(errors.WaitTimedOut, match="entry 0 has not come"):
            tail.next(timeout=0.01)
        writing = threads.submit(write)
        while True:
            with suppress(TimeoutError):
                entries = tail.read_many(3, 0.001) if polls % 2 else [tail.next(timeout=0.001)]
                if entries in ([], [None]):
                    break
                found += [cast(Entry, entry).payload for entry in entries]
            polls += 1
        writing.result(LIMIT_S)
        assert found == [data(number) for number in range(20)]
        assert (tail.position, tail.next(), tail.read_many(1)) == (20, None, [])
        assert list(tail) == []


def test_a_tail_goes_on_behind_a_loop_that_was_left_and_at_its_position_elsewhere() -> None:
    with connected() as client:
        with client.create() as writer:
            writer.append_many(map(data, range(10)))
        with followed(client, writer, 2) as tail:
            assert tail.ledger_id == writer.ledger_id
            assert next(iter(tail)).entry_id == 2
            assert [tail.next(), tail.position] != [None, 4]
            assert ids(tail.read_many(2)) == [4, 5]
        assert ids(list(followed(client, writer, tail.position))) == [6, 7, 8, 9]
        with pytest.raises(errors.TailClosed):
            next(tail)


def test_what_is_wrong_is_refused_before_anything_begins() -> None:
    with connected() as client:
        writer = client.create()
        writer.append_many([data(0), data(1)])
        writer.flush()
        reader = client.open(writer.ledger_id, recover=False)
        tail = reader.follow()
        calls: list[Callable[[float], object]] = [
            tail.next,
            partial(tail.read_many, 1),
            partial(writer.append, b"late"),
            partial(writer.append_many, [b"late"]),
            partial(writer.append_and_wait, b"late"),
            partial(writer.flushed, EntryId(0)),
            writer.flush,
            writer.force,
            writer.tell_confirmed,
            writer.close,
            reader.read_last_confirmed,
            reader.refresh,
        ]
        for call in calls:
            with pytest.raises(ValueError, match="timeout is"):
                call(-1)
            with pytest.raises(TypeError, match="timeout is"):
                call(cast(float, "1"))
            if call != writer.close:
                call(LIMIT_S)
        for most in (0, True):
            with pytest.raises((TypeError, ValueError), match="max_entries is"):
                tail.read_many(most)
        with pytest.raises(ValueError, match="no entries from -1"):
            reader.follow(-1)
        assert writer.append(data(5)) == 5


def test_append_many_has_one_timeout_for_all_its_portions() -> None:
    """The last portion comes when the time is over, and only its first entry can have room."""
    with connected(ClientConfig(writer_budget_bytes=1 << 16)) as client:
        writer, never = client.create(), threading.Event()

        def slow() -> Iterator[bytes]:
            yield bytes(TURN_BYTES)
            never.wait(0.2)
            yield bytes(TURN_BYTES // 2)
            yield bytes(TURN_BYTES // 2)

        with pytest.raises(errors.WaitTimedOut, match="was not appended") as over:
            writer.append_many(slow(), timeout=0.1)
        assert over.value.maybe_applied
        assert writer.last_appended in (0, 1)
        writer.flush(LIMIT_S)
        assert writer.last_confirmed == writer.last_appended


def test_a_tail_that_another_thread_closes_ends_its_wait() -> None:
    with (
        connected() as client,
        client.create() as writer,
        ThreadPoolExecutor(1) as threads,
    ):
        tail = followed(client, writer)

        def wait() -> None:
            while True:
                with suppress(errors.TailBusy):
                    tail.next()

        def refused() -> errors.ClientError:
            with pytest.raises((errors.WaitTimedOut, errors.TailBusy)) as refused:
                tail.next(timeout=0.001)
            return refused.value

        waiting = threads.submit(wait)
        while not isinstance(error := refused(), errors.TailBusy):
            pass
        assert "another call of this tail waits for entry 0" in str(error)
        tail.close()
        with pytest.raises(errors.TailClosed):
            waiting.result(LIMIT_S)
        tail.close()


def test_a_tail_of_a_client_that_has_ended_says_so_and_may_be_closed() -> None:
    with connected() as client:
        writer = client.create()
        tail = followed(client, writer)
        with pytest.raises(errors.WaitTimedOut):
            tail.next(timeout=0.01)
        writer.close()
    for _ in range(2):
        with pytest.raises(ClientEnded, match="connect again"):
            tail.next()
    with tail:
        pass


@pytest.mark.parametrize("in_a_block", [False, True])
def test_s146_a_tail_that_is_dropped_in_another_thread_leaves_nothing_behind(
    in_a_block: bool,
) -> None:
    def steps() -> int:
        return sum("_step" in repr(task.get_coro()) for task in asyncio.all_tasks())

    def begun(tail: blocking.Tail) -> int:
        with suppress(errors.WaitTimedOut):
            tail.next(timeout=0.01)
        return calls.do_now(steps)

    def in_its_block(tail: blocking.Tail) -> Iterator[int]:
        with tail:
            yield begun(tail)

    def strict() -> None:  # a thread that touches what is the loop's fails then
        asyncio.get_running_loop().set_debug(True)

    with connected_with_calls() as (client, calls):
        writer = client.create()
        calls.do_now(strict)
        tail = followed(client, writer)
        if in_a_block:
            generator = in_its_block(tail)
            assert next(generator) == 1
            del generator
            with pytest.raises(errors.TailClosed):
                tail.next(LIMIT_S)
        else:
            assert begun(tail) == 1
            gone = weakref.ref(tail)
            del tail
            assert gone() is None, "and not only when the garbage collector runs, in any thread"
        while calls.do_now(steps):
            pass
