"""The client for code that does not await: scripts, notebooks, Spark's workers.

The names are those of ``client``, ``writer``, ``reader`` and ``tail``, whose docstrings say what
each call does. Here a call returns when it is done. Threads may share all objects except streams
and tails: a stream (the result of ``read`` or ``ledgers``) or a tail belongs to the thread that
iterates over it. The end of a writer's block closes its ledger. The end of the client's block ends
everything that the client opened, and closes no ledger.

No object here can be sent to another process. Send the address and the ``ClientConfig``, and call
``connect`` there; ``loop_thread`` says why. Each call costs a trip to the event loop and back:
``append`` makes one for each entry, ``append_many`` one for each MiB, reading and following one for
each batch.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, closing, contextmanager
from functools import partial
from types import TracebackType
from typing import Literal, Self

from zonekeeper.client.api import client, entry_data, exit_flush, loop_thread, reader, tail, writer
from zonekeeper.client.api.entry_data import Data
from zonekeeper.client.api.exit_flush import Lacking
from zonekeeper.client.api.loop_objects import LoopObject, streamed
from zonekeeper.client.api.loop_thread import Calls
from zonekeeper.client.api.reader import ReadBatch
from zonekeeper.client.api.tail import TailPlace
from zonekeeper.client.api.writer import TURN_BYTES
from zonekeeper.client.base import arguments
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.client.base.counters import ClientCounters
from zonekeeper.client.base.errors import ClientEnded, ForkedAfterUse
from zonekeeper.client.base.time_limits import TimeLimit
from zonekeeper.client.writing.batches import ENTRY_OVERHEAD_BYTES
from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.formats.entries import Entry


@contextmanager
def connect(uri: str, config: ClientConfig | None = None) -> Iterator["Client"]:
    """Give a client of the cluster at a metadata address, until the block ends."""
    with over(client.connect(uri, config)) as connected:
        yield connected


@contextmanager
def over(opening: AbstractAsyncContextManager[client.Client]) -> Iterator["Client"]:
    """Give a client over an async client, which is opened, used and closed on the loop."""
    with loop_thread.opened(opening) as (opened, calls):

        async def flush(most_s: float) -> Lacking:
            lacking = await opened.flush_within(most_s)
            return {(f"ledger {each}", "entries"): many for each, many in lacking.items()}

        with exit_flush.watched(flush, calls):
            yield Client(opened, calls)


class Client(LoopObject):
    """See ``client.Client``. Make it with ``connect``."""

    def __init__(self, opened: client.Client, calls: Calls) -> None:
        super().__init__(calls, opened)
        self._client = opened

    @property
    def config(self) -> ClientConfig:
        """The settings that the client was made with."""
        return self._client.config

    @property
    def counters(self) -> ClientCounters:
        """The client's counters."""
        return self._client.counters

    def create(  # noqa: PLR0913 each is a wish of its own, and has a name
        self,
        *,
        password: bytes | None = None,
        quorums: Quorums | None = None,
        digest: Digest | None = None,
        custom: Mapping[str, bytes] | None = None,
        ledger_id: int | None = None,
        deferred_sync: bool = False,
        owner: str | Literal[True] | None = None,
        timeout: float | None = None,
    ) -> "Writer":
        """Create a ledger, and give its writer; quorums and digest are the policy's by default."""
        made = self._calls.do(
            lambda: self._client.create(
                password=password,
                quorums=quorums,
                digest=digest,
                custom=custom,
                ledger_id=ledger_id,
                deferred_sync=deferred_sync,
                owner=owner,
                timeout=timeout,
            )
        )
        return Writer(made, self._calls)

    def open(
        self,
        ledger_id: int,
        *,
        password: bytes | None = None,
        recover: bool | None = None,
        timeout: float | None = None,
    ) -> "Reader":
        """Open a ledger for reading; ``recover`` must be given if the ledger is not closed."""
        opened = self._calls.do(
            lambda: self._client.open(
                ledger_id, password=password, recover=recover, timeout=timeout
            )
        )
        return Reader(opened, self._calls)

    def delete(self, ledger_id: int, *, timeout: float | None = None) -> None:
        """Delete a ledger; if it does not exist any more, that is no error."""
        self._calls.do(lambda: self._client.delete(ledger_id, timeout=timeout))

    def metadata(self, ledger_id: int, *, timeout: float | None = None) -> LedgerMetadata:
        """Give a ledger's metadata, no older than this call."""
        return self._calls.do(lambda: self._client.metadata(ledger_id, timeout=timeout))

    def ledgers(self) -> Generator[LedgerId, None, None]:
        """List all ledgers in the order of their ids."""
        return streamed(self._calls, self._client.ledgers)


