"""The client for code that does not await: the same calls, from any thread, on one loop."""

import asyncio
import pickle
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from typing import cast

import pytest

from tests.client.lab import THREE_BY_THREE, Lab, policy
from zonekeeper.client.api import blocking, client, loop_thread, reader, tail, writer
from zonekeeper.client.api.entry_data import Data
from zonekeeper.client.api.writer import TURN_BYTES
from zonekeeper.client.base import errors
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.client.base.errors import ClientEnded
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.wire.formats import entries


@asynccontextmanager
async def lab_client(config: ClientConfig | None = None) -> AsyncIterator[client.Client]:
    """Give an async client of a cluster in memory, in real time."""
    async with asyncio.TaskGroup() as tasks:
        lab = Lab(tasks, seed=1)
        await lab.build(policy(), THREE_BY_THREE)
        async with lab.client(config=config) as made:
            yield made
        await lab.close()


@contextmanager
def connected(config: ClientConfig | None = None) -> Iterator[blocking.Client]:
    with blocking.over(lab_client(config)) as made:
        yield made


def data(number: int) -> bytes:
    return b"entry %d" % number


def loop_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "zonekeeper-client"]


def public(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("here", "set_where_made", "there", "by_its_block"),
    [
        (blocking.Writer, {"ledger_id"}, writer.Writer, set[str]()),
        (blocking.Reader, {"ledger_id"}, reader.Reader, set[str]()),
        (blocking.Tail, set[str](), tail.Tail, set[str]()),
        (
            blocking.Client,
            {"config", "counters"},
            client.Client,
            {"close", "flush_within", "reading"},
        ),
    ],
)
def test_the_names_are_those_of_the_async_client(
    here: type, set_where_made: set[str], there: type, by_its_block: set[str]
) -> None:
    assert public(here) - set_where_made == public(there) - by_its_block


def test_what_was_written_is_read_back() -> None:
    with connected() as client:
        with client.create(password=b"secret", custom={"who": b"me"}) as writer:
            with pytest.raises(errors.WaitTimedOut):
                writer.prepare(timeout=0)
            writer.prepare(timeout=60)
            assert (writer.last_appended, writer.last_confirmed) == (-1, -1)
            assert writer.append(data(0)) == 0
            assert writer.append_nowait(bytearray(data(1))) == 1
            assert writer.append_and_wait(memoryview(data(2))) == 2
            assert writer.last_confirmed == 2
            while writer.used_bytes:  # the third bookie may still be without a lane
                writer.flush()
            assert writer.append_many(data(number) for number in range(3, 500)) == 499
            writer.flushed(writer.last_appended)
            assert writer.last_confirmed == 499
            assert len(writer.ensemble) == 3
        assert client.metadata(writer.ledger_id).last_entry == 499
        reader = client.open(writer.ledger_id, password=b"secret", recover=False)

        assert [entry.payload for entry in reader.read_entries()] == [data(n) for n in range(500)]
        assert [len(batch) for batch in reader.read(7, 9)] == [3]
        assert (reader.ledger_id, reader.last_confirmed) == (writer.ledger_id, 499)
        assert reader.metadata.custom_value("who") == b"me"
        assert reader.refresh() is False
        assert client.counters.entries_read >= 503


def test_an_open_ledger_is_followed_until_it_is_closed() -> None:
    with connected() as client, ThreadPoolExecutor(1) as threads:
        writer = client.create()
        reader = client.open(writer.ledger_id, recover=False)
        assert reader.read_last_confirmed() == -1
        tail = reader.follow()
        following = threads.submit(lambda: [entry.payload for entry in tail])
        for number in range(20):
            writer.append_and_wait(data(number))
        writer.close()
        assert following.result(timeout=60) == [data(number) for number in range(20)]


