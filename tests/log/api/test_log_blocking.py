"""The client of logs for code that does not await: the same calls, from any thread."""

import asyncio
import gc
import pickle
import random
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager

import pytest

from tests.client.forking import in_a_fork
from tests.client.lab import THREE_BY_THREE, Lab, policy
from tests.log.logging_lab import NAME, SHORT, WallClock, message, numbers
from zonekeeper.client.api.client import Surroundings
from zonekeeper.client.base.errors import ClientEnded, ForkedAfterUse, TailClosed, WaitTimedOut
from zonekeeper.log import LogMessage, LogRules, blocking
from zonekeeper.log.api import blocking_writer as module
from zonekeeper.log.api.blocking_writer import BlockingLogWriter
from zonekeeper.log.api.log_client import LogClient
from zonekeeper.log.api.log_cursor import LogCursor
from zonekeeper.log.api.log_reader import LogReader
from zonekeeper.log.api.log_writer import LogWriter
from zonekeeper.log.base.errors import NoCandidateError, NotInLog
from zonekeeper.log.writing.budget import BUDGET_BYTES
from zonekeeper.metadata.formats.log_record import LogTaken
from zonekeeper.metadata.logs.log_cursor import CursorTaken
from zonekeeper.metadata.logs.logs import LogExistsError, NoLogError

LABS: list[Lab] = []


@asynccontextmanager
async def lab_logs(budget_bytes: int = BUDGET_BYTES) -> AsyncIterator[LogClient]:
    """Give an async client of logs of a cluster in memory, in real time."""
    async with asyncio.TaskGroup() as tasks:
        lab = Lab(tasks, seed=1)
        LABS.append(lab)
        await lab.build(policy(), THREE_BY_THREE)
        async with lab.client() as made:
            surroundings = Surroundings(random.Random(1), WallClock())
            yield LogClient(made, surroundings, budget_bytes=budget_bytes)
        LABS.remove(lab)
        await lab.close()


@contextmanager
def connected(budget_bytes: int = BUDGET_BYTES) -> Iterator[blocking.BlockingLogs]:
    with blocking.over(lab_logs(budget_bytes)) as logs:
        yield logs


def sequences(logs: blocking.BlockingLogs, name: str = NAME) -> list[int]:
    return [one.sequence for one in logs.reader(name).read_messages()]


def hold(*, holding: bool) -> None:
    """Let bookies take no entry, or take all that they were sent."""
    [lab] = LABS
    for machine in lab.machines.values():
        machine.doorway.holding = holding
        if not holding:
            machine.doorway.release()


def public(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("here", "there", "more_here", "more_there"),
    [
        # A candidate waits for its turns, and writes in them: that is for asyncio.
        (blocking.BlockingLogs, LogClient, set[str](), {"standby", "watch_writer"}),
        # `name` of a reader is an attribute there; the end of the block closes a writer. What a
        # candidate asks of its writer is for asyncio, too.
        (
            BlockingLogWriter,
            LogWriter,
            set[str](),
            {"close", "run", "ended", "is_over", "is_taken"},
        ),
        (blocking.BlockingLogCursor, LogCursor, set[str](), set[str]()),
        (blocking.BlockingLogReader, LogReader, {"name", "read_messages"}, set[str]()),
    ],
)
def test_the_names_are_those_of_the_async_client(
    here: type, there: type, more_here: set[str], more_there: set[str]
) -> None:
    assert public(here) - more_here == public(there) - more_there


def test_a_log_without_candidates_is_handed_to_nobody() -> None:
    with connected() as logs:
        logs.create(NAME)
        assert logs.candidates(NAME) == []
        with pytest.raises(NoCandidateError, match="nobody"):
            logs.handover(NAME, "nobody", timeout_s=1)


