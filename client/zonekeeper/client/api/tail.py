"""A tail: it waits for the entries of a ledger as they are confirmed, and gives each of them once.

``Reader.follow`` makes a tail. Its entries come from a *following*: an async generator that reads,
waits and tries again, until the ledger is closed. A step of the following gives the next entries,
and is a task of the client. A call of the tail only waits for that task. So a call that is
cancelled, or whose timeout is over, ends no step, and the next call waits for the same step. The
entries of a step are kept until the entry after them is asked for. So an entry is lost neither
between the step and the call nor between the loop and a thread that was interrupted.

The end is given only after the following has ended by itself. If the following fails, the call
raises its error, and the next call begins a new following at the same position.

One call at a time may wait. A tail that is dropped stops its step, in whatever thread it is
dropped. No step is begun ahead of a call.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self, TypeAlias

from zonekeeper.client.base import arguments, errors
from zonekeeper.client.base.tasks import Tasks
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.formats.entries import Entry

#: Begins a following at an entry. It gives consecutive entries, at least one at a time.
Following: TypeAlias = Callable[[EntryId], AsyncGenerator[Sequence[Entry], None]]


class FetchedEntries:
    """The entries that a tail has fetched. It lives on the client's loop."""

    def __init__(self, ledger_id: LedgerId, following: Following, tasks: Tasks) -> None:
        #: The step that no call has taken the outcome of; None: there is none.
        self._step: asyncio.Task[Sequence[Entry] | errors.ClientError] | None = None
        self._ledger_id = ledger_id
        self._following = following
        self._tasks = tasks
        self._entries: AsyncGenerator[Sequence[Entry], None] | None = None
        #: The outcome of the step before. If the following has ended, it is empty.
        self._kept: Sequence[Entry] = ()
        self._ended = False
        self._closed = False
        self._waiting = False

    @property
    def state(self) -> str:
        """What it does, in a word, for people."""
        return "closed" if self._closed else "at the end" if self._ended else "following"

    async def at(self, position: EntryId, timeout: float | None) -> Sequence[Entry]:
        """Give entries from ``position`` on; none: the ledger is closed, and ends before it.

        ``position`` is that of the call before, or the entry after those that the call before gave.
        """
        self._tasks.home.check()
        if self._closed:
            raise self._is_closed()
        if self._waiting:
            raise errors.TailBusy(
                f"ledger {self._ledger_id}: another call of this tail waits for entry {position}; "
                "let it end first, or follow() the ledger once for each task; no entry is lost"
            )
        if self._ended or (self._kept and self._kept[-1].entry_id >= position):
            return self._kept
        self._waiting = True
        try:
            step = self._step = self._step or self._begin(position)
            await asyncio.wait({step}, timeout=timeout)
            if self._closed:
                raise self._is_closed()
            if not step.done():
                raise errors.WaitTimedOut(
                    f"ledger {self._ledger_id}: entry {position} has not come; no entry is lost: "
                    "call again. If reading fails, the log says why"
                )
            self._step = None
            outcome = await self._tasks.result(step)
        finally:
            self._waiting = False
        if isinstance(outcome, errors.ClientError):
            self._entries = None
            raise outcome
        self._kept, self._ended = outcome, not outcome
        return outcome

    async def close(self) -> None:
        """Stop the step, and end the following."""
        entries, step = self._entries, self._step
        self.abandon()
        if step is not None:
            await asyncio.wait({step})
        if entries is not None:
            await entries.aclose()

    def abandon(self) -> None:
        """Stop the step, and wait for nothing."""
        self._closed, self._entries, self._kept = True, None, ()
        if self._step is not None:
            self._step.cancel()

    def __del__(self) -> None:
        step = self._step
        if step is not None and not step.done() and not self._tasks.home.forked:
            with suppress(RuntimeError):  # the loop has ended, and the step with it
                step.get_loop().call_soon_threadsafe(step.cancel)

    def _begin(self, position: EntryId) -> "asyncio.Task[Sequence[Entry] | errors.ClientError]":
        if self._entries is None:
            self._entries = self._following(position)
        return self._tasks.start(_step(self._entries))

    def _is_closed(self) -> errors.TailClosed:
        return errors.TailClosed(
            f"ledger {self._ledger_id}: this tail was closed; follow() again, from its position on"
        )


