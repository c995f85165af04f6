"""A log as a stream: where it begins, how far it is, and which cursor keeps the place.

It runs beside the driver, on the loop of the process's client. A look at the end of an open log may
see less than the look before. So an end never goes back behind the start that Spark gives.

With a ``cursor`` the place is kept with the log from its first resolution on, because Spark does
not keep where a query began until its first micro-batch is committed. The query is the cursor's
consumer: it takes the cursor, and a query that had it before fails at its next move.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager, aclosing
from dataclasses import dataclass

from zonekeeper.client.api.reader import Reader
from zonekeeper.client.base import boundary
from zonekeeper.log.api.log_client import LogClient
from zonekeeper.log.sessions import locating
from zonekeeper.metadata.formats.log_record import LogLedger, LogRecord
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.metadata.logs import log_cursors, logs
from zonekeeper.metadata.logs.log_cursor import CursorClaim, CursorMark, CursorPosition
from zonekeeper.pipeline.reading import admission, slices
from zonekeeper.pipeline.reading.admission import StreamOffset
from zonekeeper.pipeline.reading.slices import EntrySlice, LogSpan, ReadTask
from zonekeeper.pipeline.reading.wanted import OneLog, ReadEdge
from zonekeeper.pipeline.source import entry_looks, planning, task_reading
from zonekeeper.placement.base.ids import EntryId, LedgerId


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLimits:
    """How much a micro-batch may have; None: no limit."""

    rows: int | None = None
    size_bytes: int | None = None
    #: An end that the query may not pass: what there was when it began.
    target: StreamOffset | None = None


@dataclass(frozen=True, slots=True)
class StreamLook:
    """What a look gives: where the next micro-batch ends, and where the log does."""

    end: StreamOffset
    available: StreamOffset


class LogStream:
    """A query's way through one log."""

    def __init__(
        self, opened: LogClient, wanted: OneLog, token: str, wall_ms: Callable[[], int]
    ) -> None:
        """``token`` was drawn for this run of the query."""
        self._opened = opened
        self._wanted = wanted
        self._token = token
        self._wall_ms = wall_ms
        #: The cursor as this run has it; None: it has not opened it yet.
        self._mark: CursorMark | None = None

    async def initial(self) -> StreamOffset:
        """Give the place where a new query begins; a cursor that there is says it."""
        record = await planning.record_of(self._opened, self._wanted.name)
        if self._wanted.cursor is not None:
            with self._at_store():
                known = await log_cursors.every(
                    self._opened.client.cluster, self._wanted.name, record.id
                )
            mark = known.get(self._wanted.cursor) or await self._make_cursor(record)
            at = mark.position.at
            if mark.position.sequence <= record.start_sequence:
                at = record.start
            return StreamOffset(log_id=record.id, at=at, sequence=mark.position.sequence)
        return await self._resolved(record)

    async def _resolved(self, record: LogRecord) -> StreamOffset:
        at, sequence = await planning.place_of(
            self._opened,
            record,
            self._opened.reader(self._wanted.name),
            self._wanted.first or ReadEdge.EARLIEST,
        )
        await planning.check_incarnation(self._opened, self._wanted.name, record.id)
        return StreamOffset(log_id=record.id, at=at, sequence=sequence)

    async def available(self) -> StreamOffset:
        """Give the end of the log that a reader sees now."""
        record = await planning.record_of(self._opened, self._wanted.name)
        at, sequence = await planning.end_of(self._opened, self._wanted.name, record)
        return StreamOffset(log_id=record.id, at=at, sequence=sequence)

    async def look(self, start: StreamOffset, limits: StreamLimits) -> StreamLook:
        """Give the end of the micro-batch that begins at an offset."""
        name = self._wanted.name
        record = await planning.record_of(self._opened, name)
        admission.check_log(start, name, record)
        first = admission.begun(start, self._wanted, record)
        at, sequence = await planning.end_of(self._opened, name, record)
        available = StreamOffset(log_id=record.id, at=at, sequence=sequence)
        end = available
        if limits.target is not None and limits.target.sequence < end.sequence:
            end = limits.target
        if end.sequence <= first.sequence:
            return StreamLook(end=max(start, first, key=_sequence), available=available)
        rows = admission.by_rows(first.sequence, end.sequence, limits.rows)
        if rows < end.sequence:
            place = await self._opened.reader(name).at_sequence(rows)
            end = StreamOffset(log_id=record.id, at=place, sequence=rows)
        if limits.size_bytes is not None:
            end = await self._within(first, end, limits.size_bytes, record)
        return StreamLook(end=end, available=available)

    async def tasks(
        self, start: StreamOffset, end: StreamOffset, partitions: int | None
    ) -> list[ReadTask]:
        """Give the tasks that read what is between two offsets: the same rows each time."""
        record = await planning.record_of(self._opened, self._wanted.name)
        span = admission.span(self._wanted, start, end, record)
        return await planning.of_span(self._opened, span, partitions)

    async def committed(self, end: StreamOffset) -> None:
        """Move the cursor, if there is one, behind what the query needs no more."""
        cursor, name = self._wanted.cursor, self._wanted.name
        if cursor is None:
            return
        with self._at_store():
            record = await self._opened.record(name)
            admission.check_log(end, name, record)
            position = CursorPosition(sequence=end.sequence, at=end.at)
            mark = self._mark or await self._open_cursor(record, position)
            if mark.position.sequence < end.sequence:
                claim = CursorClaim(log_id=mark.log_id, epoch=mark.epoch, token=mark.token)
                mark = await log_cursors.move(
                    self._opened.client.cluster, name, cursor, claim, position, self._wall_ms()
                )
            self._mark = mark

    async def _make_cursor(self, record: LogRecord) -> CursorMark:
        """Keep with the log where the query begins."""
        begins = await self._resolved(record)
        with self._at_store():
            position = CursorPosition(sequence=begins.sequence, at=begins.at)
            self._mark = await self._open_cursor(record, position)
        return self._mark

    async def _open_cursor(self, record: LogRecord, position: CursorPosition) -> CursorMark:
        """Take the cursor; ``position`` is that of a cursor which is made by this."""
        assert self._wanted.cursor is not None
        now_ms = self._wall_ms()
        made = CursorMark(
            log_id=record.id,
            created_ms=now_ms,
            epoch=1,
            token=self._token,
            address="spark",
            position=position,
            moved_ms=now_ms,
        )
        return await log_cursors.open_cursor(
            self._opened.client.cluster, self._wanted.name, self._wanted.cursor, made
        )

    def _at_store(self) -> AbstractContextManager[None]:
        return boundary.translated(f"following log {self._wanted.name}")

    async def _within(
        self, start: StreamOffset, end: StreamOffset, most_bytes: int, record: LogRecord
    ) -> StreamOffset:
        """Give the last place, at most ``end``, before which there are at most so many bytes.

        It stands behind a batch of the log, and behind the first one at least.
        """
        assert end.at is not None, "there are messages before the end"
        span = LogSpan(
            name=self._wanted.name,
            log_id=record.id,
            start=start.at,
            first=start.sequence,
            stop=end.at,
            end=end.sequence,
        )
        used = 0
        with self._at_store():
            found = [ledger async for ledger in _ledgers(self._opened, record, span)]
            parts = [one.part for one in slices.of_log(found, span)]
            for part in parts:
                async with locating.reading(
                    self._opened.client, span.name, part.ledger, record.id
                ) as reader:
                    before = (await entry_looks.entry_at(reader, EntryId(part.first - 1))).length
                    size = (await entry_looks.entry_at(reader, part.last)).length - before
                    if used + size > most_bytes:
                        most = before + most_bytes - used
                        last = await entry_looks.last_within(reader, part.first, part.last, most)
                        if part == parts[0]:
                            last = max(last, part.first)
                        return await _behind(reader, part, last, end)
                used += size
        return end


