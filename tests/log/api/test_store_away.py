"""The metadata store is away: each call of a client of logs fails in words of the client.

``retryable`` is true. ``maybe_applied`` is true if a request that changes something was under way.
"""

from collections.abc import AsyncIterable, Awaitable, Callable
from typing import Final, TypeAlias

import pytest

from tests.client.lab import Lab, played
from tests.client.sessions.test_newcomers import of_client
from tests.log.api.test_log_client import connected, fill, sequences
from tests.log.logging_lab import NAME, create
from tests.log.standby_lab import SMALL, Host, finish, until, writing_host
from zonekeeper.client.base.errors import MetadataFailed
from zonekeeper.log.api.log_client import LogClient
from zonekeeper.log.api.log_cursor import LogCursor
from zonekeeper.log.api.log_reader import ReadMessages
from zonekeeper.metadata.formats.log_record import LogRules
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.metadata.stores.memory import ExchangeLoss, MemoryStore, Passage, RequestKind, calm
from zonekeeper.metadata.stores.memory_server import MemoryServer
from zonekeeper.placement.base.ids import EntryId

COUNT: Final = 25
RULES: Final = LogRules(rotate_messages=10, keep_bytes=1, cursor_wait_bytes=0)


class Known:
    """What a call may ask for."""

    def __init__(
        self, log: LogClient, cursor: LogCursor, message: MessageId, batch: ReadMessages
    ) -> None:
        self.log, self.reader, self.cursor = log, log.reader(NAME), cursor
        self.message, self.batch = message, batch


async def drained(stream: AsyncIterable[object]) -> None:
    async for _ in stream:
        pass


async def written(known: Known) -> None:
    async with known.log.writer(NAME):
        pass


Call: TypeAlias = Callable[[Known], Awaitable[object]]

LOOKS: dict[str, Call] = {
    "record": lambda known: known.log.record(NAME),
    "cursors": lambda known: known.log.cursors(NAME),
    "namespaces": lambda known: drained(known.log.namespaces()),
    "names": lambda known: drained(known.log.names("orders")),
    "earliest": lambda known: known.reader.earliest(),
    "latest": lambda known: known.reader.latest(),
    "end": lambda known: known.reader.end(),
    "at_sequence": lambda known: known.reader.at_sequence(3),
    "sequence_of": lambda known: known.reader.sequence_of(known.message),
    "at_time": lambda known: known.reader.at_time(1),
    "read": lambda known: drained(known.reader.read()),
    "follow": lambda known: drained(known.reader.follow()),
    "cursor's read": lambda known: drained(known.cursor.read()),
    "cursor's follow": lambda known: drained(known.cursor.follow()),
    "cursor's lag": lambda known: known.cursor.lag(),
    "candidates": lambda known: known.log.candidates(NAME),
    "handover": lambda known: known.log.handover(NAME, "b-1"),
}
CHANGES: dict[str, Call] = {
    "create": lambda known: known.log.create("orders/new"),
    "writer": written,
    "set_rules": lambda known: known.log.set_rules(NAME, LogRules(keep_ms=9)),
    "change_rules": lambda known: known.log.change_rules(NAME, lambda _: LogRules(keep_ms=9)),
    "trim": lambda known: known.log.trim(NAME, 15),
    "trim_to_id": lambda known: known.log.trim_to_id(NAME, known.message),
    "trim_to_time": lambda known: known.log.trim_to_time(NAME, 1 << 50),
    "trim_to_bytes": lambda known: known.log.trim_to_bytes(NAME, 1),
    "trim_by_rules": lambda known: known.log.trim_by_rules(NAME),
    "delete": lambda known: known.log.delete(NAME),
    "cursor": lambda known: known.log.cursor(NAME, "another"),
    "cursor at the end": lambda known: known.log.cursor(NAME, "another", at_end=True),
    "delete_cursor": lambda known: known.log.delete_cursor(NAME, "billing"),
    "rebuild": lambda known: known.log.rebuild(NAME),
    "cursor's move": lambda known: known.cursor.move(known.batch),
    "cursor's seek": lambda known: known.cursor.seek(known.message),
    "cursor's seek_end": lambda known: known.cursor.seek_end(),
}