class Writer(LoopObject):
    """See ``writer.Writer``. Closing it closes the ledger; ``with`` does."""

    def __init__(self, made: writer.Writer, calls: Calls) -> None:
        super().__init__(calls, made)
        self._writer = made

    @property
    def ledger_id(self) -> LedgerId:
        """The ledger that is written."""
        return self._writer.ledger_id

    @property
    def last_appended(self) -> EntryId:
        """The last entry id that was given out; -1: none."""
        return self._writer.last_appended

    @property
    def last_confirmed(self) -> EntryId:
        """The last entry up to which everything is acknowledged for good; -1: none."""
        return self._writer.last_confirmed

    @property
    def used_bytes(self) -> int:
        """The bytes of the budget in use now."""
        return self._writer.used_bytes

    @property
    def ensemble(self) -> tuple[BookieId, ...]:
        """The bookies that the writer writes to now."""
        return self._writer.ensemble

    @property
    def behind(self) -> dict[BookieId, EntryId]:
        """For each member that owes an answer: the first entry that it has not answered for."""
        return self._calls.do_now(lambda: self._writer.behind)

    @property
    def quorums(self) -> Quorums:
        """The quorums of the ledger."""
        return self._writer.quorums

    def can_lose(self, bookie: BookieId) -> bool:
        """Can everything that is under way be acknowledged without a member?"""
        return self._calls.do_now(lambda: self._writer.can_lose(bookie))

    def give_up(self, bookie: BookieId, why: str) -> None:
        """Treat a member as failed: another bookie takes its place, if there is one."""
        self._calls.do_now(lambda: self._writer.give_up(bookie, why))

    def prepare(self, timeout: float | None = None) -> None:
        """Open the ledger at its bookies before there is an entry, and wait for their answers."""
        self._calls.do(lambda: self._writer.prepare(timeout))

    def append(self, data: Data, timeout: float | None = None) -> EntryId:
        """Append an entry, waiting only while the byte budget is spent."""
        return self._calls.do(lambda: self._writer.append(data, timeout))

    def append_nowait(self, data: Data) -> EntryId:
        """Append an entry, or raise ``BudgetSpent``."""
        return self._calls.do_now(lambda: self._writer.append_nowait(data))

    def append_many(self, many: Iterable[Data], timeout: float | None = None) -> EntryId:
        """Append entries in order; give the id of the last one, or ``last_appended`` if none came.

        The entries are taken from ``many`` in this thread, and go to the loop in portions. If the
        call ends with an error, some entries may have been appended: ``last_appended`` says which
        was the last.
        """
        limit = TimeLimit(timeout, self._calls.now_s)
        with entry_data.several(self.last_appended) as done:
            for portion in _portions(many):
                append = partial(self._writer.append_many, portion, limit.left_s)
                done.last = self._calls.do(append)
        return done.last

    def append_and_wait(self, data: Data, timeout: float | None = None) -> EntryId:
        """Append an entry, and wait until it is acknowledged."""
        return self._calls.do(lambda: self._writer.append_and_wait(data, timeout))

    def flushed(self, entry_id: int, timeout: float | None = None) -> None:
        """Wait until an entry, and so everything before it, is acknowledged."""
        self._calls.do(lambda: self._writer.flushed(entry_id, timeout))

    def flush(self, timeout: float | None = None) -> None:
        """Wait until everything that was appended so far is acknowledged."""
        self._calls.do(lambda: self._writer.flush(timeout))

    def force(self, timeout: float | None = None) -> None:
        """Wait until everything that was appended so far is on disk, and readers may see it."""
        self._calls.do(lambda: self._writer.force(timeout))

    def tell_confirmed(self, timeout: float | None = None) -> None:
        """Make ``last_confirmed`` known to every reader that asks from now on."""
        self._calls.do(lambda: self._writer.tell_confirmed(timeout))

    def close(self, timeout: float | None = None) -> None:
        """Wait until everything appended is acknowledged; close the ledger at its last entry."""
        self._calls.do(lambda: self._writer.close(timeout))

    def halt(self) -> None:
        """Stop at once, like a process that dies; the ledger is left to a recovery."""
        self._calls.do_now(self._writer.halt)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, GeneratorExit):
            self._calls.drop(self._writer.halt)
        else:
            self._calls.do(lambda: self._writer.__aexit__(kind, error, trace))


