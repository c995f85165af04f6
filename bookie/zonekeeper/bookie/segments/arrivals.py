"""The files of the arrival segments: opened, used, sealed, recycled, and written in advance.

A segment's file is used in one generation after another. It is *active* while batches are added. It
is *sealed* when the next file is active. It is *free* when the checkpoint no longer needs it.

A file is filled with zeros in advance (``keep_ready``), so that batches do not make it grow. One
file is kept ready. It is filled in small steps, outside the log's thread, as long as the device has
more than its reserve free. A new disk's first files are not ready in time, and grow with their
batches.

There are at most ``segments_max`` files; a log that needs one more waits. The files take at most a
quarter of the device (``sizes_on``), because recycled files keep their room. Without that limit, a
rewrite that lagged once could leave a device full for good, even after most ledgers were deleted.
An earlier life with other sizes may have left more files. These are removed when they are free.

A start (``open_arrivals``) trusts the files as little as it can:

* Batches that no later batch says were synced are written again and synced before they are shown.
  After a process died, perhaps only the kernel has them. After a failed sync the kernel will not
  write them any more: they would be read until the next power loss, and be gone after it.
* The start begins a generation of its own, two after the last good one. The generation between may
  have been begun without a good first batch, and may have left pieces of batches.
* Files without a good batch are removed, because it is unknown whether their names are durable.

On a device without any room, a start uses the room that the last generation had in advance.
"""

import asyncio
import errno
import logging
import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from typing import Final

from zonekeeper.bookie.disk.disks import Disk
from zonekeeper.bookie.disk.files import SHORTAGES, File, FileSystem, Space
from zonekeeper.bookie.formats import arrival_scan, batch_format, numbered_names
from zonekeeper.bookie.formats.arrival_scan import Scanned
from zonekeeper.bookie.formats.batch_format import Position
from zonekeeper.bookie.formats.log_end import LogEnd
from zonekeeper.bookie.segments.counters import StorageCounters
from zonekeeper.bookie.segments.pace import RewritePace
from zonekeeper.bookie.segments.reserve import Reserve

SEGMENT_BYTES_DEFAULT: Final = 64 << 20
#: Large enough for the largest batch.
SEGMENT_BYTES_MIN: Final = 32 << 20
SEGMENTS_MAX_DEFAULT: Final = 16
#: One segment that is written, one that is rewritten, and one that is kept ready.
SEGMENTS_MIN: Final = 3
#: The largest share of a device that the files take, but never fewer than ``SEGMENTS_MIN``.
DEVICE_SHARE_MAX: Final = 1 / 4
#: A round of the rewrite begins with this many sealed segments, or with fewer when it must. They
#: are sorted together, so that the entries of a ledger stand together.
ROUND_SEGMENTS_DEFAULT: Final = 4
#: The largest new sorted segment.
SORTED_BYTES_MAX_DEFAULT: Final = 1 << 30
#: The same as a share of a device. When half of a segment is garbage, compaction must write the
#: rest anew, and it must fit into the room that a full device has left.
SORTED_SHARE_MAX: Final = 1 / 32
#: The room on the device that is left for everything else.
RESERVE_BYTES_DEFAULT: Final = 64 << 20
_STEP_BYTES: Final = 1 << 20
#: The pause before a step is tried again after a shortage of room, memory or open files.
SHORT_DELAY_MS: Final = 1_000

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The size of arrival segments, their largest number, and the reserve (``reserve``)."""

    segment_bytes: int
    segments_max: int = SEGMENTS_MAX_DEFAULT
    round_segments: int = ROUND_SEGMENTS_DEFAULT
    reserve_bytes: int = RESERVE_BYTES_DEFAULT
    sorted_bytes_max: int = SORTED_BYTES_MAX_DEFAULT


@dataclass(slots=True, kw_only=True)
class Segment:
    """The active segment."""

    file: File
    generation: int
    #: The last good batch before this segment's generation.
    before: Position
    #: The file's length when it became active: up to here it was written in advance.
    prepared_bytes: int
    #: The offset of the next batch.
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """A sealed segment, which gets no more batches, and its last batch."""

    file: File
    last: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The segments after a start; made by ``open_arrivals``."""

    log_id: int
    active: Segment
    #: The sequence of the last batch, which is on the disk.
    sequence: int
    #: By generation.
    sealed: dict[int, Sealed] = field(default_factory=dict)
    free: deque[File] = field(default_factory=deque)
    #: The number in the name of the next new file.
    next_number: int = 1