async def _behind(
    reader: Reader, part: EntrySlice, last: EntryId, end: StreamOffset
) -> StreamOffset:
    """Give the place behind an entry of a slice, or before the slice; at most ``end``."""
    sequence = part.sequence
    # The last entry of a ledger may be a manifest, which has no message.
    for entry_id in range(last, max(part.first, last - 1) - 1, -1):
        entry = await entry_looks.entry_at(reader, EntryId(entry_id))
        batch = task_reading.batch_in(part, entry)
        if batch is not None:
            sequence += batch.place + len(batch)
            break
    if sequence >= end.sequence:
        return end
    at = MessageId(part.ledger, EntryId(last + 1), 0)
    return StreamOffset(log_id=end.log_id, at=at, sequence=sequence)


def _sequence(offset: StreamOffset) -> int:
    return offset.sequence


async def _ledgers(
    opened: LogClient, record: LogRecord, span: LogSpan
) -> AsyncGenerator[LogLedger, None]:
    assert span.stop is not None
    first = LedgerId(0) if span.start is None else span.start.ledger
    every = logs.ledgers(opened.client.cluster, span.name, record, first)
    async with aclosing(every) as ledgers:
        async for ledger in ledgers:
            if ledger.id > span.stop.ledger:
                return
            yield ledger
