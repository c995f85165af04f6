"""Programs that drop what others leave. Each is run as a process of its own, and is to end."""

import atexit
import gc
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

import pytest

from tests.client.api.test_blocking import connected, lab_client, loop_threads
from tests.client.patience import PATIENT
from zonekeeper.client.api import blocking, loop_thread
from zonekeeper.client.api.loop_thread import Calls
from zonekeeper.client.api.reader import ReadBatch
from zonekeeper.client.base.errors import ClientEnded

#: What a program keeps until its end, and leaves to the interpreter.
KEPT: Final[list[object]] = []


class Cycle:
    """Holds something, and itself: so only the collector finds it."""

    def __init__(self, held: object) -> None:
        self.held = held
        self.itself = self


@contextmanager
def connected_with_calls() -> Iterator[tuple[blocking.Client, Calls]]:
    with loop_thread.opened(lab_client()) as (opened, calls):
        yield blocking.Client(opened, calls), calls


def in_the_loops_thread(calls: Calls) -> None:
    """Collect where most garbage is found."""
    calls.do_now(gc.collect)


def as_a_call_begins(calls: Calls) -> None:
    """Collect where a call has been asked for, and is not on the loop yet."""

    async def nothing() -> None:
        pass

    def collecting() -> Coroutine[None, None, None]:
        gc.collect()
        return nothing()

    calls.do(collecting)


COLLECTING: Final = (in_the_loops_thread, as_a_call_begins)


def half_read(client: blocking.Client) -> Iterator[ReadBatch]:
    with client.create() as writer:
        writer.append_many(bytes(1 << 18) for _ in range(32))
    batches = client.open(writer.ledger_id).read()
    next(batches)
    return batches


def in_a_block() -> Iterator[blocking.Client]:
    with connected() as client:
        yield client


def in_a_writers_block(client: blocking.Client) -> Iterator[blocking.Writer]:
    with client.create() as writer:
        writer.append_and_wait(b"one")
        yield writer


def half_read_streams_are_collected(_: str) -> None:
    for collect in COLLECTING:
        with connected_with_calls() as (client, calls):
            Cycle(half_read(client))
            collect(calls)
            client.create().close()


def what_is_collected_asks_something(_: str) -> None:
    def asking(client: blocking.Client) -> Iterator[int]:
        try:
            yield 1
        finally:
            heard.append(len(list(client.ledgers())))

    heard: list[int] = []
    with connected_with_calls() as (client, calls):
        client.create().close()
        standing = asking(client)
        next(standing)
        Cycle(standing)
        del standing
        as_a_call_begins(calls)
    assert heard == [1]


def writers_blocks_are_collected(_: str) -> None:
    for collect in COLLECTING:
        with connected_with_calls() as (client, calls):
            standing = in_a_writers_block(client)
            ledger_id = next(standing).ledger_id
            Cycle(standing)
            del standing
            collect(calls)
            assert not client.metadata(ledger_id).is_closed, "its writer was halted"
            assert client.open(ledger_id, recover=True).last_confirmed == 0


def clients_blocks_are_collected(_: str) -> None:
    for collect in COLLECTING:
        with connected_with_calls() as (client, calls):
            standing = in_a_block()
            next(standing)
            Cycle(standing)
            del standing
            collect(calls)
            client.create().close()
        with connected() as again:
            assert len(loop_threads()) == 1, "it comes when the first has ended"
            again.create().close()


def a_block_is_left_as_a_call_begins(_: str) -> None:
    async def nothing() -> None:
        pass

    stack = ExitStack()
    _client, calls = stack.enter_context(connected_with_calls())

    def leaving() -> Coroutine[None, None, None]:
        stack.close()
        return nothing()

    for _again in range(2):
        with pytest.raises(ClientEnded, match="not begun"):
            calls.do(leaving)


def the_last_block_is_dropped(_: str) -> None:
    for _again in range(3):
        standing = in_a_block()
        next(standing).create().close()
        del standing
        assert len(loop_threads()) <= 1


def a_call_in_the_loops_thread_is_refused(_: str) -> None:
    with (
        connected_with_calls() as (client, calls),
        pytest.raises(ClientEnded, match="for ever"),
    ):
        calls.do_now(client.create)


def a_block_is_never_left(_: str) -> None:
    stack = ExitStack()
    KEPT.append(stack)
    client = stack.enter_context(connected())
    KEPT.append(half_read(client))
    KEPT.append(stack.enter_context(client.create()))


def a_generator_stands_in_its_block(_: str) -> None:
    standing = in_a_block()
    KEPT.append(standing)
    writing = in_a_writers_block(next(standing))
    KEPT.append(writing)
    next(writing)


def a_block_is_left_at_the_exit(address: str) -> None:
    stack = ExitStack()
    atexit.register(stack.close)
    assert not list(stack.enter_context(blocking.connect(address, PATIENT)).ledgers())


class Asking:
    """Asks when it is dropped."""

    def __init__(self, client: blocking.Client) -> None:
        self.client = client

    def __del__(self) -> None:
        try:
            self.client.create()
        except ClientEnded:
            sys.stdout.write("refused\n")


def a_client_is_asked_as_the_interpreter_ends(_: str) -> None:
    stack = ExitStack()
    KEPT.append(stack)
    KEPT.append(Asking(stack.enter_context(connected())))


PROGRAMS: Final[dict[str, Callable[[str], None]]] = {
    program.__name__: program
    for program in (
        half_read_streams_are_collected,
        what_is_collected_asks_something,
        writers_blocks_are_collected,
        clients_blocks_are_collected,
        a_block_is_left_as_a_call_begins,
        the_last_block_is_dropped,
        a_call_in_the_loops_thread_is_refused,
        a_block_is_never_left,
        a_generator_stands_in_its_block,
        a_block_is_left_at_the_exit,
        a_client_is_asked_as_the_interpreter_ends,
    )
}

if __name__ == "__main__":
    gc.disable()  # only a program says where it runs
    PROGRAMS[sys.argv[1]](sys.argv[2])
    sys.stdout.write("this was the last line\n")
    sys.stdout.flush()
