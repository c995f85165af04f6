"""What a bookie keeps, put together: the log, the memory, the rewrite, and reads.

``create`` makes it on an empty disk, ``open_storage`` reads what is past the mark, ``run`` writes
until the log is closed. The arrival segments may be on a device of their own (``arrival_files``);
all else is on the ledger device (``files``), but for the index, which has its store. Reads go to a
disk object of their own and wait for neither a sync nor the rewrite.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from zonekeeper.bookie import reading
from zonekeeper.bookie.files import FileSystem
from zonekeeper.bookie.ledgers import Ledger
from zonekeeper.bookie.segments import arrivals, rewrite
from zonekeeper.bookie.segments import checkpoint as checkpoints
from zonekeeper.bookie.segments.arrival_scan import DamagedLogError
from zonekeeper.bookie.segments.arrivals import Arrivals, Opened, Segment
from zonekeeper.bookie.segments.checkpoint import Checkpoint
from zonekeeper.bookie.segments.devices import Devices
from zonekeeper.bookie.segments.index import Index
from zonekeeper.bookie.segments.log import DiskFailedError, Log
from zonekeeper.bookie.segments.memory import Memory
from zonekeeper.bookie.segments.places import Places
from zonekeeper.bookie.segments.rewrite import EndOf, Rewriter
from zonekeeper.placement.chance import Chance

_ID_BYTES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How large arrival segments are, and how many there are at most."""

    segment_bytes: int
    segments_max: int = arrivals.SEGMENTS_MAX_DEFAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """How far the rewrite is behind."""

    #: Arrival segments that wait to be rewritten.
    sealed: int
    #: How many more the writer can begin; with none, nothing is acknowledged any more.
    in_reach: int


class Storage:
    """All that is on the disks, open."""

    def __init__(
        self,
        devices: Devices,
        sizes: Sizes,
        *,
        opened: Opened,
        last: Checkpoint,
        memory: Memory,
        end_of: EndOf,
    ) -> None:
        self.memory = memory
        self._devices = devices
        files = devices.files
        self._places = Places(lambda number: files.open(rewrite.name_of(number)))
        for generation, sealed in opened.sealed.items():
            self._places.adopt(generation, sealed.file)
        self._adopt(opened.active)
        self._arrivals = Arrivals(
            devices.arrival_files,
            opened,
            writing=devices.writing,
            background=devices.background,
            segment_bytes=sizes.segment_bytes,
            segments_max=sizes.segments_max,
        )
        self.log = Log(
            devices.arrival_files,
            devices.writing,
            opened,
            self._arrivals,
            on_placed=memory.place,
            on_segment=self._adopt,
        )
        self._rewriter = Rewriter(
            devices,
            memory=memory,
            arrivals=self._arrivals,
            source=self._places,
            last=last,
            end_of=end_of,
        )

    @property
    def backlog(self) -> Backlog:
        """How far the rewrite is behind; for metrics and readiness."""
        return Backlog(sealed=len(self._arrivals.sealed), in_reach=self._arrivals.in_reach)

    async def run(self) -> None:
        """Write until the log is closed; raises ``DiskFailedError``, in a group."""
        async with asyncio.TaskGroup() as tasks:
            background = [
                tasks.create_task(self._until_failure(self._rewriter.run)),
                tasks.create_task(self._until_failure(self._arrivals.keep_ready)),
            ]
            await self.log.run()
            for task in background:
                task.cancel()
        # What they had begun is done when this is; nobody closes a file under it.
        await self._devices.background.run(_nothing)

    async def read(self, ledger: Ledger, wanted: range, bytes_max: int) -> reading.Found:
        """Read entries that are on disk; raises IoFailed if not even the first can be read."""
        extents = ledger.extents.between(wanted[0], wanted[-1])
        plan = reading.plan(ledger.ledger_id, extents, wanted, bytes_max)
        if not plan.pieces:
            return reading.Found(frames=(), next_entry_id=plan.next_entry_id)
        with self._places.pinned([piece.offset for piece in plan.pieces]):
            return await self._devices.reads.run(
                lambda: reading.carry_out(self._places, plan, bytes_max)
            )

    def close(self) -> None:
        """Give the files back, when nobody writes or reads any more."""
        self._places.close()
        self._arrivals.close()
        self.log.active.close()
        self._devices.index.close()

    def _adopt(self, segment: Segment) -> None:
        self._places.adopt(segment.generation, segment.file)

    async def _until_failure(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except OSError as error:
            self.log.fail(error)
            raise DiskFailedError(
                f"an arrival segment cannot be rewritten or prepared ({error}); what was not "
                "acknowledged is unknown"
            ) from error


def create(files: FileSystem, chance: Chance) -> None:
    """Make an empty storage, whole or not at all. Blocks."""
    log_id = int.from_bytes(bytes(int(chance.random() * 256) for _ in range(_ID_BYTES)), "big")
    checkpoints.save(files, Checkpoint(log_id=log_id))


def was_served(arrival_files: FileSystem) -> bool:
    """Say whether it was ever open: each start begins a segment before anything is served."""
    return any(name.startswith(arrivals.PREFIX) for name in arrival_files.names())


async def open_storage(
    devices: Devices, sizes: Sizes, *, end_of: EndOf = rewrite.keep_all
) -> Storage:
    """Read what ``create`` made and others wrote; raises ``DamagedLogError`` or ``OSError``."""

    def open_all() -> tuple[Checkpoint, Memory, Opened]:
        last = checkpoints.load(devices.files)
        _settle_sorted(devices.files, last)
        _settle_index(devices.files, devices.index, last)
        memory = Memory(devices.index, last)
        opened = arrivals.open_arrivals(
            devices.arrival_files,
            last.log_id,
            last.mark,
            lambda batch: memory.place(batch.placed),
        )
        memory.restarted()
        return last, memory, opened

    last, memory, opened = await devices.writing.run(open_all)
    storage = Storage(devices, sizes, opened=opened, last=last, memory=memory, end_of=end_of)
    await storage.log.measure()
    return storage


def rebuild_index(files: FileSystem, index: Index) -> None:
    """Build the index again from the tables of the sorted segments. Blocks."""
    last = checkpoints.load(files)
    index.begin_anew(last.log_id)
    _settle_index(files, index, last)


def _settle_sorted(files: FileSystem, last: Checkpoint) -> None:
    """Hold the sorted segments to the checkpoint; what it does not name was never finished."""
    named = set(map(rewrite.name_of, last.sorted_numbers))
    there = {name for name in files.names() if name.startswith(rewrite.PREFIX)}
    if lost := sorted(named - there):
        raise DamagedLogError(
            f"sorted segments are missing ({', '.join(lost[:5])}, {len(lost)} in all): mount or "
            "restore the disk, or remove this bookie, start it anew, and let its ledgers be "
            "repaired"
        )
    for name in sorted(there - named):
        files.remove(name)


def _settle_index(files: FileSystem, index: Index, last: Checkpoint) -> None:
    """Bring the index up to the checkpoint; it may be behind, empty, or another log's."""
    index.prepare(last.log_id)
    there = index.segments()
    if not there <= set(last.sorted_numbers):
        index.begin_anew(last.log_id)
        there = frozenset()
    for number in last.sorted_numbers:
        if number not in there:
            index.add(number, rewrite.read_rows(files, last.log_id, number))


def _nothing() -> None:
    """Come after what was begun before."""
