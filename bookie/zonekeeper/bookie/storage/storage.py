"""The storage of a bookie: it joins the log, the memory, the rewrite, compaction and reads.

``create`` makes a storage on an empty disk. ``open_storage`` opens one, and reads the log past the
mark. ``run`` writes until the log is closed. The arrival segments may be on a device of their own
(``arrival_files``), and the sorted segments in several directories (``sorted_files``). The index
has a store of its own. Reads use a disk object of their own, so they wait for neither a sync nor
the rewrite.

Only ``forget`` removes acknowledged entries. First a record forgets the ledger; that alone decides.
Then the ledger's extents leave the index. Last, compaction frees the space.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Final, TypeVar

from zonekeeper.bookie.disk.disks import Disk
from zonekeeper.bookie.disk.files import FileSystem, Space
from zonekeeper.bookie.formats import locations, log_end
from zonekeeper.bookie.formats.arrival_scan import DamagedLogError
from zonekeeper.bookie.formats.checkpoint_format import Checkpoint, SortedSegment
from zonekeeper.bookie.formats.index import Index
from zonekeeper.bookie.ledgers.extents import Extent
from zonekeeper.bookie.segments import arrivals, log_ends, sorted_writing
from zonekeeper.bookie.segments import checkpoint as checkpoints
from zonekeeper.bookie.segments import directories as ledger_directories
from zonekeeper.bookie.segments.arrivals import Arrivals, Opened, Segment, Sizes
from zonekeeper.bookie.segments.counters import StorageCounters
from zonekeeper.bookie.segments.devices import Devices
from zonekeeper.bookie.segments.directories import Directories
from zonekeeper.bookie.segments.log import DiskFailedError, Log
from zonekeeper.bookie.segments.log_ends import EndKeeper
from zonekeeper.bookie.segments.places import Places
from zonekeeper.bookie.segments.reserve import Reserve
from zonekeeper.bookie.storage import reading, rewrite
from zonekeeper.bookie.storage.compaction import Compacting, Compactor
from zonekeeper.bookie.storage.ledger_entries import LedgerEntries
from zonekeeper.bookie.storage.ledgers import Ledger
from zonekeeper.bookie.storage.memory import Memory
from zonekeeper.bookie.storage.rewrite import Ends, RewriteGround, Rewriter
from zonekeeper.placement.base.chance import Chance
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.formats import errors

T = TypeVar("T")

#: If a smaller share of the device is free, ``reclaim`` compacts at once.
SHORT_SHARE: Final = 0.1
#: The most places of damage that are logged in one start.
TOLD_MAX: Final = 1_000
_ID_BYTES: Final = 8

_logger = logging.getLogger(__name__)


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The result of a look-up: the places of entries. It must be used before the next ``await``."""

    extents: Iterator[Extent]
    #: Entries up to here were looked up.
    last: EntryId


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """The work that the rewrite has not done yet."""

    #: The number of arrival segments that wait to be rewritten.
    sealed: int
    #: The number of segments that the log can still begin. At 0, acknowledging stops when the
    #: active one is full.
    in_reach: int
    #: The share of the segments in use. Above ``pace.START_SHARE`` appends are slowed.
    used_share: float
    #: The rate at which the rewrite frees segments.
    bytes_per_second: float
    #: Why the rewrite frees nothing now; None: it goes on.
    stands_still: str | None
    #: Does the log wait for room on its device?
    writer_waits: bool

    @property
    def trouble(self) -> str | None:
        """Why the log cannot go on, or soon cannot; None: it can."""
        if self.stands_still is not None:
            return f"the rewrite waits for room: {self.stands_still}"
        if self.writer_waits:
            return "the log waits for room on its device"
        if self.in_reach > 0:
            return None
        return f"{self.sealed} arrival segments wait to be rewritten, and none is free"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoragePolicy:
    """The settings of the rewrite and of compaction."""

    ends: Ends = rewrite.know_no_ends
    compacting: Compacting = field(default_factory=Compacting)
    #: Gives the times of tombstones; they decide nothing but how long those are kept.
    wall_ms: Callable[[], int] = _wall_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """The parts of a storage that a start has read."""

    last: Checkpoint
    directories: Directories
    memory: Memory
    opened: Opened