async def _step(
    entries: AsyncGenerator[Sequence[Entry], None],
) -> Sequence[Entry] | errors.ClientError:
    """Give the next entries, or none at the end; give a failure as a value, as a task must.

    This is no method, so that a step under way does not keep its tail from being dropped.
    """
    try:
        return await anext(entries)
    except StopAsyncIteration:
        return ()
    except errors.ClientError as error:
        return error


def check_asked(max_entries: int, timeout: float | None) -> None:
    """Check the arguments of ``read_many``."""
    arguments.check_whole("max_entries", max_entries, 1, None)
    arguments.check_timeout(timeout)


class TailPlace:
    """How far the entries of a tail were given, and entries to be given next."""

    def __init__(self, first: EntryId) -> None:
        #: The next entry to be given.
        self.position = first
        self._entries: Sequence[Entry] = ()

    def put(self, entries: Sequence[Entry]) -> None:
        """Take entries; the first one of them is the next to be given."""
        self._entries = entries

    def take(self, most: int) -> list[Entry]:
        """Give the next entries; an empty list: more must be put first."""
        entries = self._entries  # another thread may close the tail
        if not entries:
            return []
        at = self.position - entries[0].entry_id
        given = list(entries[at : at + most])
        self.position = EntryId(self.position + len(given))
        return given

    def take_one(self) -> Entry | None:
        """Give the next entry; None: more must be put first."""
        entries = self._entries
        if not entries or self.position > entries[-1].entry_id:
            return None
        entry = entries[self.position - entries[0].entry_id]
        self.position = EntryId(entry.entry_id + 1)
        return entry


class Tail:
    """Follows one ledger: an async iterator over its entries, which ends when the ledger is closed.

    Each wait may be cancelled or time out, and the next call goes on at the same entry. Only one
    call at a time may wait; another one raises ``TailBusy``.
    """

    def __init__(self, ledger_id: LedgerId, first: EntryId, fetched: FetchedEntries) -> None:
        self.ledger_id = ledger_id
        self.fetched = fetched
        self._place = TailPlace(first)

    def __repr__(self) -> str:
        state = self.fetched.state
        return f"<Tail of ledger {self.ledger_id}: {state}, next entry {self.position}>"

    @property
    def position(self) -> EntryId:
        """The next entry to be given; another tail that follows from here on goes on."""
        return self._place.position

    async def next(self, timeout: float | None = None) -> Entry | None:
        """Wait for the next entry; None: the ledger is closed, and all entries were given.

        Raises ``WaitTimedOut`` after ``timeout`` seconds; 0 gives what has arrived.
        """
        arguments.check_timeout(timeout)
        entry = self._place.take_one()
        if entry is None:
            self._place.put(await self.fetched.at(self.position, timeout))
            entry = self._place.take_one()
        return entry

    async def read_many(self, max_entries: int, timeout: float | None = None) -> list[Entry]:
        """Wait for the next entries; none: the ledger is closed, and all entries were given.

        This gives at most ``max_entries``, and does not wait for more than one. Raises
        ``WaitTimedOut`` after ``timeout`` seconds; 0 gives what has arrived.
        """
        check_asked(max_entries, timeout)
        given = self._place.take(max_entries)
        if not given:
            self._place.put(await self.fetched.at(self.position, timeout))
            given = self._place.take(max_entries)
        return given

    async def close(self) -> None:
        """Stop following. A call that waits, and any later one, raises ``TailClosed``."""
        self._place.put(())
        await self.fetched.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Entry:
        entry = await self.next()
        if entry is None:
            raise StopAsyncIteration
        return entry

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()