def test_ledgers_are_listed_and_deleted() -> None:
    with connected() as client:
        for number in (5, 3, 9):
            client.create(ledger_id=LedgerId(number)).close()
        assert list(client.ledgers()) == [3, 5, 9]
        client.delete(LedgerId(5))
        client.delete(LedgerId(5))
        assert list(client.ledgers()) == [3, 9]


def test_errors_come_as_they_are_and_leave_the_client_whole() -> None:
    with connected() as client:
        writer = client.create()
        with pytest.raises(ValueError, match="entry 7 was not appended"):
            writer.flushed(writer.last_appended.__class__(7))
        with pytest.raises(errors.NoSuchLedger, match="no ledger 99"):
            client.open(LedgerId(99))
        with pytest.raises(errors.Unauthorized):
            client.open(writer.ledger_id, password=b"wrong", recover=True)
        assert (
            client.open(writer.ledger_id, recover=True).last_confirmed == -1
        )  # and so fences the writer
        with pytest.raises(errors.Fenced):
            writer.append_and_wait(b"late")


def test_a_writers_block_that_fails_closes_the_ledger_behind_what_was_appended() -> None:
    def write(client: blocking.Client) -> None:
        with client.create(ledger_id=LedgerId(4)) as writer:
            writer.append(b"one")
            raise KeyError

    with connected() as client:
        with pytest.raises(KeyError):
            write(client)
        assert client.metadata(LedgerId(4)).last_entry == 0


def test_a_halted_writer_leaves_its_ledger_open() -> None:
    with connected() as client:
        writer = client.create()
        writer.append_and_wait(b"one")
        writer.halt()
        assert not client.metadata(writer.ledger_id).is_closed
        with pytest.raises(errors.WriterClosed):
            writer.append(b"two")
        assert client.open(writer.ledger_id, recover=True).last_confirmed == 0


def test_append_many_keeps_what_a_buffer_held_when_it_was_given() -> None:
    def reused() -> Iterator[bytearray]:
        buffer = bytearray(4)
        for number in range(1_000):
            buffer[:] = number.to_bytes(4, "big")
            yield buffer

    with connected() as client:
        writer = client.create()
        writer.append_many(reused())
        writer.close()
        found = client.open(writer.ledger_id).read_entries()
        assert [int.from_bytes(entry.payload) for entry in found] == list(range(1_000))


def test_what_is_no_bytes_is_refused_and_not_appended() -> None:
    with connected() as client:
        opened = client.create()
        no_bytes = cast(list[Data], [5, "text", None])
        for value in no_bytes:
            for append in (opened.append, opened.append_nowait, opened.append_and_wait):
                with pytest.raises(TypeError, match=f"not {type(value).__name__}"):
                    append(value)
            with pytest.raises(TypeError, match=f"not {type(value).__name__}"):
                opened.append_many([value])
        with pytest.raises(TypeError, match="use append"):
            opened.append_many(cast(list[Data], b"abc"))
        assert opened.last_appended == -1


def test_append_many_says_whether_some_of_the_entries_were_appended() -> None:
    with connected() as client:
        writer = client.create()
        portion, too_large = bytes(TURN_BYTES), bytes(entries.PAYLOAD_BYTES_MAX + 1)
        for many, some in (([too_large], False), ([portion, too_large], True)):
            with pytest.raises(errors.TooLarge) as refused:
                writer.append_many(many)
            assert refused.value.maybe_applied is some


def test_append_many_waits_for_room_and_may_be_asked_from_its_own_entries() -> None:
    with connected(ClientConfig(writer_budget_bytes=1 << 16)) as client:
        writer = client.create()

        def asking() -> Iterator[bytes]:
            for _ in range(40):
                assert writer.last_appended < 40
                client.metadata(writer.ledger_id)  # would hang, if this ran on the loop
                yield bytes(1 << 16)

        assert writer.append_many(asking()) == 39
        assert writer.append_many([]) == 39
        writer.close()
        assert client.metadata(writer.ledger_id).length == 40 << 16


