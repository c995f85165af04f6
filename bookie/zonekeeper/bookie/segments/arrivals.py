"""The files of the arrival segments: opened, taken into use, sealed, recycled, written in advance.

A segment's file is used in one generation after the other. It is *active* while batches are added,
*sealed* when the next one is active, and *free* when the checkpoint no longer needs it. A batch
never goes into a file that has to grow, but for the first segments of a new disk: files are filled
with zeros in advance (``keep_ready``), one ahead of need, in small steps, off the writer's thread,
as long as the device has more than its reserve. There are at most ``segments_max`` files; who needs
one more waits. That is a quarter of the device at most (``sizes_on``), because recycled files keep
their room: else a rewrite that was behind once could leave a device full for good, however much of
what is on it is deleted. Files beyond the most, of a life with other sizes, are removed when free.

A start (``open_arrivals``) trusts the files as little as it can:

* what no later batch says was synced is written again and synced before it is shown. It may be
  known to the kernel only, after a process died; or not even be its business any more, after a
  sync failed: then it would be read until the next power loss, and be gone after it;
* it goes on in a generation of its own, two past the last good one: the one between may have left
  pieces of batches behind, when it was begun and its first batch was never whole;
* files in which no batch is good are removed: of their names, too, nothing is known.

On a device without any room it takes what the last generation had in advance and did not use.
"""

import asyncio
import errno
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
from zonekeeper.bookie.segments.counters import StorageCounters
from zonekeeper.bookie.segments.pace import RewritePace

_PREFIX: Final = "arrival-"

SEGMENT_BYTES_DEFAULT: Final = 64 << 20
#: The largest batch fits.
SEGMENT_BYTES_MIN: Final = 32 << 20
SEGMENTS_MAX_DEFAULT: Final = 16
#: One is written, one rewritten, and one ahead of need.
SEGMENTS_MIN: Final = 3
#: The share of a device that the files take at most, but for the least that there must be.
DEVICE_SHARE_MAX: Final = 1 / 4
#: A rewrite begins with so many sealed segments, sorted together for locality, or when it must.
ROUND_SEGMENTS_DEFAULT: Final = 4
#: What goes into one new sorted segment at most, by default, and as a share of a device: when half
#: of it is garbage, the rest must fit into what a full device has left.
SORTED_BYTES_MAX_DEFAULT: Final = 1 << 30
SORTED_SHARE_MAX: Final = 1 / 32
#: Room on the device that is left for everything else.
RESERVE_BYTES_DEFAULT: Final = 64 << 20
_STEP_BYTES: Final = 1 << 20
#: After a shortage of room, memory or files a step is tried again so much later.
SHORT_DELAY_MS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How large arrival segments are, how many there are at most, and what is kept free.

    All of the reserve is left by plain appends and by writing in advance, half of it by recoveries
    and by rounds, a quarter by compaction. What is left then is for checkpoints and the index.
    """

    segment_bytes: int
    segments_max: int = SEGMENTS_MAX_DEFAULT
    round_segments: int = ROUND_SEGMENTS_DEFAULT
    reserve_bytes: int = RESERVE_BYTES_DEFAULT
    sorted_bytes_max: int = SORTED_BYTES_MAX_DEFAULT

    @property
    def rounds_leave_bytes(self) -> int:
        """What rounds leave free, and recoveries."""
        return self.reserve_bytes // 2

    @property
    def compaction_leaves_bytes(self) -> int:
        """What compaction leaves free."""
        return self.reserve_bytes // 4


@dataclass(slots=True, kw_only=True)
class Segment:
    """The active segment."""

    file: File
    generation: int
    #: The last good batch before its generation.
    before: Position
    #: How much of the file was written in advance.
    prepared_bytes: int
    #: Where the next batch goes.
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    """A segment to which nothing is added any more, and its last batch."""

    file: File
    last: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The segments as a start finds and leaves them; made by ``open_arrivals``."""

    log_id: int
    active: Segment
    #: The number of the last batch, which is on the disk.
    sequence: int
    sealed: dict[int, Sealed] = field(default_factory=dict)
    free: deque[File] = field(default_factory=deque)
    #: What the next new file is called.
    next_number: int = 1


