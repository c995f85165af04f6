"""The writer: records come in, and are acknowledged when one write and one sync held them all.

What is put in waits in a queue. Whenever the disk is free, all that waits becomes one batch: one
vectored write into the active arrival segment, one sync, then the answers. So one record alone does
not wait for company, and a flood shares its syncs. Order in is order out, on disk and in the
answers. A batch is smaller than what is left of its segment, or the next segment is begun; if there
is none, everything waits (``arrivals``); before it comes to that, batches are paced (``pace``).

*Deferred* frames (``Flags.DEFERRED_SYNC``) are answered when they are written. They are not shown
to anybody (``on_placed``) before a sync, so that what was seen stays; ``settle`` waits for that.
A sync comes with the next record that is not deferred, with a put without a record (``force``),
when there are many bytes without one, and when the log falls idle.

When the log falls idle, and at the end, an empty batch says that all before it was synced: damage
to what was acknowledged last is then told from a torn end.

A shortage of room, or of memory, is waited for: a write that did not fit is made again. What comes
is refused before that (``has_room``), so that what waits here is what other users of the device
took from it.

Any other error of the disk ends it: everything that waits fails with IoFailed, which says that it
may be there nevertheless, and ``run`` raises. Nothing is ever tried again on that disk.
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
from zonekeeper.bookie.ledgers.records import Record
from zonekeeper.bookie.segments.arrivals import Arrivals, Opened, Segment
from zonekeeper.placement.base.troubles import Trouble
from zonekeeper.wire.formats import errors
from zonekeeper.wire.formats.frames import Flags, Frame

#: A log without work for so long gets its empty batch.
IDLE_MS: Final = 100
#: Deferred frames of so many bytes are synced even if nobody asks.
UNSYNCED_BYTES_MAX: Final = 8 << 20
#: Of what is written in advance, entries leave this to fences, to what is forgotten, and to starts.
STATE_BYTES: Final = 1 << 20


class DiskFailedError(Trouble):
    """The disk refused a write or a sync; the bookie must stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPut:
    """Something for the log, and who hears of it. Without a record: all before it, synced."""

    record: Record | None
    #: Called when it, and all before it, is on disk; a deferred frame: is written.
    written: Callable[[], None]
    failed: Callable[[errors.ProtocolError], None]


