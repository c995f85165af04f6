"""A bookie's log: one file to which records are added, with one write and one sync for many.

What is put in waits in a queue. Whenever the disk is free, all that waits becomes one batch: one
vectored write, one sync, then the answers. So one record alone does not wait for company, and a
flood shares its syncs. Order in is order out, on disk and in the answers.

Opening reads the whole log (``log_scan``) and makes it safe to go on:

* a torn end is cut off;
* the last whole batch is written again and synced. It may be known to the kernel only, after a
  process died, or not even be its business any more, after a sync failed: then it would be read
  until the next power loss, and be gone after it;
* an empty batch follows, and so does one when the log falls idle and when it is closed: what was
  acknowledged last is then shown to be whole by something behind it.

An error of the disk ends it: everything that waits fails with IoFailed, which says that it may be
there nevertheless, and ``run`` raises. Nothing is ever tried again on that file.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from zonekeeper.bookie import log_format, log_scan
from zonekeeper.bookie.disks import Disk
from zonekeeper.bookie.files import File, FileSystem, Space
from zonekeeper.bookie.log_format import Placed
from zonekeeper.bookie.records import Record
from zonekeeper.placement.chance import Chance
from zonekeeper.wire import errors
from zonekeeper.wire.errors import FormatError

NAME: Final = "log"
_NEW_NAME: Final = "log.new"

#: A log without work for so long gets its empty batch.
IDLE_MS: Final = 100


class DiskFailedError(Exception):
    """The disk refused a write or a sync; the bookie must stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """Something for the log, and who hears of it. Without a record: all before it, and no more."""

    record: Record | None
    #: Called when it, and all before it, is on disk.
    written: Callable[[], None]
    failed: Callable[[errors.ProtocolError], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A log's file, ready to go on; made by ``open_file``."""

    file: File
    log_id: int
    #: Where the next batch goes, and its number.
    offset: int
    sequence: int
    space: Space


class Log:
    """Adds to an open log, on an event loop."""

    def __init__(
        self,
        files: FileSystem,
        disk: Disk,
        opened: Opened,
        *,
        on_placed: Callable[[Sequence[Placed]], None],
    ) -> None:
        """``on_placed`` hears of the records of a batch before those who put them."""
        self._files = files
        self._disk = disk
        self._file = opened.file
        self._log_id = opened.log_id
        self._offset = opened.offset
        self._sequence = opened.sequence
        self._on_placed = on_placed
        #: Called after all who put a batch's records have heard of it.
        self.on_batch: Callable[[], None] = _nothing
        self._queue: deque[Put] = deque()
        self._in_work: Sequence[Put] = ()
        self._wake = asyncio.Event()
        self._covered = True
        self._closing = False
        #: What is told to who comes too late.
        self._refusal: errors.ProtocolError | None = None
        #: Room on the device, as of the last batch or ``measure``.
        self.space = opened.space
        #: Put in, and not on disk yet.
        self.waiting_bytes = 0

    def put(self, put: Put) -> None:
        """Add something; its outcome comes later, never from within this call."""
        if self._refusal is not None:
            asyncio.get_running_loop().call_soon(put.failed, self._refusal)
            return
        self._queue.append(put)
        if put.record is not None:
            self.waiting_bytes += log_format.size_of(put.record)
        self._wake.set()

    async def run(self) -> None:
        """Do the work until ``close``; raises ``DiskFailedError``."""
        try:
            while self._queue or not self._closing:
                if self._queue:
                    await self._commit(self._take())
                elif await self._is_idle():
                    await self._cover()
            await self._cover()
        except OSError as error:
            self._fail(error)
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
            self.space = await self._disk.run(self._files.space)
        except OSError:
            return

    async def _is_idle(self) -> bool:
        """Wait for work; True: there is none, and the last batch is not covered."""
        self._wake.clear()
        if self._covered:
            await self._wake.wait()
            return False
        try:
            async with asyncio.timeout(IDLE_MS / 1_000):
                await self._wake.wait()
        except TimeoutError:
            return True
        return False

    def _take(self) -> list[Put]:
        taken: list[Put] = []
        size = 0
        queue = self._queue
        while queue and size < log_format.BATCH_BYTES_AIM and len(taken) < log_format.RECORDS_MAX:
            put = queue.popleft()
            taken.append(put)
            if put.record is not None:
                size += log_format.size_of(put.record)
        self.waiting_bytes -= size
        return taken

    async def _commit(self, puts: Sequence[Put]) -> None:
        self._in_work = puts
        if wanted := [put.record for put in puts if put.record is not None]:
            self._on_placed(await self._write(wanted))
        self._in_work = ()
        for put in puts:
            put.written()
        self.on_batch()

    async def _cover(self) -> None:
        if not self._covered:
            await self._write(())
            self._covered = True

    async def _write(self, wanted: Sequence[Record]) -> list[Placed]:
        batch = log_format.build(self._log_id, self._sequence, wanted)
        offset = self._offset

        def write() -> Space:
            self._file.write(offset, batch.buffers)
            self._file.sync()
            return self._files.space()

        self._covered = False
        self.space = await self._disk.run(write)
        self._offset += batch.size
        self._sequence += 1
        return [Placed(record, offset + at) for record, at in batch.placed]

    def _fail(self, error: OSError) -> None:
        failed = errors.IoFailed(f"the bookie's log cannot be written: {error}")
        self._refusal = failed
        puts = [*self._in_work, *self._queue]
        self._queue.clear()
        for put in puts:
            put.failed(failed)
        self.on_batch()


def create_file(files: FileSystem, chance: Chance) -> None:
    """Make an empty log, whole or not at all."""
    if _NEW_NAME in files.names():
        files.remove(_NEW_NAME)
    file = files.create(_NEW_NAME)
    try:
        file.write(0, [log_format.file_header(_random_id(chance))])
        file.sync()
    finally:
        file.close()
    files.rename(_NEW_NAME, NAME)
    files.sync_names()


def open_file(files: FileSystem, visit: Callable[[log_scan.Scanned], None]) -> Opened:
    """Read a log, give its batches to ``visit``, and make it safe to go on. Blocks.

    Raises ``DamagedLogError``, or ``OSError`` from the disk.
    """
    file = files.open(NAME)
    try:
        log_id = log_format.parse_file_header(file.read(0, log_format.FILE_HEADER_BYTES))
    except FormatError as fault:
        raise log_scan.DamagedLogError(
            f"the file {NAME!r} does not begin as a log does ({fault}): restore the disk, or "
            "remove this bookie and start it anew"
        ) from fault
    end = log_scan.scan(file.read, log_id, visit)
    if end.offset < file.size():
        file.truncate(end.offset)
    if end.last_batch is not None:
        file.write(end.last_batch, [file.read(end.last_batch, end.offset - end.last_batch)])
    file.sync()
    cover = log_format.build(log_id, end.sequence, ())
    file.write(end.offset, cover.buffers)
    file.sync()
    return Opened(
        file=file,
        log_id=log_id,
        offset=end.offset + cover.size,
        sequence=end.sequence + 1,
        space=files.space(),
    )


def _nothing() -> None:
    """Nobody gathers the answers of a batch."""


def _random_id(chance: Chance) -> int:
    return int.from_bytes(bytes(int(chance.random() * 256) for _ in range(8)), "big")