def test_a_deferred_log_is_forced_and_counted() -> None:
    with connected() as logs:
        logs.create(NAME)
        with logs.writer(NAME, deferred_sync=True) as writer:
            writer.append_many(numbers(0, 20))
            writer.force()
            writer.force(timeout=10)
            assert writer.first_unstored == 20
            assert logs.figures.writers.messages_total == 20
        assert [one.message for one in logs.reader(NAME).read_messages()] == list(numbers(0, 20))


def test_a_log_is_created_written_read_trimmed_and_deleted() -> None:
    with connected() as logs:
        logs.create(NAME, SHORT)
        with pytest.raises(LogExistsError):
            logs.create(NAME)
        with logs.writer(NAME, address="here") as writer:
            assert writer.append(message(0)) == 0
            assert writer.append_many(numbers(1, 20)) == 21
            found = writer.flushed(20)
            assert writer.append_and_wait(message(21)) == 21
            writer.append_and_wait(message(22), stored=True)
            writer.stored(22)
            assert (writer.name, writer.next_sequence, writer.first_unstored) == (NAME, 23, 23)
            assert "blocking" in repr(writer)
        reader = logs.reader(NAME)
        assert [one.message for one in reader.read_messages()] == list(numbers(0, 23))
        assert reader.at_sequence(20) == found
        assert (reader.sequence_of(found), reader.end(), reader.name) == (20, 23, NAME)
        assert next(reader.read_messages(found)).id == found
        assert list(reader.read_messages(reader.latest())) == []
        assert reader.at_time(0) == reader.at_sequence(0)
        record = logs.record(NAME)
        assert record.writer is not None
        assert record.writer.address == "here"
        logs.set_rules(NAME, LogRules())
        assert logs.record(NAME).rules == LogRules()
        logs.trim(NAME, 15)
        assert sequences(logs) == list(range(15, 23))
        assert reader.earliest() == reader.at_sequence(15)
        logs.create("plain")
        assert (list(logs.names()), sorted(logs.namespaces())) == (["plain"], ["", "orders"])
        logs.delete(NAME)
        with pytest.raises(NoLogError):
            logs.record(NAME)


def test_many_messages_go_to_the_loop_in_portions_and_in_order() -> None:
    with connected() as logs:
        logs.create(NAME)
        given = [LogMessage(payload=b"%d" % one) for one in range(25_000)]
        large = [LogMessage(payload=bytes(900_000)) for _ in range(4)]
        assert [len(one) for one in module._portions(iter(given))] == [10_000, 10_000, 5_000]
        assert [len(one) for one in module._portions(large)] == [2, 2]
        with logs.writer(NAME) as writer:
            assert writer.append_many(iter([*given, *large])) == 25_004
        assert [one.message for one in logs.reader(NAME).read_messages()] == given + large


def test_a_block_that_raises_stops_its_writer_and_the_next_one_goes_on() -> None:
    with connected() as logs:
        logs.create(NAME)
        block = logs.writer(NAME)
        writer = block.__enter__()
        writer.append_and_wait(message(0))
        error = ZeroDivisionError()
        assert not block.__exit__(type(error), error, None), "the error goes on"
        assert logs.record(NAME).unended, "the log was not closed"
        with pytest.raises(ClientEnded):
            writer.append(message(1))
        with logs.writer(NAME) as second:
            assert second.append(message(1)) == 1
        assert not logs.record(NAME).unended
        assert sequences(logs) == [0, 1]


def test_a_writer_whose_log_was_taken_is_told() -> None:
    with connected() as logs:
        logs.create(NAME)
        taken = ExitStack()
        first = taken.enter_context(logs.writer(NAME))
        first.append_and_wait(message(0))
        with logs.writer(NAME) as second:
            second.append_and_wait(message(1))
        with pytest.raises(LogTaken):
            first.append_and_wait(message(2))
        with pytest.raises(LogTaken):
            taken.close()
        assert sequences(logs) == [0, 1]