class Storage:
    """An open storage."""

    def __init__(
        self, devices: Devices, sizes: Sizes, found: _Found, policy: StoragePolicy
    ) -> None:
        opened, memory = found.opened, found.memory
        #: What reads met and the log has: damage, and places that cannot be read.
        self._told: set[str] = set()
        self.memory = memory
        self._wall_ms = policy.wall_ms
        self._devices = devices
        self._directories = found.directories
        self._places = Places(found.directories.open)
        for generation, sealed in opened.sealed.items():
            self._places.adopt(generation, sealed.file)
        self._adopt(opened.active)
        self._reserve = Reserve(sizes.reserve_bytes, lambda: memory.checkpoint_bytes)
        self._arrivals = Arrivals(
            devices.arrival_files,
            opened,
            writing=devices.writing,
            background=devices.background,
            sizes=sizes,
            reserve=self._reserve,
        )
        self.log = Log(
            devices.arrival_files,
            devices.writing,
            opened,
            self._arrivals,
            on_placed=memory.place,
            on_segment=self._adopt,
        )
        self._end_keeper = EndKeeper(devices.files, devices.background, self.log)
        on = RewriteGround(
            devices=devices,
            directories=found.directories,
            places=self._places,
            memory=memory,
            end_keeper=self._end_keeper,
            ends=policy.ends,
        )
        self._rewriter = Rewriter(on, self._arrivals, found.last)
        self._compactor = Compactor(self._rewriter, policy.compacting, on)
        #: The error that ended all writing, met by any task; ``run`` raises it.
        self._failure: asyncio.Queue[DiskFailedError] = asyncio.Queue()

    @property
    def backlog(self) -> Backlog:
        """The rewrite's backlog now; for metrics and readiness."""
        arrivals = self._arrivals
        return Backlog(
            sealed=len(arrivals.sealed),
            in_reach=arrivals.in_reach,
            used_share=arrivals.used_share,
            bytes_per_second=arrivals.pace.bytes_per_second(asyncio.get_running_loop().time()),
            stands_still=arrivals.stands_still,
            writer_waits=arrivals.writer_waits,
        )

    async def room(self) -> Space:
        """Give the room for sorted segments; the journal may be on another device."""
        return await self._devices.reads.run(self._directories.space)

    async def measure(self) -> None:
        """Measure the room for the log and the checkpoint; after an error the last figures stay."""
        await self._rewriter.measure()

    @property
    def checkpoint_room_bytes(self) -> int:
        """The room that is left free for checkpoints."""
        return self._reserve.checkpoint_room_bytes

    @property
    def counters(self) -> StorageCounters:
        """The counters of the log, the rewrite and compaction."""
        return self._arrivals.counters

    @property
    def segments(self) -> tuple[SortedSegment, ...]:
        """The sorted segments that count."""
        return self._rewriter.segments

    @property
    def failed_directories(self) -> Sequence[str]:
        """The failed ledger directories, and why; entries in them may be unknown."""
        return [
            f"ledger directory {number + 1}: {why}"
            for number, why in sorted(self._directories.failed.items())
        ]

    async def run(self) -> None:
        """Write until the log is closed; raises ``DiskFailedError``, in a group."""
        async with asyncio.TaskGroup() as tasks:
            background = [
                tasks.create_task(self._until_failure(self._rewriter.run)),
                tasks.create_task(self._until_failure(self._arrivals.keep_ready)),
                tasks.create_task(self._until_failure(self._compactor.run)),
                tasks.create_task(self._until_failure(self._end_keeper.run)),
                tasks.create_task(self._fail()),
            ]
            await self.log.run()
            for task in background:
                task.cancel()
            # The disk works in order, so this comes after the last work of those tasks.
            await self._until_failure(self._end_keeper.save)

    async def read(self, ledger: Ledger, wanted: range, bytes_max: int) -> reading.EntriesFound:
        """Read entries that are on disk; raises IoFailed if the first one cannot be read."""
        known = await self.look_up(ledger, wanted[0], wanted[-1], bytes_max)
        wanted = reading.up_to(wanted, known.last)
        plan = reading.plan(ledger.ledger_id, known.extents, wanted, bytes_max)
        if not plan.pieces:
            return reading.EntriesFound(frames=(), next_entry_id=plan.next_entry_id)
        offsets = [piece.offset for piece in plan.pieces]
        work = self._places.pinning(
            offsets, lambda: reading.carry_out(self._places, plan, bytes_max)
        )
        try:
            return await self._disk_for(offsets).run(work)
        except errors.IoFailed as error:
            self._log_damage(ledger.ledger_id, str(error))
            raise

    def _log_damage(self, ledger_id: LedgerId, text: str) -> None:
        """Log what a read met: each place once, however often it is read."""
        if text not in self._told and len(self._told) < TOLD_MAX:
            self._told.add(text)
            _logger.error("%s", text, extra={"ledger": ledger_id})

    async def look_up(self, ledger: Ledger, first: int, last: int, bytes_max: int) -> Known:
        """Look up the places of entries, from ``first`` on; true at the moment of the return.

        The look-up goes as far as a read of ``bytes_max`` needs, at least.
        """
        extents = ledger.extents
        assert isinstance(extents, LedgerEntries), "the memory makes its ledgers with these"
        while True:
            seen = (extents.moves, self._places.drops)
            rows: list[Extent] = []
            until = min(last, extents.end_of_some(first, reading.FRAMES_MAX))
            if extents.is_sorted(first):
                # This may take milliseconds, so it must not block the event loop and delay acks.
                rows = await self._devices.reads.run(
                    lambda: reading.enough(extents.sorted_between(first, last), bytes_max)
                )
                if len(rows) == reading.FRAMES_MAX or sum(row.size for row in rows) >= bytes_max:
                    until = min(until, rows[-1].last)
            if seen == (extents.moves, self._places.drops):
                return Known(extents=extents.joined_with(rows, first, until), last=EntryId(until))

    def kept(self, found: Iterable[Extent]) -> Iterator[Extent]:
        """Give the extents; raises IoFailed at one that is in a failed directory."""
        for extent in found:
            number = locations.sorted_number(extent.offset)
            if number is not None and self._directories.is_lost(number):
                raise errors.IoFailed(
                    f"entry {extent.first} is in a ledger directory that failed, and may be lost; "
                    "ask another bookie"
                )
            yield extent

    def known_ledgers(self) -> list[LedgerId]:
        """Give the ledgers that have a record or an entry on the disk, ascending."""
        return sorted(ledger_id for ledger_id, each in self.memory.ledgers.items() if each.known)

    def take_disputed(self) -> dict[LedgerId, int]:
        """Give the ledgers that another one under the same id was refused for, once each.

        Each comes with the create token that is known here.
        """
        found: dict[LedgerId, int] = {}
        for ledger_id, each in self.memory.ledgers.items():
            if each.disputed:
                each.disputed = False
                found[ledger_id] = each.durable.create_token
        return found

    async def forget(self, ledger_ids: Iterable[LedgerId]) -> None:
        """Forget ledgers for good; return when that is durable. Raises ``ProtocolError``.

        The caller has proof that the ledgers were deleted. Each leaves a tombstone.
        """
        now_ms = self._wall_ms()
        self.memory.tombstones.expire(now_ms)
        forgets = [self.memory.forgetting(ledger_id, now_ms) for ledger_id in ledger_ids]
        await asyncio.gather(*map(self.log.written, forgets))
        self.counters.tombstones_dropped = self.memory.tombstones.dropped

    async def reclaim(self) -> None:
        """Take forgotten ledgers out of the index. Compaction frees their space later.

        If room is short, compact at once.
        """
        await self._until_failure(self._rewriter.sweep)
        space = self.log.space
        if self._rewriter.stands_still or space.free_bytes < SHORT_SHARE * space.total_bytes:
            await self.compact(major=True)

    async def compact(self, *, major: bool) -> int:
        """Compact all sorted segments that are due, and give their number."""
        return await self._until_failure(lambda: self._compactor.compact(major=major))

    async def note_end(self) -> None:
        """Note how far the log is on the disk: from now on, less than that is damage."""
        await self._end_keeper.save()

    async def close(self) -> None:
        """Close all files, after the disks have done all that they were given.

        ``run`` may have failed, or may have been cancelled, while a thread was in the middle of a
        write or a read. A descriptor that is closed then may be given to another file, and the
        thread would write into that one. So the threads end first, and take no more work.
        """
        for disk in self._devices.disks:
            await disk.close()
        self._places.close()
        self._arrivals.close()
        self.log.active.close()
        self._devices.index.close()

    def _disk_for(self, offsets: Iterable[int]) -> Disk:
        """Give the disk for a read: ``tails`` if all of it is in arrival segments."""
        devices = self._devices
        is_tail = all(locations.arrival_generation(each) is not None for each in offsets)
        return devices.tails if is_tail and devices.tails is not None else devices.reads

    def _adopt(self, segment: Segment) -> None:
        self._places.adopt(segment.generation, segment.file)

    async def _until_failure(self, work: Callable[[], Awaitable[T]]) -> T:
        try:
            return await work()
        except OSError as error:
            self.log.fail(error)
            failed = DiskFailedError(
                f"a segment cannot be rewritten or prepared ({error}); what was not acknowledged "
                "is unknown"
            )
            self._failure.put_nowait(failed)
            raise failed from error

    async def _fail(self) -> None:
        """Make ``run`` raise an error that a call outside ``run`` has met."""
        raise await self._failure.get()