class Reader(LoopObject):
    """See ``reader.Reader``."""

    def __init__(self, opened: reader.Reader, calls: Calls) -> None:
        super().__init__(calls, opened)
        self._reader = opened

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: a reader holds nothing that its client does not hold."""

    @property
    def ledger_id(self) -> LedgerId:
        """The ledger that is read."""
        return self._reader.ledger_id

    @property
    def metadata(self) -> LedgerMetadata:
        """The ledger's metadata as last read."""
        return self._reader.metadata

    @property
    def last_confirmed(self) -> EntryId:
        """The last entry that this reader may read; -1: none."""
        return self._reader.last_confirmed

    def read_last_confirmed(self, timeout: float | None = None) -> EntryId:
        """Ask for the LAC of an open ledger; ``last_confirmed`` never falls."""
        return self._calls.do(lambda: self._reader.read_last_confirmed(timeout))

    def refresh(self, timeout: float | None = None) -> bool:
        """Read the metadata again; say whether the fragments have changed."""
        return self._calls.do(lambda: self._reader.refresh(timeout))

    def read(self, first: int = 0, last: int | None = None) -> Generator[ReadBatch, None, None]:
        """Read entries from ``first`` to ``last`` (None: ``last_confirmed``), in batches."""
        return streamed(self._calls, lambda: self._reader.read(first, last))

    def read_entries(self, first: int = 0, last: int | None = None) -> Generator[Entry, None, None]:
        """Read like ``read``, entry by entry."""
        with closing(self.read(first, last)) as batches:
            for batch in batches:
                yield from batch

    def read_unconfirmed(
        self, first: int = 0, last: int | None = None
    ) -> Generator[ReadBatch, None, None]:
        """UNSAFE: also read entries beyond the confirmed end. They may vanish or change."""
        return streamed(self._calls, lambda: self._reader.read_unconfirmed(first, last))

    def follow(self, first: int = 0) -> "Tail":
        """Follow an open ledger from an entry on, until it is closed and all entries are given."""
        return Tail(self._calls.do_now(lambda: self._reader.follow(first)), self._calls)


class Tail(LoopObject):
    """See ``tail.Tail``. A wait that is interrupted loses no entry: the next call goes on.

    An entry counts as given when this thread takes it, not when the loop has it. So the place is
    kept here, and each call to the loop says from where on entries are wanted.
    """

    def __init__(self, opened: tail.Tail, calls: Calls) -> None:
        super().__init__(calls, opened.fetched)
        self.ledger_id = opened.ledger_id
        self._fetched = opened.fetched
        self._place = TailPlace(opened.position)

    def __repr__(self) -> str:
        state = self._fetched.state
        return f"<blocking Tail of ledger {self.ledger_id}: {state}, next entry {self.position}>"

    @property
    def position(self) -> EntryId:
        """The next entry to be given; another tail that follows from here on goes on."""
        return self._place.position

    def next(self, timeout: float | None = None) -> Entry | None:
        """Wait for the next entry; None: the ledger is closed, and all entries were given."""
        arguments.check_timeout(timeout)
        entry = self._place.take_one()
        if entry is None:
            self._arrive(timeout)
            entry = self._place.take_one()
        return entry

    def read_many(self, max_entries: int, timeout: float | None = None) -> list[Entry]:
        """Wait for the next entries; none: the ledger is closed, and all entries were given."""
        tail.check_asked(max_entries, timeout)
        given = self._place.take(max_entries)
        if not given:
            self._arrive(timeout)
            given = self._place.take(max_entries)
        return given

    def close(self) -> None:
        """Stop following. A call that waits, and any later one, raises ``TailClosed``."""
        self._place.put(())
        try:
            self._calls.do(self._fetched.close)
        except (ClientEnded, ForkedAfterUse):  # with the client, the following has ended
            self._calls.drop(self._fetched.abandon)

    def _arrive(self, timeout: float | None) -> None:
        position = self._place.position
        self._place.put(self._calls.do(lambda: self._fetched.at(position, timeout)))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Entry:
        entry = self.next()
        if entry is None:
            raise StopIteration
        return entry

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, GeneratorExit):
            self._calls.drop(self._fetched.abandon)
        else:
            self.close()


def _portions(many: Iterable[Data]) -> Iterator[list[bytes]]:
    """Copy entries to bytes, and cut them into lists to be appended at once."""
    portion, size_bytes = list[bytes](), 0
    for data in entry_data.as_many(many):
        portion.append(entry_data.as_bytes(data))
        size_bytes += len(portion[-1]) + ENTRY_OVERHEAD_BYTES
        if size_bytes >= TURN_BYTES:
            yield portion
            portion, size_bytes = [], 0
    if portion:
        yield portion