def test_a_wait_that_is_over_says_what_is_stored() -> None:
    with connected(budget_bytes=200) as logs:
        logs.create(NAME)
        with logs.writer(NAME) as writer:
            writer.append_and_wait(message(0))
            hold(holding=True)
            sequence = writer.append(LogMessage(payload=bytes(150)))
            for wait in (writer.stored, writer.flushed):
                with pytest.raises(WaitTimedOut, match="messages below 1 are stored"):
                    wait(sequence, timeout=0.01)
            with pytest.raises(WaitTimedOut, match="the next sequence is 2"):
                writer.append(LogMessage(payload=bytes(150)), timeout=0.01)
            with pytest.raises(WaitTimedOut, match="the next sequence is 2"):
                writer.append_many([LogMessage(payload=bytes(150))] * 2, timeout=0.01)
            assert writer.next_sequence == 2
            hold(holding=False)
            writer.flushed(sequence)
        assert sequences(logs) == [0, 1]


def test_a_force_whose_time_is_over_says_what_is_forced() -> None:
    """All is stored by then, so nothing is on its way: what lacks is the force."""
    with connected() as logs:
        logs.create(NAME)
        with logs.writer(NAME, deferred_sync=True) as writer:
            writer.append_many(numbers(0, 10))
            writer.force()
            may_force = asyncio.Event()
            for machine in LABS[0].machines.values():
                machine.doorway.hold_forces = may_force
            writer.append_many(numbers(10, 5))
            writer.stored(14)
            with pytest.raises(WaitTimedOut) as caught:
                writer.force(timeout=0.01)
            assert str(caught.value) == (
                "log orders/eu-1: messages below 10 are on the disks of an ack quorum, of those "
                "below 15 that were appended; nothing is lost: force again"
            )
            assert (writer.first_unstored, writer.first_unforced) == (15, 10)
            with pytest.raises(WaitTimedOut, match="readers may not see the message yet"):
                writer.flushed(14, timeout=0.01)
            logs._calls.do_now(may_force.set)
            writer.force()
            assert writer.first_unforced == 15
        assert sequences(logs) == list(range(15))


def test_a_follower_loses_nothing_when_its_waits_time_out() -> None:
    with connected() as logs:
        logs.create(NAME, SHORT)
        given = list[int]()
        with logs.reader(NAME).follow() as follower:
            for round_ in range(4):
                with pytest.raises(WaitTimedOut, match="nothing is lost"):
                    follower.next(timeout=0.0)
                with logs.writer(NAME) as writer:  # another one each time
                    writer.append_many(numbers(7 * round_, 7))
                while len(given) < 7 * (round_ + 1):
                    given += [one.sequence for one in follower.next()]
        assert given == list(range(28))
        with pytest.raises(TailClosed):
            next(follower)


def test_an_interrupted_wait_of_a_follower_gives_the_same_batch_again() -> None:
    with connected() as logs:
        logs.create(NAME)
        with logs.writer(NAME) as writer:
            writer.append_many(numbers(0, 3))
        follower = logs.reader(NAME).follow()
        fetched = follower._fetched
        asked = follower._calls.do(lambda: fetched.at(0, None))  # the answer is lost on its way
        assert follower.next() == asked
        follower.close()


def test_a_follower_that_waits_is_closed_by_another_thread() -> None:
    with connected() as logs:
        logs.create(NAME)
        follower = logs.reader(NAME).follow()
        told = list[type]()

        def wait() -> None:
            try:
                follower.next()
            except TailClosed as error:
                told.append(type(error))

        waiting = threading.Thread(target=wait)
        waiting.start()
        while follower._fetched._coming is None:
            pass
        follower.close()
        waiting.join()
        assert told == [TailClosed]


def test_a_follower_that_is_dropped_stops() -> None:
    with connected() as logs:
        logs.create(NAME)
        follower = logs.reader(NAME).follow()
        with pytest.raises(WaitTimedOut):
            follower.next(timeout=0.0)
        fetched, calls = follower._fetched, follower._calls
        del follower
        gc.collect()
        assert calls.do_now(lambda: fetched._stopped)


