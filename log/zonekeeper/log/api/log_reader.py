"""The reader of a log, for applications: from any message on, over ledgers, rotations, takeovers.

A reader gives a message only when it is in the log for good: its ledger stands in the record, the
ledger continues the one before it, that one has its end in the record, and the message is
confirmed. So all readers see the same messages in the same order, each once.
"""

from collections.abc import AsyncGenerator, Iterator
from contextlib import AbstractContextManager, aclosing, contextmanager
from dataclasses import dataclass

from zonekeeper.client.api.client import Client
from zonekeeper.client.api.reader import Reader
from zonekeeper.client.base import boundary
from zonekeeper.client.base import errors as client_errors
from zonekeeper.log.base import errors
from zonekeeper.log.base.log_figures import LogReaderFigures, OfLog
from zonekeeper.log.formats.batches import MessageBatch
from zonekeeper.log.formats.messages import LogMessage
from zonekeeper.log.sessions import locating, positions
from zonekeeper.log.writing import joining
from zonekeeper.metadata.formats.log_record import (
    LogDeleting,
    LogLedger,
    LogRecord,
    OtherIncarnation,
)
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.metadata.logs import logs
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.placement.base.troubles import Trouble
from zonekeeper.wire.formats.entries import Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadMessage:
    """A message with its id and its sequence."""

    id: MessageId
    sequence: int
    message: LogMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadMessages:
    """A batch as it stands in the log; ``first``: messages before it are not asked for."""

    ledger: LedgerId
    entry: EntryId
    #: The sequence of the batch's first message.
    sequence: int
    batch: MessageBatch
    first: int = 0

    def __len__(self) -> int:
        return len(self.batch) - self.first

    def __iter__(self) -> Iterator[ReadMessage]:
        for at in range(self.first, len(self.batch)):
            yield ReadMessage(
                id=MessageId(self.ledger, self.entry, at),
                sequence=self.sequence + at,
                message=self.batch.message(at),
            )