def create(files: FileSystem, chance: Chance) -> None:
    """Make an empty storage, completely or not at all. Blocks."""
    log_id = int.from_bytes(bytes(int(chance.random() * 256) for _ in range(_ID_BYTES)), "big")
    # The checkpoint is the last file: it says that the storage is there, with a log's end.
    log_ends.save(files, log_end.none_of(log_id))
    checkpoints.save(files, Checkpoint(log_id=log_id))


def was_served(files: FileSystem, folders: Iterable[FileSystem]) -> bool:
    """Say whether a storage was ever open. Blocks.

    Each start begins a segment before anything is served. So a storage with a segment, in any of
    the folders, was open. If the folders are not mounted, a mark in the checkpoint tells it, too.
    """
    for name in chain.from_iterable(each.names() for each in folders):
        if arrivals.number_of(name) is not None or ledger_directories.number_of(name) is not None:
            return True
    is_made = checkpoints.NAME in files.names()
    return is_made and checkpoints.load(files).mark != Checkpoint(log_id=0).mark


async def open_storage(
    devices: Devices, sizes: Sizes, policy: StoragePolicy | None = None
) -> Storage:
    """Open the storage that ``create`` made; raises ``DamagedLogError`` or ``OSError``."""

    def open_all() -> _Found:
        # Segments that this checkpoint no longer needs are about to be removed or used again.
        last = checkpoints.secured(devices.files)
        known = log_ends.load(devices.files, last)
        directories = settle(devices.index, last, devices.sorted_files or (devices.files,))
        memory = Memory(devices.index, last)
        opened = arrivals.open_arrivals(devices.arrival_files, known, last.mark, memory.replay)
        memory.restarted()
        # Only now is it sure that checkpoint, log and sorted segments belong together.
        directories.remove_strays()
        return _Found(last=last, directories=directories, memory=memory, opened=opened)

    found = await devices.writing.run(open_all)
    storage = Storage(devices, sizes, found, policy or StoragePolicy())
    await storage.note_end()
    await storage.measure()
    return storage