def sizes_on(total_bytes: int, *, reserve_bytes: int) -> Sizes:
    """Choose sizes for a device: a small device gets smaller segments, and fewer.

    A round begins before appends are slowed, that is, before half of the segments are in use.
    """
    segment_bytes = max(SEGMENT_BYTES_MIN, min(SEGMENT_BYTES_DEFAULT, total_bytes >> 8))
    fitting = int(total_bytes * DEVICE_SHARE_MAX) // segment_bytes
    segments_max = max(SEGMENTS_MIN, min(SEGMENTS_MAX_DEFAULT, fitting))
    return Sizes(
        segment_bytes=segment_bytes,
        segments_max=segments_max,
        round_segments=max(1, min(ROUND_SEGMENTS_DEFAULT, segments_max // 2 - 1)),
        reserve_bytes=reserve_bytes,
        sorted_bytes_max=min(SORTED_BYTES_MAX_DEFAULT, int(total_bytes * SORTED_SHARE_MAX)),
    )


class Arrivals:
    """The files, and the signals between the log and the rewrite; on an event loop."""

    def __init__(
        self,
        files: FileSystem,
        opened: Opened,
        *,
        writing: Disk,
        background: Disk,
        sizes: Sizes,
        reserve: Reserve,
    ) -> None:
        """``writing`` is the log's disk; ``background`` does what the log does not wait for."""
        self._files = files
        self._writing = writing
        self._background = background
        self._free = opened.free
        self._next_number = opened.next_number
        self.sizes = sizes
        self.reserve = reserve
        self.segment_bytes = sizes.segment_bytes
        self.counters = StorageCounters()
        self.pace = RewritePace()
        #: The room on the device at the last write here.
        self.space = Space(total_bytes=0, free_bytes=0)
        #: By generation, oldest first.
        self.sealed = opened.sealed
        #: All files: active, sealed and free.
        self._count = 1 + len(opened.free) + len(opened.sealed)
        self._changed = asyncio.Event()
        #: The number of free files, counted from the next one on, that are filled to their end.
        self.prepared = 0
        #: Does the log wait for room on the device?
        self.writer_waits = False
        #: Why the rewrite has no room for a round; None: it has.
        self.stands_still: str | None = None
        self._tell()

    @property
    def in_reach(self) -> int:
        """The number of segments that the log can still begin before it must wait."""
        return len(self._free) + max(0, self.sizes.segments_max - self._count)

    @property
    def used_share(self) -> float:
        """The share of the segments that are in use, with the active one."""
        return 1 - self.in_reach / self.sizes.segments_max

    async def take(self) -> File:
        """Give a file for the next generation; wait until there is one."""
        if not self.in_reach:
            self.counters.waits_for_segments += 1
        while True:
            if self._free:
                file = self._free.popleft()
                self._tell()
                return file
            if self._count >= self.sizes.segments_max:
                await self._change()
            elif (created := await self._try_to_create(self._writing)) is not None:
                return created
            else:
                await self.wait_for_room()

    async def wait_for_room(self) -> None:
        """Make the log wait for a moment; meanwhile even one sealed segment is due for a round."""
        self.counters.waits_for_room += 1
        self.writer_waits = True
        self._tell()
        try:
            await asyncio.sleep(SHORT_DELAY_MS / 1_000)
        finally:
            self.writer_waits = False

    def give_back(self, file: File) -> None:
        """Free a file that was taken and holds no batch."""
        self._free.append(file)
        self._tell()

    def seal(self, segment: Segment, last: Position) -> None:
        """Note that a segment gets no more batches, and that all of it is on the disk."""
        self.sealed[segment.generation] = Sealed(file=segment.file, last=last)
        self._tell()

    def recycle(self, through: int) -> None:
        """Free the sealed segments up to a generation, which are not needed or read any more."""
        for generation in [each for each in self.sealed if each <= through]:
            self._free.append(self.sealed.pop(generation).file)
        self._tell()

    @property
    def is_due(self) -> bool:
        """Are enough segments sealed for a round, or does the log need a free one now?"""
        enough = len(self.sealed) >= self.sizes.round_segments
        return bool(self.sealed) and (enough or self.in_reach == 0 or self.writer_waits)

    async def wait_for_sealed(self) -> None:
        """Return when a round is due."""
        while not self.is_due:
            await self._change()

    async def wait_for_reach(self, reach: int) -> None:
        """Return when ``in_reach >= reach``, or when no round is about to free segments."""
        while self.in_reach < reach and self.is_due and self.stands_still is None:
            await self._change()

    def stand_still(self, why: str | None) -> None:
        """Note why there is no room for a round; None: there is room."""
        if why != self.stands_still:
            if self.stands_still is None:
                _logger.warning("the rewrite stands still for want of room: %s", why)
            elif why is None:
                _logger.info("the rewrite goes on: there is room again")
            self.stands_still = why
            self._tell()

    async def give_up_free(self) -> bool:
        """Remove all free files except the next one; False: there was none to remove."""
        given_up = False
        while len(self._free) > 1:
            await self._remove(self._free.pop())
            given_up = True
        return given_up

    async def keep_ready(self) -> None:
        """Keep the next free file filled with zeros, and remove surplus files, until cancelled."""
        while True:
            if self._free and self._count > self.sizes.segments_max:
                await self._remove(self._free.pop())
            elif not self._free and self._count < self.sizes.segments_max:
                if (created := await self._try_to_create(self._background)) is not None:
                    await self._fill(created)
                else:
                    await asyncio.sleep(SHORT_DELAY_MS / 1_000)
            elif self._free and self._free[0].size() < self.segment_bytes:
                # An earlier life left it short, or it was the first file of a new disk.
                await self._fill(self._free.popleft())
            else:
                await self._change()

    def close(self) -> None:
        """Close all files except the active one, when nothing is read or written any more."""
        for file in (*self._free, *(sealed.file for sealed in self.sealed.values())):
            file.close()

    async def _try_to_create(self, disk: Disk) -> File | None:
        """Create a file; None: there was a shortage."""
        self._count += 1
        name = name_of(self._next_number)
        self._next_number += 1
        try:
            return await disk.run(partial(create, self._files, name))
        except OSError as error:
            if error.errno not in SHORTAGES:
                raise
            # The name may exist, but the file is empty: a start removes it.
            self._count -= 1
            self._tell()
            return None

    async def _fill(self, file: File) -> None:
        """Fill an unused file with zeros to its end, and free it; after a shortage, pause first.

        After a shortage the last step may be in the file or not; it holds only zeros.
        """
        try:
            for at in range(file.size(), self.segment_bytes, _STEP_BYTES):
                size = min(_STEP_BYTES, self.segment_bytes - at)
                self.space = await self._background.run(partial(self._prepare, file, at, size))
        except OSError as error:
            if error.errno not in SHORTAGES:
                raise
            await asyncio.sleep(SHORT_DELAY_MS / 1_000)
        finally:
            self._free.append(file)
            self._tell()

    async def _remove(self, file: File) -> None:
        """Remove an unused file; it does no harm if a crash brings the file back."""
        self._count -= 1
        self._tell()
        file.close()
        await self._background.run(partial(self._files.remove, file.name))

    def _prepare(self, file: File, at: int, size: int) -> Space:
        if self._files.space().free_bytes - size < self.reserve.appends_leave_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), file.name)
        _write(file, at, bytes(size))
        return self._files.space()

    def _tell(self) -> None:
        whole = takewhile(lambda file: file.size() >= self.segment_bytes, self._free)
        self.prepared = sum(1 for _ in whole)
        self._changed.set()
        self._changed = asyncio.Event()

    async def _change(self) -> None:
        await self._changed.wait()