class Log:
    """Adds to the arrival segments, on an event loop."""

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
        """Of a batch ``on_placed`` hears before those who put it; of a segment, before use."""
        self._files = files
        self._disk = disk
        self._log_id = opened.log_id
        self._arrivals = arrivals
        self._segment = opened.active
        #: The last batch that was written, and the last that is known to be on disk.
        self._sequence = self._synced = opened.sequence
        self._on_placed = on_placed
        self._on_segment = on_segment
        #: Called after all who put a batch's records have heard of it.
        self.on_batch: Callable[[], None] = _nothing
        self._queue: deque[LogPut] = deque()
        self._in_work: Sequence[LogPut] = ()
        #: Written, acknowledged as deferred, and not shown.
        self._hidden: list[Placed] = []
        self._hidden_bytes = 0
        self._wake = asyncio.Event()
        self._covered = True
        self._closing = False
        #: What is told to who comes too late.
        self._refusal: errors.ProtocolError | None = None
        #: Put in, and not begun to be written.
        self.waiting_bytes = 0
        self._in_work_bytes = 0

    @property
    def active(self) -> File:
        """The file of the active segment."""
        return self._segment.file

    @property
    def space(self) -> Space:
        """Room on the device, as of the last write or ``measure``."""
        return self._arrivals.space

    def has_room(self, record: Record, *, urgent: bool) -> bool:
        """Say whether one more record fits behind all that waits, and leaves the reserve.

        What is written in advance is room, even on a device that has none. What is *urgent* may use
        that up, and half of the reserve. What waits must never be more than can be written: what
        would make room, such as the record that a ledger is forgotten, waits behind it.
        """
        # Each may come in a batch of its own, and an empty one may come before and behind it.
        batches = len(self._queue) + len(self._in_work) + 3
        needed = self.waiting_bytes + self._in_work_bytes + record_format.size_of(record)
        needed += batches * batch_format.HEADER_BYTES
        prepared, sizes = self._prepared_bytes(needed), self._arrivals.sizes
        left = prepared + self._free_bytes() - needed
        if urgent:
            return needed + STATE_BYTES <= prepared or left >= sizes.rounds_leave_bytes
        return left >= sizes.reserve_bytes

    def _free_bytes(self) -> int:
        """Give the room that is not written in advance, and that can be."""
        arrivals, free, segment = self._arrivals, self.space.free_bytes, self._segment
        size = arrivals.segment_bytes
        if arrivals.stands_still is None and free >= arrivals.sizes.rounds_leave_bytes + size:
            return free
        # There may be no round any more that frees a segment.
        growing = max(0, size - max(segment.offset, segment.prepared_bytes))
        return min(free, growing + (arrivals.in_reach - arrivals.prepared) * size)

    def _prepared_bytes(self, needed: int) -> int:
        """Give how much of this surely fits into what is written in advance."""
        segment, size = self._segment, self._arrivals.segment_bytes
        rest = max(0, segment.prepared_bytes - segment.offset)
        if needed < rest:
            return rest
        # A batch that does not fit any more leaves less than its size behind.
        wasted = self._batch_aim + batch_format.RECORD_BYTES_MAX
        return max(0, rest - wasted) + self._arrivals.prepared * max(0, size - wasted)

    def put(self, put: LogPut) -> None:
        """Add something; its outcome comes later, never from within this call."""
        if self._refusal is not None:
            asyncio.get_running_loop().call_soon(put.failed, self._refusal)
            return
        self._queue.append(put)
        if put.record is not None:
            self.waiting_bytes += record_format.size_of(put.record)
        self._wake.set()

    async def settle(self) -> None:
        """Return when everything that was answered is on disk, and shown."""
        if not self._hidden and not any(map(_deferred, self._in_work)):
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def settled() -> None:
            if not done.done():
                done.set_result(None)

        def failed(error: errors.ProtocolError) -> None:
            if not done.done():
                done.set_exception(error)

        self.put(LogPut(record=None, written=settled, failed=failed))
        await done

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
        """Let ``run`` end when all that was put in is done."""
        self._closing = True
        if self._refusal is None:
            self._refusal = errors.ShuttingDown("the bookie is stopping; this was not written")
        self._wake.set()

    async def measure(self) -> None:
        """Look at the room on the device; a device that cannot say keeps what it said."""
        try:
            self._arrivals.space = await self._disk.run(self._files.space)
        except OSError:
            return

    async def _is_idle(self) -> bool:
        """Wait for work; True: there is none, and the last batch is not covered."""
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
        """Pause while the rewrite is behind; what comes meanwhile shares a batch."""
        arrivals, now_s = self._arrivals, asyncio.get_running_loop().time()
        pause_s = arrivals.pace.pause_s(
            begun_s, now_s, used_share=arrivals.used_share, size_bytes=size_bytes
        )
        if pause_s and not self._closing:
            arrivals.counters.throttled_seconds += pause_s
            await asyncio.sleep(pause_s)

    async def _commit(self, puts: Sequence[LogPut]) -> int:
        """Write some of what was put in, tell those who put it, and give its size."""
        self._in_work = puts
        wanted = [put.record for put in puts if put.record is not None]
        if not all(map(_deferred, puts)) or self._hidden_bytes >= UNSYNCED_BYTES_MAX:
            await self._write(wanted, sync=True)
        else:
            await self._write(wanted, sync=False)
        # Empty if everybody was told meanwhile that it failed (``fail``).
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

    async def _write(self, wanted: Sequence[Record], *, sync: bool) -> None:
        """Write a batch, if there is anything for it; sync what is not; show what is."""
        if wanted:
            placed = await self._append(wanted, sync=sync)
            # Only now: on the way into the next segment, what was hidden is shown.
            self._hidden += placed
            self._hidden_bytes += batch_format.size_of(wanted)
        if sync:
            await self._sync()
            self._show()

    def _show(self) -> None:
        """Let everybody see what was written; it is synced."""
        shown, self._hidden, self._hidden_bytes = self._hidden, [], 0
        self._on_placed(shown)

    async def _append(self, wanted: Sequence[Record], *, sync: bool) -> list[Placed]:
        size = batch_format.size_of(wanted)
        # There is always room for one empty batch more: who is idle never waits for a segment.
        needed = size + batch_format.HEADER_BYTES if wanted else size
        if needed >= self._arrivals.segment_bytes - self._segment.offset:
            await self._roll()
        assert needed < self._arrivals.segment_bytes - self._segment.offset, "a batch fits"
        while (placed := await self._try_to_append(wanted, sync=sync)) is None:
            grows = self._segment.offset + size > self._segment.prepared_bytes
            if grows and self._arrivals.prepared:
                # That need not grow. What was written of the batch is behind the last good one.
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
                # Not so for a sync, after which nothing is known of what was written.
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
            self._synced = self._sequence
        key = locations.arrival_key(segment.generation)
        return [Placed(r, locations.location(key, offset + at)) for r, at in batch.placed]

    async def _sync(self) -> None:
        """Sync what was written without; batches of earlier segments are."""
        if self._synced < self._sequence:
            await self._disk.run(self._segment.file.sync)
            self._synced = self._sequence

    async def _roll(self) -> None:
        """Go on in the next segment; nothing in the one before is left to be synced or shown.

        One into which not one batch fitted is no segment: its generation begins in the next file.
        So each generation has a batch, and one generation at most was begun without one.
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
        """Tell everybody who waits that nothing will be written any more."""
        failed = errors.IoFailed(f"the bookie's log cannot be written: {error}")
        self._refusal = failed
        puts = [*self._in_work, *self._queue]
        self._in_work = ()
        self._queue.clear()
        for put in puts:
            put.failed(failed)
        self.on_batch()


def _nothing() -> None:
    """Nobody gathers the answers of a batch."""


def _deferred(put: LogPut) -> bool:
    """Say whether it may be answered before it is on disk."""
    return isinstance(put.record, Frame) and Flags.DEFERRED_SYNC in put.record.flags