def cut_off(store: MemoryStore) -> None:
    store.cut()


def without_writes(store: MemoryStore) -> None:
    """Lose what would change something."""
    store.weather = lambda kind: (
        Passage(loss=ExchangeLoss.REQUEST) if kind is RequestKind.WRITE else Passage()
    )


async def failed(lab: Lab, call: Call, take_away: Callable[[MemoryStore], None]) -> MetadataFailed:
    """Make a call while the store is away; hold that nothing was changed."""
    async with connected(lab) as log:
        await log.create(NAME, RULES)
        await fill(log, COUNT)
        cursor = await log.cursor(NAME, "billing")
        batches = [many async for many in cursor.read()]
        message = MessageId(batches[-1].ledger, EntryId(1), 0)
        known = Known(log, cursor, message, batches[3])
        store = of_client(log.client)
        before = await log.record(NAME), await log.cursors(NAME)
        take_away(store)
        with pytest.raises(MetadataFailed) as caught:
            await call(known)
        store.weather = calm
        store.mend()
        assert (await log.record(NAME), await log.cursors(NAME)) == before
        assert await sequences(log) == list(range(COUNT))
        return caught.value


@played()
@pytest.mark.parametrize("name", [*LOOKS, *CHANGES])
async def test_a_store_that_does_not_answer_is_an_error_of_the_client(lab: Lab, name: str) -> None:
    error = await failed(lab, (LOOKS | CHANGES)[name], cut_off)
    assert error.retryable
    assert not error.maybe_applied, "it reads first, and sent nothing that changes anything"
    assert "log" in str(error)


@played()
@pytest.mark.parametrize("name", CHANGES)
async def test_a_change_without_an_answer_may_have_happened(lab: Lab, name: str) -> None:
    error = await failed(lab, CHANGES[name], without_writes)
    assert error.retryable
    assert error.maybe_applied


@played(bookies_in=SMALL)
async def test_a_handover_without_an_answer_may_have_happened(lab: Lab) -> None:
    await create(lab)
    first, second = await writing_host(lab, "a-1", "a"), Host("b-1", "b", lab).start()
    await until(second.stands)
    async with connected(lab) as log:
        store = of_client(log.client)
        without_writes(store)
        with pytest.raises(MetadataFailed) as caught:
            await log.handover(NAME, "b-1")
        store.weather = calm
    assert caught.value.retryable
    assert caught.value.maybe_applied
    assert "handing over log orders/eu-1" in str(caught.value)
    await finish(lab, first, second)


@played(bookies_in=SMALL)
async def test_a_standby_that_gets_no_session_is_told_so_in_words(lab: Lab) -> None:
    await create(lab)
    host = Host("a-1", "a", lab)
    made = host.make_store

    def cut_store(server: MemoryServer) -> MemoryStore:
        store = made(server)
        store.cut()
        return store

    host.make_store = cut_store
    host.start()
    await until(lambda: host.ended)
    assert isinstance(host.failure, MetadataFailed)
    assert host.failure.retryable
    assert not host.failure.maybe_applied
    assert "opening a session for candidates" in str(host.failure)


@played(bookies_in=SMALL)
@pytest.mark.parametrize("writes", [True, False])
async def test_a_turn_whose_store_refuses_ends_in_words(lab: Lab, writes: bool) -> None:
    """A store that is away is waited for; one that was closed never answers again."""
    await create(lab)
    other = None if writes else await writing_host(lab, "a-0", "a")
    host = Host("a-1", "a", lab).start()
    await until(lambda: host.turn is not None if writes else host.stands())
    assert host.store is not None
    await host.store.close()
    await until(lambda: host.ended)
    assert isinstance(host.failure, MetadataFailed)
    assert not host.failure.retryable
    assert "standing by for log orders/eu-1" in str(host.failure)
    if other is not None:
        await finish(lab, other)
