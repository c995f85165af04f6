"""A consumer's cursor of a log, for applications: resume, move, seek, lag.

A cursor stands with its log and outlives its consumers. The consumer that opened it last moves it.
One that had it before hears ``CursorTaken`` at its next change, and reads on only if it opens the
cursor again. To move the cursor behind messages says that the consumer needs them no more. So a
consumer that fails between its work and the move sees the messages again: each at least once.

Retention waits for a cursor, within the limits of the log's rules. A consumer that is slower, or
whose log was trimmed by a person, hears ``LogTrimmed``. Nothing is passed over in silence: it then
seeks the earliest message by itself.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager, aclosing
from dataclasses import dataclass, replace

from zonekeeper.client.api.client import Client
from zonekeeper.client.base import boundary
from zonekeeper.log.api.log_reader import LogReader, ReadMessage, ReadMessages
from zonekeeper.log.base.errors import LogTrimmed
from zonekeeper.log.base.log_figures import LogReaderFigures, OfCursor, OfLog
from zonekeeper.log.sessions import positions
from zonekeeper.metadata.formats.log_record import LogDeleting, LogRecord, OtherIncarnation
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.metadata.logs import log_cursors, logs
from zonekeeper.metadata.logs.log_cursor import CursorClaim, CursorMark, CursorPosition


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConsumer:
    """The consumer that opens a cursor; ``token`` was drawn for this call."""

    token: str
    address: str
    wall_ms: Callable[[], int]
    figures: LogReaderFigures


async def opened(
    client: Client, name: str, cursor: str, consumer: LogConsumer, *, at_end: bool = False
) -> "LogCursor":
    """Open a cursor, and take it from the consumer that had it."""
    record = await logs.find(client.cluster, name)
    now_ms = consumer.wall_ms()
    wanted = CursorMark(
        log_id=record.id,
        created_ms=now_ms,
        epoch=1,
        token=consumer.token,
        address=consumer.address,
        position=CursorPosition(sequence=record.start_sequence, at=record.start),
        moved_ms=now_ms,
    )
    if at_end and cursor not in await log_cursors.names(client.cluster, name):
        at, sequence = await positions.end_of(client, name, record)
        wanted = replace(wanted, position=CursorPosition(sequence=sequence, at=at))
    mark = await log_cursors.open_cursor(client.cluster, name, cursor, wanted)
    return LogCursor(client, name, cursor, mark, consumer.wall_ms, consumer.figures)


class LogCursor:
    """A consumer's hold on its cursor."""

    def __init__(
        self,
        client: Client,
        log: str,
        name: str,
        mark: CursorMark,
        wall_ms: Callable[[], int],
        figures: LogReaderFigures,
    ) -> None:
        self.log = log
        self.name = name
        #: As it was after this consumer's last change.
        self.mark = mark
        self._client = client
        self._wall_ms = wall_ms
        self._figures = figures
        self._claim = CursorClaim(log_id=mark.log_id, epoch=mark.epoch, token=mark.token)

    @property
    def sequence(self) -> int:
        """The sequence of the message that is read next."""
        return self.mark.position.sequence

    async def read(self) -> AsyncGenerator[ReadMessages, None]:
        """Read from the cursor on to the end as it is now; the cursor itself stays."""
        with self._at_store("reading from"):
            async with aclosing(self._read(follow=False)) as many:
                async for one in many:
                    yield one

    async def follow(self) -> AsyncGenerator[ReadMessages, None]:
        """Read from the cursor on, and go on as the log grows; the cursor itself stays."""
        with self._at_store("reading from"):
            async with aclosing(self._read(follow=True)) as many:
                async for one in many:
                    yield one

    async def move(self, behind: ReadMessages | ReadMessage) -> None:
        """Move behind a message, or behind all messages of a batch, that were read.

        Raises ``CursorTaken`` if another consumer has opened the cursor.
        """
        if isinstance(behind, ReadMessage):
            last, sequence = behind.id, behind.sequence + 1
        else:
            last = MessageId(behind.ledger, behind.entry, len(behind.batch) - 1)
            sequence = behind.sequence + len(behind.batch)
        with self._at_store("moving"):
            self.mark = await log_cursors.move(
                self._client.cluster,
                self.log,
                self.name,
                self._claim,
                CursorPosition(sequence=sequence, at=last),
                self._wall_ms(),
            )

    async def seek(self, message: MessageId) -> None:
        """Read a message next; raises ``LogTrimmed`` or ``NotInLog``, and the cursor stays."""
        with self._at_store("setting"):
            record = await self._record()
            sequence = await positions.sequence_of(self._client, self.log, record, message)
            await self._seek(CursorPosition(sequence=sequence, at=message))

    async def seek_earliest(self) -> None:
        """Read the earliest message next that is kept."""
        with self._at_store("setting"):
            record = await self._record()
            await self._seek(CursorPosition(sequence=record.start_sequence, at=record.start))

    async def seek_end(self) -> None:
        """Read next what is appended from now on."""
        with self._at_store("setting"):
            at, sequence = await positions.end_of(self._client, self.log, await self._record())
            await self._seek(CursorPosition(sequence=sequence, at=at))

    async def lag(self) -> int:
        """Give the number of confirmed messages that the consumer has not passed yet."""
        with self._at_store("reading the lag of"):
            _, end = await positions.end_of(self._client, self.log, await self._record())
            lag = max(0, end - self.sequence)
        self._figures.lag_now[OfCursor(self.log, self.name)] = lag
        return lag

    def _at_store(self, doing: str) -> AbstractContextManager[None]:
        """Translate the errors of the metadata store, as the client of ledgers does."""
        return boundary.translated(f"{doing} cursor {self.name} of log {self.log}")

    async def _seek(self, to: CursorPosition) -> None:
        self.mark = await log_cursors.seek(
            self._client.cluster, self.log, self.name, self._claim, to, self._wall_ms()
        )

    async def _record(self) -> LogRecord:
        """Give the record of the very log that the cursor is of."""
        record = await logs.find(self._client.cluster, self.log)
        if record.id != self.mark.log_id:
            raise OtherIncarnation(
                f"log {self.log} was deleted, and made anew: its id was {self.mark.log_id}, and is "
                f"{record.id}; cursor {self.name} went with the old one; open it again"
            )
        if record.deleting:
            raise LogDeleting(f"log {self.log} is being deleted, and its cursors with it")
        return record

    async def _read(self, *, follow: bool) -> AsyncGenerator[ReadMessages, None]:
        record, position = await self._record(), self.mark.position
        if position.sequence < record.start_sequence:
            raise self._trimmed(record)
        at = position.at
        if at is not None and record.start is not None and at < record.start:
            at = None
        reader, is_first = LogReader(self._client, self.log, self._figures), True
        many = reader.follow(at) if follow else reader.read(at)
        async with aclosing(many) as batches:
            async for one in batches:
                passed = position.sequence - one.sequence
                if is_first and passed < one.first:
                    raise self._trimmed(await self._record())
                is_first = False
                if passed < len(one.batch):
                    yield replace(one, first=max(one.first, passed))

    def _trimmed(self, record: LogRecord) -> LogTrimmed:
        self._figures.trimmed[OfLog(self.log)] += 1
        return LogTrimmed(
            f"log {self.log}: cursor {self.name} is at message {self.sequence}, which was "
            f"trimmed; the earliest that is kept is {record.start}, with sequence "
            f"{record.start_sequence}; seek the earliest to go on there"
        )
