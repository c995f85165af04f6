"""The log: it writes records in batches, and acknowledges a batch after one write and one sync.

A record that is put in waits in a queue. When the disk is free, all waiting records become one
batch: one vectored write into the active arrival segment, one sync, then the answers. So a single
record does not wait for others, and many records share a sync. The order of the puts is the order
on disk and the order of the answers. A batch that does not fit into its segment begins the next
one. If there is no segment, all records wait (``arrivals``). Before that, the log makes pauses
between batches (``pace``).

*Deferred* frames (``Flags.DEFERRED_SYNC``) are answered when they are written. They are shown to
readers (``on_placed``) only after a sync, so that an entry that was shown is never lost; ``settle``
waits for that sync. A sync happens in four cases: with the next record that is not deferred, with a
put without a record (``force``), when ``UNSYNCED_BYTES_MAX`` are not synced, and when the log falls
idle.

When the log falls idle, and at its end, it writes an empty batch, the covering batch. It says that
all earlier batches were synced. So damage to the last acknowledged batch is told from a torn end.

The log waits while room or memory is short, and repeats a write that did not fit. New records are
refused earlier (``has_room``). So the log waits for room only if other users of the device took it.

Any other error of the disk ends the log. Every waiting put fails with IoFailed, which says that the
record may be on the disk. ``run`` raises. No write to that disk is ever tried again.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from zonekeeper.bookie.disk import waiting
from zonekeeper.bookie.disk.disks import Disk
from zonekeeper.bookie.disk.files import SHORTAGES, File, FileSystem, Space
from zonekeeper.bookie.formats import batch_format, locations, record_format
from zonekeeper.bookie.formats.batch_format import Placed, Position
from zonekeeper.bookie.formats.log_end import LogEnd
from zonekeeper.bookie.ledgers.records import FenceRecord, Record
from zonekeeper.bookie.segments import arrivals as arrival_files
from zonekeeper.bookie.segments.arrivals import Arrivals, Opened, Segment
from zonekeeper.placement.base.troubles import Trouble
from zonekeeper.wire.formats import errors
from zonekeeper.wire.formats.frames import Flags, Frame

#: A log without work for this time writes its covering batch.
IDLE_MS: Final = 100
#: When this many bytes of deferred frames are not synced, the next batch is synced.
UNSYNCED_BYTES_MAX: Final = 8 << 20
#: Of the room that is written in advance, entries leave this much to fences, to records that forget
#: a ledger, and to starts.
STATE_BYTES: Final = 1 << 20


class DiskFailedError(Trouble):
    """The disk refused a write or a sync; the bookie must stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPut:
    """A record for the log, and the callbacks for its outcome.

    Without a record the put asks that all earlier records be synced.
    """

    record: Record | None
    #: Called when the record and all earlier ones are on disk; for a deferred frame: are written.
    written: Callable[[], None]
    failed: Callable[[errors.ProtocolError], None]