def sizes_on(total_bytes: int, *, reserve_bytes: int) -> Sizes:
    """Choose sizes for a device: on a small one, smaller segments, and fewer.

    Rounds begin before appends are slowed, which is with half of the segments in use.
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
    """The files, and what the writer and the rewrite know of each other; on an event loop."""

    def __init__(
        self,
        files: FileSystem,
        opened: Opened,
        *,
        writing: Disk,
        background: Disk,
        sizes: Sizes,
    ) -> None:
        """``writing`` is the writer's disk; what it does not wait for goes to ``background``."""
        self._files = files
        self._writing = writing
        self._background = background
        self._free = opened.free
        self._next_number = opened.next_number
        self.sizes = sizes
        self.segment_bytes = sizes.segment_bytes
        self.counters = StorageCounters()
        self.pace = RewritePace()
        #: Room on the device, as of the last write here.
        self.space = Space(total_bytes=0, free_bytes=0)
        #: By generation, oldest first.
        self.sealed = opened.sealed
        self._count = 1 + len(opened.free) + len(opened.sealed)
        self._changed = asyncio.Event()
        #: Free files, from the next one on, that need not grow.
        self.prepared = 0
        #: Does the writer wait for room on the device, whatever is in its reach?
        self.writer_waits = False
        #: Why there can be no round, however many segments wait for one.
        self.stands_still: str | None = None
        self._tell()

    @property
    def in_reach(self) -> int:
        """How many segments can still be begun before the writer has to wait."""
        return len(self._free) + max(0, self.sizes.segments_max - self._count)

    @property
    def used_share(self) -> float:
        """Give the share of the segments that are in use, the active one among them."""
        return 1 - self.in_reach / self.sizes.segments_max

    async def take(self) -> File:
        """Give a file for the next generation; waits until there is one."""
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
        """Let the writer wait for a while; what is sealed, however little, is room, too."""
        self.counters.waits_for_room += 1
        self.writer_waits = True
        self._tell()
        try:
            await asyncio.sleep(SHORT_DELAY_MS / 1_000)
        finally:
            self.writer_waits = False

    def give_back(self, file: File) -> None:
        """Free a file that was taken, and in which there is no batch."""
        self._free.append(file)
        self._tell()

    def seal(self, segment: Segment, last: Position) -> None:
        """Note that nothing is added to a segment any more, and that all of it is on the disk."""
        self.sealed[segment.generation] = Sealed(file=segment.file, last=last)
        self._tell()

    def recycle(self, through: int) -> None:
        """Free the sealed segments up to a generation: nobody needs or reads them any more."""
        for generation in [each for each in self.sealed if each <= through]:
            self._free.append(self.sealed.pop(generation).file)
        self._tell()

    @property
    def is_due(self) -> bool:
        """Are enough segments sealed for a rewrite, or is the writer about to need one of them?"""
        enough = len(self.sealed) >= self.sizes.round_segments
        return bool(self.sealed) and (enough or self.in_reach == 0 or self.writer_waits)

    async def wait_for_sealed(self) -> None:
        """Return when a rewrite is due."""
        while not self.is_due:
            await self._change()

    async def wait_for_reach(self, reach: int) -> None:
        """Return when the writer can begin so many segments, or no round is about to free more."""
        while self.in_reach < reach and self.is_due and self.stands_still is None:
            await self._change()

    def stand_still(self, why: str | None) -> None:
        """Note that there is no room for a round, or (None) that there is."""
        if why != self.stands_still:
            self.stands_still = why
            self._tell()

    async def give_up_free(self) -> bool:
        """Remove all free files but the next one; False: there are none."""
        given_up = False
        while len(self._free) > 1:
            await self._remove(self._free.pop())
            given_up = True
        return given_up

    async def keep_ready(self) -> None:
        """Keep one file filled with zeros, and no more files than there may be, for ever."""
        while True:
            if self._free and self._count > self.sizes.segments_max:
                await self._remove(self._free.pop())
            elif not self._free and self._count < self.sizes.segments_max:
                if (created := await self._try_to_create(self._background)) is not None:
                    await self._fill(created)
                else:
                    await asyncio.sleep(SHORT_DELAY_MS / 1_000)
            elif self._free and self._free[0].size() < self.segment_bytes:
                # It was left short by an earlier life, or was a new disk's first one.
                await self._fill(self._free.popleft())
            else:
                await self._change()

    def close(self) -> None:
        """Give all files back but the active one's, when nobody writes or reads any more."""
        for file in (*self._free, *(sealed.file for sealed in self.sealed.values())):
            file.close()

    async def _try_to_create(self, disk: Disk) -> File | None:
        """Create a file; None: something is short."""
        self._count += 1
        name = name_of(self._next_number)
        self._next_number += 1
        try:
            return await disk.run(partial(create, self._files, name))
        except OSError as error:
            if error.errno not in SHORTAGES:
                raise
            # If its name is there, nothing is in it: a start removes it.
            self._count -= 1
            self._tell()
            return None

    async def _fill(self, file: File) -> None:
        """Fill a file that nobody has with zeros to its end, and free it; if it does not fit, wait.

        The part that did not fit may be there or not: nothing is in it.
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
        """Give up a file that nobody has; that it may be there again after a crash is no harm."""
        self._count -= 1
        self._tell()
        file.close()
        await self._background.run(partial(self._files.remove, file.name))

    def _prepare(self, file: File, at: int, size: int) -> Space:
        if self._files.space().free_bytes - size < self.sizes.reserve_bytes:
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
    return numbered_names.name_of(_PREFIX, number)


def number_of(name: str) -> int | None:
    """Give the number of the arrival segment's file that is called so; None: none is."""
    return numbered_names.number_of(_PREFIX, name)


def create(files: FileSystem, name: str) -> File:
    """Create a file whose name is on the disk before anything is in it. Blocks."""
    file = files.create(name)
    files.sync_names()
    return file


def open_arrivals(
    files: FileSystem, log_id: int, mark: Position, visit: Callable[[Scanned], None]
) -> Opened:
    """Read what is past the mark, give its batches to ``visit``, and begin a generation. Blocks.

    Raises ``DamagedLogError``, or ``OSError`` from the disk.
    """
    numbers = {name: number_of(name) for name in files.names()}
    named = {name: files.open(name) for name, number in numbers.items() if number is not None}
    headers = {name: arrival_scan.first_header(named[name].read, log_id) for name in named}
    heads = {name: header for name, header in headers.items() if header is not None}
    links = arrival_scan.chain(heads, mark)
    known = {link.generation for link in links}
    bad = sorted(set(named) - set(heads))
    for name in bad:
        read = named[name].read
        arrival_scan.refuse_lost_generation(read, log_id, name=name, known=known, mark=mark)
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
    """Write a start's first batch, which is empty and says that all before it is on the disk."""
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
    """No generation before has anything to give back."""


def _write(file: File, offset: int, data: bytes) -> None:
    file.write(offset, [data])
    file.sync()