def test_a_writer_that_is_dropped_is_told_of_and_stops() -> None:
    with connected() as logs:
        logs.create(NAME)
        block = logs.writer(NAME)
        writer = block.__enter__()
        writer.append_and_wait(message(0))
        hold(holding=True)
        writer.append(message(1))
        blocks = [block]
        del block
        with pytest.warns(ResourceWarning, match="dropped inside its block, and stops; messages 1"):
            blocks.clear()
        hold(holding=False)
        with logs.writer(NAME) as second:
            second.append_and_wait(message(2))
        assert logs.record(NAME).epoch == 2


def test_no_object_outlives_its_client() -> None:
    with connected() as logs:
        logs.create(NAME)
        reader = logs.reader(NAME)
        follower = reader.follow()
    for ask in (lambda: logs.record(NAME), reader.end, follower.next, lambda: list(logs.names())):
        with pytest.raises(ClientEnded):
            ask()
    with pytest.raises(ClientEnded), logs.writer(NAME):
        pass


def test_no_object_is_sent_to_another_process_and_none_works_in_a_forked_child() -> None:
    with connected() as logs:
        logs.create(NAME)
        with logs.writer(NAME) as writer:
            for one in (logs, writer, logs.reader(NAME), logs.reader(NAME).follow()):
                with pytest.raises(TypeError, match="send the address and the settings"):
                    pickle.dumps(one)

            def refused() -> bool:
                told = 0
                for ask in (lambda: writer.append(message(0)), lambda: logs.record(NAME)):
                    try:
                        ask()
                    except ForkedAfterUse:
                        told += 1
                try:
                    with logs.writer(NAME):
                        pass
                except ForkedAfterUse:
                    told += 1
                return told == 3

            assert in_a_fork(refused)
            writer.append_and_wait(message(0))
        assert sequences(logs) == [0]


def test_errors_are_those_of_the_async_client() -> None:
    with connected() as logs:
        with pytest.raises(NoLogError), logs.writer(NAME):
            pass
        logs.create(NAME)
        with pytest.raises(NotInLog):
            logs.reader(NAME).at_sequence(0)


def test_a_consumer_goes_on_where_the_one_before_it_was() -> None:
    with connected() as logs:
        logs.create(NAME, SHORT)
        with logs.writer(NAME) as writer:
            writer.append_many(message(number) for number in range(25))
            writer.flushed(24)
        first = logs.cursor(NAME, "billing")
        for one in (one for many in first.read() for one in many):
            if one.sequence == 7:
                first.move(one)
        assert first.sequence == 8
        second = logs.cursor(NAME, "billing", address="host-2")
        assert second.sequence == first.sequence
        assert second.lag() == 25 - second.sequence
        with pytest.raises(CursorTaken):
            first.seek_end()

        with second.follow() as follower:
            assert next(iter(follower.next(timeout=10))).sequence == 8
        second.seek_end()
        assert second.lag() == 0
        second.seek_earliest()
        second.seek(logs.reader(NAME).at_sequence(7))
        assert next(one.sequence for many in second.read() for one in many) == 7
        assert logs.cursors(NAME)["billing"].address == "host-2"
        logs.delete_cursor(NAME, "billing")
        assert logs.cursors(NAME) == {}


def test_a_log_is_trimmed_by_id_time_bytes_and_rules() -> None:
    with connected() as logs:
        logs.create(NAME)
        for first in (0, 10, 20):
            with logs.writer(NAME) as writer:
                writer.append_many(message(number) for number in range(first, first + 10))
        logs.trim_to_id(NAME, logs.reader(NAME).at_sequence(3))
        assert sequences(logs) == [*range(3, 30)]
        logs.trim_to_time(NAME, 0)
        logs.trim_to_bytes(NAME, 1 << 30)
        assert not logs.trim_by_rules(NAME)
        assert sequences(logs) == [*range(3, 30)]
        logs.trim_to_bytes(NAME, 1)
        assert sequences(logs) == [*range(20, 30)]