def rebuild_index(files: FileSystem, index: Index, sorted_files: Sequence[FileSystem] = ()) -> None:
    """Build the index again from the tables of the sorted segments. Blocks."""
    last = checkpoints.load(files)
    index.begin_anew(last.log_id, last.sweep)
    settle(index, last, sorted_files or (files,))


def settle(index: Index, last: Checkpoint, sorted_files: Sequence[FileSystem]) -> Directories:
    """Find the sorted segments, and make the index match the checkpoint. Blocks.

    The index may lag behind, be empty, belong to another log, or have rows of segments that were
    compacted since. It can always be built again, so this destroys nothing: a tool that only reads
    may call it, too.
    """
    directories = Directories(sorted_files)
    index.prepare(last.log_id)
    directories.look(last.segments, index.segments())
    if index.sweep == last.sweep - 1:
        index.forget(last.forgotten, last.sweep)
    elif index.sweep != last.sweep:
        index.begin_anew(last.log_id, last.sweep)
    named = frozenset(last.sorted_numbers)
    compacted = (index.segments() | index.begun()) - named
    if not _drop_compacted(directories, index, last.log_id, compacted):
        index.begin_anew(last.log_id, last.sweep)
    if lacking := sorted(named - index.segments()):
        counts = last.counting()
        for number in lacking:
            rows = sorted_writing.rows_of(directories, last.log_id, number)
            index.add(number, [row for row in rows if counts(row.ledger_id, number)])
    return directories


def _drop_compacted(
    directories: Directories, index: Index, log_id: int, numbers: Iterable[int]
) -> bool:
    """Remove segments that no longer count from the index; False: their rows are not known."""
    for number in sorted(numbers):
        try:
            rows = sorted_writing.rows_of(directories, log_id, number)
        except (DamagedLogError, OSError):
            return False
        index.drop(number, rows)
    return True