def name_of(number: int) -> str:
    """Give the name of an arrival segment's file."""
    return numbered_names.name_of(numbered_names.ARRIVAL, number)


def number_of(name: str) -> int | None:
    """Give the number in an arrival segment's file name; None: it is no such name."""
    return numbered_names.number_of(numbered_names.ARRIVAL, name)


def create(files: FileSystem, name: str) -> File:
    """Create a file, and make its name durable before anything is written into it. Blocks."""
    file = files.create(name)
    files.sync_names()
    return file


def open_arrivals(
    files: FileSystem, known: LogEnd, mark: Position, visit: Callable[[Scanned], None]
) -> Opened:
    """Read the batches past the mark, give them to ``visit``, and begin a generation. Blocks.

    ``known`` is the log's end as far as it is known to be on the disk. Raises ``DamagedLogError``,
    or ``OSError`` from the disk.
    """
    log_id = known.log_id
    numbers = {name: number_of(name) for name in files.names()}
    named = {name: files.open(name) for name, number in numbers.items() if number is not None}
    headers = {name: arrival_scan.first_header(named[name].read, log_id) for name in named}
    heads = {name: header for name, header in headers.items() if header is not None}
    links = arrival_scan.chain(headers, mark, known)
    chained = {link.generation for link in links}
    bad = sorted(set(named) - set(heads))
    for name in bad:
        read = named[name].read
        arrival_scan.refuse_lost_generation(read, log_id, name=name, known=chained, mark=mark)
    sealed: dict[int, Sealed] = {}
    before, give_back = mark, _nothing
    for link in links:
        file = named[link.name]
        end = arrival_scan.scan(file.read, log_id, link, visit)
        before = end.position
        sealed[link.generation] = Sealed(file=file, last=before)
        if link is links[-1]:
            _write(file, end.unsynced_at, file.read(end.unsynced_at, end.offset - end.unsynced_at))
            give_back = partial(file.truncate, end.offset)
    next_number = 1 + max((number for number in numbers.values() if number is not None), default=0)
    for name in bad:
        named[name].close()
        files.remove(name)
    used = {link.name for link in links}
    free = deque(named[name] for name in sorted(heads) if name not in used)
    generations = [mark.generation, *(head.position.generation for head in heads.values())]
    if free:
        active = free.popleft()
    else:
        active = create(files, name_of(next_number))
        next_number += 1
    segment = Segment(
        file=active,
        generation=max(generations) + 2,
        before=before,
        prepared_bytes=active.size(),
    )
    _begin(segment, log_id, give_back)
    return Opened(
        log_id=log_id,
        active=segment,
        sequence=before.sequence + 1,
        sealed=sealed,
        free=free,
        next_number=next_number,
    )


def _begin(segment: Segment, log_id: int, give_back: Callable[[], None]) -> None:
    """Write a start's first batch: it is empty and says that all batches before it are synced."""
    known_synced = segment.before.sequence
    position = Position(segment.generation, known_synced + 1)
    batch = batch_format.build(log_id, position, known_synced, segment.before, ())
    try:
        segment.file.write(0, batch.buffers)
    except OSError as error:
        if error.errno not in SHORTAGES:
            raise
        give_back()
        segment.file.write(0, batch.buffers)
    segment.file.sync()
    segment.offset = batch.size


def _nothing() -> None:
    """Do nothing: there is no earlier generation with room to give back."""


def _write(file: File, offset: int, data: bytes) -> None:
    file.write(offset, [data])
    file.sync()