class Log:
    """Appends batches to the arrival segments, on an event loop."""

    def __init__(
        self,
        files: FileSystem,
        disk: Disk,
        opened: Opened,
        arrivals: Arrivals,
        *,
        on_placed: Callable[[Sequence[Placed]], None],
        on_segment: Callable[[Segment], None],
    ) -> None:
        """Set up the log; ``run`` does the work.

        ``on_placed`` is called with records that are synced: before their puts are answered, or
        after, for deferred frames. ``on_segment`` is called before a segment is used.
        """
        self._files = files
        self._disk = disk
        self._log_id = opened.log_id
        self._arrivals = arrivals
        self._segment = opened.active
        #: The last batch written is ``_sequence``, the last one known to be on disk ``_synced``:
        #: ``_synced <= _sequence``.
        self._sequence = self._synced = opened.sequence
        #: The segment that has the batch ``_synced``.
        self._synced_in = opened.active
        self._on_placed = on_placed
        self._on_segment = on_segment
        #: Called after all puts of a batch were answered.
        self.on_batch: Callable[[], None] = _nothing
        #: Called when a covering batch is on the disk.
        self.on_covered: Callable[[], None] = _nothing
        self._queue: deque[LogPut] = deque()
        #: The puts of the batch that is being written.
        self._in_work: Sequence[LogPut] = ()
        #: Records that are written, but neither synced nor shown.
        self._hidden: list[Placed] = []
        self._hidden_bytes = 0
        self._wake = asyncio.Event()
        #: Is the last batch a covering batch?
        self._covered = True
        self._closing = False
        #: The error for every further put; None: puts are taken.
        self._refusal: errors.ProtocolError | None = None
        #: Bytes of the queue.
        self.waiting_bytes = 0
        #: Bytes of ``_in_work``.
        self._in_work_bytes = 0

    @property
    def active(self) -> File:
        """The file of the active segment."""
        return self._segment.file

    @property
    def end(self) -> LogEnd:
        """The last batch that is known to be on the disk."""
        segment = self._synced_in
        return LogEnd(
            log_id=self._log_id,
            position=Position(segment.generation, self._synced),
            arrival_number=arrival_files.number_of(segment.file.name) or 0,
        )

    @property
    def space(self) -> Space:
        """The room on the device at the last write, or when it was last measured."""
        return self._arrivals.space

    def has_room(self, record: Record, *, urgent: bool) -> bool:
        """Say whether one more record fits after all that waits, and leaves the reserve.

        Room that is written in advance counts, even if the device has no other room. An *urgent*
        record may use all of that, and half of the reserve. The records that wait must never need
        more than can be written. Otherwise a record that makes room, for example one that forgets a
        ledger, would wait behind them for ever.
        """
        needed = self._needed_bytes(record)
        prepared, reserve = self._prepared_bytes(needed), self._arrivals.reserve
        left = prepared + self._free_bytes() - needed
        if urgent:
            return needed + STATE_BYTES <= prepared or left >= reserve.rounds_leave_bytes
        return left >= reserve.appends_leave_bytes

    def has_room_for_growth(self, record: Record, growth_bytes: int, *, is_known: bool) -> bool:
        """Say whether the next checkpoint keeps its room if a record makes it so much larger.

        ``is_known``: the record's ledger was known here before.
        """
        reserve = self._arrivals.reserve
        if (space := reserve.checkpoint_space) is None:
            needed = self._needed_bytes(record)
            free_bytes = self.space.free_bytes - max(0, needed - self._prepared_bytes(needed))
        else:
            free_bytes = space.free_bytes
        return reserve.has_room_for_growth(
            free_bytes, growth_bytes, is_fence=isinstance(record, FenceRecord), is_known=is_known
        )

    def _needed_bytes(self, record: Record) -> int:
        """Give the bytes of all that waits and of one more record, at most."""
        # Each record may get a batch of its own, with an empty batch before it and after it.
        batches = len(self._queue) + len(self._in_work) + 3
        needed = self.waiting_bytes + self._in_work_bytes + record_format.size_of(record)
        return needed + batches * batch_format.HEADER_BYTES

    def _free_bytes(self) -> int:
        """Give the room that is not written in advance and that the log may use."""
        arrivals, free, segment = self._arrivals, self.space.free_bytes, self._segment
        size = arrivals.segment_bytes
        if arrivals.stands_still is None and free >= arrivals.reserve.rounds_leave_bytes + size:
            return free
        # Perhaps no round will free a segment, so only segments in reach count.
        growing = max(0, size - max(segment.offset, segment.prepared_bytes))
        return min(free, growing + (arrivals.in_reach - arrivals.prepared) * size)

    def _prepared_bytes(self, needed: int) -> int:
        """Give the room in segments written in advance that surely can be used."""
        segment, size = self._segment, self._arrivals.segment_bytes
        rest = max(0, segment.prepared_bytes - segment.offset)
        if needed < rest:
            return rest
        # A batch that does not fit leaves less than its own size unused in a segment.
        wasted = self._batch_aim + batch_format.RECORD_BYTES_MAX
        return max(0, rest - wasted) + self._arrivals.prepared * max(0, size - wasted)

    def put(self, put: LogPut) -> None:
        """Add a put to the queue; its callback is called later, never within this call."""
        if self._refusal is not None:
            asyncio.get_running_loop().call_soon(put.failed, self._refusal)
            return
        self._queue.append(put)
        if put.record is not None:
            self.waiting_bytes += record_format.size_of(put.record)
        self._wake.set()

    def written(self, record: Record | None) -> "asyncio.Future[None]":
        """Put a record, or none, into the queue; give a future of the outcome (see ``LogPut``).

        Cancelling the future does not take the put back.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def written() -> None:
            if not done.done():
                done.set_result(None)

        def failed(error: errors.ProtocolError) -> None:
            if not done.done():
                done.set_exception(error)

        self.put(LogPut(record=record, written=written, failed=failed))
        return done

    async def settle(self) -> None:
        """Return when everything that was answered is on disk and shown."""
        if not self._hidden and not any(map(_deferred, self._in_work)):
            return
        await self.written(None)

    async def run(self) -> None:
        """Do the work until ``close``; raises ``DiskFailedError``."""
        try:
            while self._queue or not self._closing:
                if self._queue:
                    begun_s = asyncio.get_running_loop().time()
                    size = await self._commit(self._take())
                    await self._keep_pace(begun_s, size)
                elif await self._is_idle():
                    await self._cover()
            await self._cover()
        except OSError as error:
            self.fail(error)
            raise DiskFailedError(
                f"the log cannot be written ({error}); what was not acknowledged is unknown"
            ) from error

    def close(self) -> None:
        """Make ``run`` end once all puts are done; refuse new puts."""
        self._closing = True
        if self._refusal is None:
            self._refusal = errors.ShuttingDown("the bookie is stopping; this was not written")
        self._wake.set()

    async def _is_idle(self) -> bool:
        """Wait for work; True: there was none for ``IDLE_MS``, and no covering batch yet."""
        self._wake.clear()
        if self._covered:
            await self._wake.wait()
            return False
        return not await waiting.comes(self._wake, IDLE_MS)

    @property
    def _batch_aim(self) -> int:
        return min(batch_format.BATCH_BYTES_AIM, self._arrivals.segment_bytes // 4)

    def _take(self) -> list[LogPut]:
        aim = self._batch_aim
        taken: list[LogPut] = []
        size = 0
        queue = self._queue
        while queue and size < aim and len(taken) < batch_format.RECORDS_MAX:
            put = queue.popleft()
            taken.append(put)
            if put.record is not None:
                size += record_format.size_of(put.record)
        self.waiting_bytes -= size
        self._in_work_bytes = size
        return taken

    async def _keep_pace(self, begun_s: float, size_bytes: int) -> None:
        """Pause while the rewrite lags behind; records that arrive meanwhile share a batch."""
        arrivals, now_s = self._arrivals, asyncio.get_running_loop().time()
        pause_s = arrivals.pace.pause_s(
            begun_s, now_s, used_share=arrivals.used_share, size_bytes=size_bytes
        )
        if pause_s and not self._closing:
            arrivals.counters.throttled_seconds += pause_s
            await asyncio.sleep(pause_s)

    async def _commit(self, puts: Sequence[LogPut]) -> int:
        """Write the records of some puts, answer the puts, and give their bytes."""
        self._in_work = puts
        wanted = [put.record for put in puts if put.record is not None]
        if not all(map(_deferred, puts)) or self._hidden_bytes >= UNSYNCED_BYTES_MAX:
            await self._write(wanted, sync=True)
        else:
            await self._write(wanted, sync=False)
        # Empty if ``fail`` was called meanwhile, which answered all puts.
        done, self._in_work = self._in_work, ()
        size, self._in_work_bytes = self._in_work_bytes, 0
        for put in done:
            put.written()
        self.on_batch()
        return size

    async def _cover(self) -> None:
        if not self._covered:
            await self._write((), sync=True)
            await self._append((), sync=True)
            self._covered = True
            self.on_covered()

    async def _write(self, wanted: Sequence[Record], *, sync: bool) -> None:
        """Write a batch, if there are records; with ``sync``, sync everything and show it."""
        if wanted:
            placed = await self._append(wanted, sync=sync)
            # Only after the append: a roll to the next segment shows the hidden records.
            self._hidden += placed
            self._hidden_bytes += batch_format.size_of(wanted)
        if sync:
            await self._sync()
            self._show()

    def _show(self) -> None:
        """Show the hidden records; they are synced."""
        shown, self._hidden, self._hidden_bytes = self._hidden, [], 0
        self._on_placed(shown)

    async def _append(self, wanted: Sequence[Record], *, sync: bool) -> list[Placed]:
        size = batch_format.size_of(wanted)
        # Leave room for one more empty batch: so an idle log never waits for a segment.
        needed = size + batch_format.HEADER_BYTES if wanted else size
        if needed >= self._arrivals.segment_bytes - self._segment.offset:
            await self._roll()
        assert needed < self._arrivals.segment_bytes - self._segment.offset, "a batch fits"
        while (placed := await self._try_to_append(wanted, sync=sync)) is None:
            grows = self._segment.offset + size > self._segment.prepared_bytes
            if grows and self._arrivals.prepared:
                # The next segment need not grow. The partly written batch stands after the last
                # good one of this segment, so it is never read.
                await self._roll()
            else:
                await self._arrivals.wait_for_room()
        return placed

    async def _try_to_append(self, wanted: Sequence[Record], *, sync: bool) -> list[Placed] | None:
        """Write a batch; None: there is no room for it."""
        segment, offset = self._segment, self._segment.offset
        position = Position(segment.generation, self._sequence + 1)
        batch = batch_format.build(
            self._log_id, position, self._synced, segment.before, list(wanted)
        )

        def write() -> Space | None:
            try:
                segment.file.write(offset, batch.buffers)
            except OSError as error:
                # A write may be repeated after a shortage. A sync may not: after a failed one, the
                # state of the written bytes is unknown.
                if error.errno not in SHORTAGES:
                    raise
                return None
            if sync:
                segment.file.sync()
            return self._files.space()

        self._covered = False
        space = await self._disk.run(write)
        if space is None:
            return None
        self._arrivals.space = space
        self._sequence += 1
        segment.offset += batch.size
        if sync:
            self._synced, self._synced_in = self._sequence, segment
        key = locations.arrival_key(segment.generation)
        return [Placed(r, locations.location(key, offset + at)) for r, at in batch.placed]

    async def _sync(self) -> None:
        """Sync the active segment, if needed; earlier segments were synced at their end."""
        if self._synced < self._sequence:
            await self._disk.run(self._segment.file.sync)
            self._synced, self._synced_in = self._sequence, self._segment

    async def _roll(self) -> None:
        """Go on in the next segment, after all of this one was synced and shown.

        If no batch fitted into this segment's file, the file is given back, and its generation
        begins in the next file. So each generation has a batch, except perhaps the newest.
        """
        await self._sync()
        self._show()
        file = await self._arrivals.take()
        last = self._segment
        is_empty = not last.offset
        before = last.before if is_empty else Position(last.generation, self._sequence)
        self._segment = Segment(
            file=file,
            generation=last.generation if is_empty else last.generation + 1,
            before=before,
            prepared_bytes=file.size(),
        )
        self._on_segment(self._segment)
        if is_empty:
            self._arrivals.give_back(last.file)
        else:
            self._arrivals.seal(last, before)

    def fail(self, error: OSError) -> None:
        """Answer every waiting put with IoFailed, and refuse new puts."""
        failed = errors.IoFailed(f"the bookie's log cannot be written: {error}")
        self._refusal = failed
        puts = [*self._in_work, *self._queue]
        self._in_work = ()
        self._queue.clear()
        for put in puts:
            put.failed(failed)
        self.on_batch()


def _nothing() -> None:
    """Do nothing: the default of ``on_batch``."""


def _deferred(put: LogPut) -> bool:
    """Say whether a put may be answered before its record is on disk."""
    return isinstance(put.record, Frame) and Flags.DEFERRED_SYNC in put.record.flags