def test_threads_share_a_client_a_writer_and_a_reader() -> None:
    with connected() as client, ThreadPoolExecutor(8) as threads:
        writer = client.create()
        given = list(threads.map(lambda number: writer.append(data(number)), range(400)))
        assert sorted(given) == list(range(400))
        writer.close()
        reader = client.open(writer.ledger_id)
        read = threads.map(lambda _: [entry.payload for entry in reader.read_entries()], range(8))
        expected = dict(zip(given, map(data, range(400)), strict=True))
        assert all(found == [expected[n] for n in sorted(expected)] for found in read)


def test_a_stream_may_be_left_early() -> None:
    with connected() as client:
        with client.create() as writer:
            writer.append_many(bytes(1 << 18) for _ in range(32))
        reader = client.open(writer.ledger_id)
        entries = reader.read_entries()
        assert next(entries).entry_id == 0
        entries.close()
        unfinished = reader.read()
        assert next(unfinished).first == 0
    unfinished.close()


def test_all_clients_of_a_process_share_one_loop_which_ends_with_the_last() -> None:
    before = len(loop_threads())  # 1 if a fixture has a client
    with connected() as first:
        with connected() as second:
            assert len(loop_threads()) == 1
            second.create().close()
        first.create().close()
        assert len(loop_threads()) == 1
    assert len(loop_threads()) == before
    with connected() as again:
        again.create().close()
    assert len(loop_threads()) == before


def test_after_its_block_everything_refuses_and_says_so() -> None:
    with connected() as client:
        writer = client.create()
        writer.append_and_wait(b"one")
        reader = client.open(writer.ledger_id, recover=False)
    asked: list[Callable[[], object]] = [
        client.create,
        lambda: writer.append(b"two"),
        writer.halt,
        reader.refresh,
        lambda: list(reader.read()),
        lambda: list(client.ledgers()),
    ]
    for ask in asked:
        with pytest.raises(ClientEnded, match="connect again") as refused:
            ask()
        assert refused.value.maybe_applied is False


def test_a_call_that_waits_ends_with_the_block() -> None:
    with ThreadPoolExecutor(1) as threads:
        with connected() as client:
            writer = client.create()
            tail = client.open(writer.ledger_id, recover=False).follow()
            waiting = threads.submit(next, tail, None)
            client.ledgers().close()
        with pytest.raises(ClientEnded):
            waiting.result(timeout=60)


def test_what_fails_to_open_raises_why_and_leaves_no_loop() -> None:
    before = len(loop_threads())  # 1 if a fixture has a client
    with pytest.raises(errors.BadAddress, match="nowhere"), blocking.connect("nowhere"):
        pass
    with (
        pytest.raises(errors.ClusterNotReady),
        blocking.connect("memory:"),
    ):
        pass
    assert len(loop_threads()) == before


def test_what_breaks_under_an_open_client_comes_out_of_its_block() -> None:
    class BrokenError(Exception):
        pass

    broken = threading.Event()

    @asynccontextmanager
    async def breaking() -> AsyncIterator[str]:
        async def fail() -> None:
            await asyncio.to_thread(broken.wait)
            raise BrokenError

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fail())
            yield "thing"

    async def forever() -> None:
        await asyncio.Event().wait()

    def use() -> None:
        with loop_thread.opened(breaking()) as (thing, calls):
            assert thing == "thing"
            broken.set()
            calls.do(forever)

    with pytest.raises(ExceptionGroup) as group:
        use()
    assert isinstance(group.value.exceptions[0], BrokenError)
    assert isinstance(group.value.__context__, ClientEnded)


def test_a_client_does_not_travel_but_its_settings_do() -> None:
    config = ClientConfig(quiet_ms=7)
    assert pickle.loads(pickle.dumps(config)) == config
    with connected() as client:
        writer = client.create()
        opened = client.open(writer.ledger_id, recover=True)
        for each in (client, writer, opened, opened.follow()):
            with pytest.raises(TypeError, match="send the address"):
                pickle.dumps(each)