class LogReader:
    """Reads one log."""

    def __init__(self, client: Client, name: str, figures: LogReaderFigures) -> None:
        """``figures``: where it counts what it reads."""
        self.name = name
        self._client = client
        self._figures = figures
        self._key = OfLog(name)

    async def earliest(self) -> MessageId | None:
        """Give the first message that is kept; None: from the log's beginning on."""
        with self._at_store():
            return (await self._record()).start

    async def at_sequence(self, sequence: int) -> MessageId:
        """Give the id of the message with a sequence; raises ``NotInLog``, or ``LogTrimmed``."""
        with self._at_store():
            record = await self._record()
            return await locating.by_sequence(self._client, self.name, record, sequence)

    async def sequence_of(self, message_id: MessageId) -> int:
        """Give the sequence of the message with an id; raises ``NotInLog``, or ``LogTrimmed``."""
        with self._at_store():
            record = await self._record()
            return await positions.sequence_of(self._client, self.name, record, message_id)

    async def latest(self) -> MessageId | None:
        """Give the place behind the last message that a reader sees now; None: there is none yet.

        Reading from there on gives what comes later.
        """
        with self._at_store():
            at, _ = await positions.end_of(self._client, self.name, await self._record())
            return at

    async def end(self) -> int:
        """Give the sequence that follows the last message that a reader sees now."""
        with self._at_store():
            _, sequence = await positions.end_of(self._client, self.name, await self._record())
            return sequence

    async def at_time(self, wall_ms: int) -> MessageId | None:
        """Give the first message that may be of a time or later; None: there is none yet."""
        with self._at_store():
            record = await self._record()
            return await locating.by_time(self._client, self.name, record, wall_ms)

    async def read(self, start: MessageId | None = None) -> AsyncGenerator[ReadMessages, None]:
        """Read from a message on (None: from the earliest) to the end as it is now."""
        with self._reading():
            async with aclosing(self._read(start, follow=False)) as many:
                async for one in many:
                    yield one

    async def follow(self, start: MessageId | None = None) -> AsyncGenerator[ReadMessages, None]:
        """Read from a message on (None: from the earliest), and go on as the log grows."""
        with self._reading():
            async with aclosing(self._read(start, follow=True)) as many:
                async for one in many:
                    yield one

    def _at_store(self) -> AbstractContextManager[None]:
        """Translate the errors of the metadata store, as the client of ledgers does."""
        return boundary.translated(f"reading log {self.name}")

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            with self._at_store():
                yield
        except errors.LogTrimmed:
            self._figures.trimmed[self._key] += 1
            raise

    async def _record(self) -> LogRecord:
        record = await logs.find(self._client.cluster, self.name)
        if record.deleting:
            raise LogDeleting(f"log {self.name} is being deleted; nothing was read")
        return record

    async def _read(
        self, start: MessageId | None, *, follow: bool
    ) -> AsyncGenerator[ReadMessages, None]:
        record = await self._record()
        if start is None:
            start = record.start
        elif record.start is not None and start < record.start:
            raise locating.trimmed(self.name, record, f"message {start}")
        following = LedgerId(0) if start is None else start.ledger
        #: The sequence that follows what was read; None: not known yet.
        sequence = record.start_sequence if start is None or start == record.start else None
        if start is not None and (record.last_ledger is None or following > record.last_ledger):
            raise errors.NotInLog(f"log {self.name}: {start} is ahead of its end")
        while True:
            ledger = await self._next(record, following)
            if start is not None and (ledger is None or ledger.id != start.ledger):
                raise self._lacking(await self._record(), start)
            if ledger is None or ledger.sequence is None:
                if not follow:
                    return
                record = await self._changed(record)
                continue
            await self._check_no_gap(ledger, start, sequence)
            try:
                async with aclosing(self._ledger(record, ledger, start, follow=follow)) as many:
                    async for one in many:
                        sequence = one.sequence + len(one.batch)
                        yield one
            except (errors.LogDamaged, client_errors.ClientError):
                if await locating.check_kept(self._client, self.name, ledger.id, record.id):
                    raise
                record = await self._record()  # the ledger was dropped, and nothing of it was given
                continue
            if ledger.end is None:
                if not follow:
                    return
                record = await self._settled(record, ledger.id)
            following, start = LedgerId(ledger.id + 1), None

    def _lacking(self, now: LogRecord, start: MessageId) -> Trouble:
        """Give the error for a message whose ledger the log does not have, or not any more."""
        if now.start is not None and start < now.start:
            return locating.trimmed(self.name, now, f"message {start}")
        return locating.foreign(self.name, start)

    async def _next(self, record: LogRecord, following: LedgerId) -> LogLedger | None:
        """Give the first ledger from one on that the record has."""
        ledgers = logs.ledgers(self._client.cluster, self.name, record, following)
        async with aclosing(ledgers) as every:
            async for ledger in every:
                return ledger
        return None

    async def _check_no_gap(
        self, ledger: LogLedger, start: MessageId | None, sequence: int | None
    ) -> None:
        """Raise ``LogTrimmed`` if what comes before a ledger was trimmed since the last look.

        A page of a record that was read before may be gone, and a ledger with it.
        """
        assert ledger.sequence is not None
        behind = sequence is not None and ledger.sequence > sequence
        if not behind and (start is None or ledger.id == start.ledger):
            return
        now = await self._record()
        if sequence is not None and now.start_sequence > sequence:
            raise locating.trimmed(self.name, now, f"message {sequence}")
        if start is not None and now.start is not None and start < now.start:
            raise locating.trimmed(self.name, now, f"message {start}")
        if behind:
            raise errors.LogDamaged(
                f"log {self.name}: the record has ledger {ledger.id} from message "
                f"{ledger.sequence} on, and nothing for message {sequence}; nothing was passed over"
            )

    async def _ledger(
        self, record: LogRecord, ledger: LogLedger, start: MessageId | None, *, follow: bool
    ) -> AsyncGenerator[ReadMessages, None]:
        """Give the batches of one ledger."""
        async with locating.reading(self._client, self.name, ledger.id, record.id) as reader:
            first = EntryId(locating.OPENING_ENTRY + 1)
            if start is not None and start.ledger == ledger.id:
                first = max(first, start.entry)
            if ledger.end is None and not await self._is_part(
                record, ledger, reader, follow=follow
            ):
                return
            async with aclosing(self._entries(ledger, reader, first, follow=follow)) as entries:
                async for entry in entries:
                    if locating.is_manifest(ledger, entry.entry_id, entry.payload):
                        continue  # it says which attempts came in before, and has no message
                    one = _read_messages(ledger, entry, start)
                    if len(one) > 0:
                        self._figures.messages[self._key] += len(one)
                        self._figures.bytes[self._key] += len(entry.payload)
                        yield one

    async def _is_part(
        self, record: LogRecord, ledger: LogLedger, reader: Reader, *, follow: bool
    ) -> bool:
        """Does a ledger that has no end continue the log? A follower waits until that is known."""
        if reader.last_confirmed < locating.OPENING_ENTRY:
            if not follow:
                return False
            async with reader.follow(locating.OPENING_ENTRY) as tail:
                if await tail.next() is None:
                    return False
        return joining.continues(record, ledger, await locating.opening_of(reader))

    async def _entries(
        self, ledger: LogLedger, reader: Reader, first: EntryId, *, follow: bool
    ) -> AsyncGenerator[Entry, None]:
        if ledger.end is None and follow:
            async with reader.follow(first) as tail:
                async for entry in tail:
                    yield entry
            return
        last = reader.last_confirmed if ledger.end is None else ledger.end.last_entry
        if last > reader.last_confirmed:
            await reader.read_last_confirmed()
        if first <= last:
            async with aclosing(reader.read_entries(first, last)) as entries:
                async for entry in entries:
                    yield entry

    async def _settled(self, record: LogRecord, ledger_id: LedgerId) -> LogRecord:
        """Wait until a ledger has its end in the record, or was dropped."""
        while any(ledger.id == ledger_id for ledger in record.unended):
            record = await self._changed(record)
        return record

    async def _changed(self, record: LogRecord) -> LogRecord:
        """Wait until the record is another one than it was."""
        now = await self._record()
        while now == record:
            await self._record_written(record)
            now = await self._record()
        if now.id != record.id:
            raise OtherIncarnation(
                f"log {self.name} was deleted, and made anew: {record.id} is now {now.id}; begin "
                "to read the new one"
            )
        return now

    async def _record_written(self, record: LogRecord) -> None:
        """Wait until a watch shows another record."""
        async with logs.watch(self._client.cluster, self.name) as states:
            async for state in states:
                if state != record:
                    return


def _read_messages(ledger: LogLedger, entry: Entry, start: MessageId | None) -> ReadMessages:
    """Give the messages of an entry, those before the start left out."""
    batch = locating.parsed(ledger.id, entry.entry_id, bytes(entry.payload))
    assert ledger.sequence is not None, "a ledger is read after the one before it has ended"
    is_first = start is not None and (start.ledger, start.entry) == (ledger.id, entry.entry_id)
    return ReadMessages(
        ledger=ledger.id,
        entry=entry.entry_id,
        sequence=ledger.sequence + batch.place,
        batch=batch,
        first=start.index if start is not None and is_first else 0,
    )
