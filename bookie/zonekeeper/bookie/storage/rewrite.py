"""The rewrite: it copies the live entries of sealed arrival segments into a sorted segment.

A *round* takes the oldest sealed segments. It gathers the extents in them from memory, ordered by
ledger and entry, and copies their frames one after the other. A forgotten ledger costs nothing.

A round is safe at every point because of the order of its steps. No step begins before the one
before it is on the disk:

1. The sorted segment, with its table and its name.
2. The checkpoint, which names the segment, moves the mark, and holds the ledger state. From now on
   no start needs the arrival segments. How far the log is synced is noted just before it.
3. The index. From now on no new read needs the arrival segments.
4. When the last read that began earlier has ended, the arrival segments are recycled.

Entries past the end of a closed ledger were never acknowledged, and are not copied. Before a round
the metadata is asked for the ends of some ledgers, in bounded time (``learn_ends``). If an end is
unknown, all entries are kept.

Steps 2 and 3 are a *commit*. Rounds, compaction and sweeps make commits, always one at a time. A
*sweep* takes forgotten ledgers out of the index. Here, too, the checkpoint comes first: it names
the swept ledgers, so that a start can repeat the sweep.

The rewrite works in slices. Unless free segments are short, it limits its rate to leave the device
to the log.

If a round finds no room, the next round takes fewer segments. If there is no room for a round of
one segment, the rewrite *stands still* until there is room, or until a commit of another kind has
changed what is to be copied. It holds no lock meanwhile, so work that makes room does not wait for
it.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeAlias, TypeVar

from zonekeeper.bookie.disk.files import SHORTAGES, Space
from zonekeeper.bookie.formats import checkpoint_format
from zonekeeper.bookie.formats.batch_format import Position
from zonekeeper.bookie.formats.checkpoint_format import Checkpoint, SortedSegment
from zonekeeper.bookie.formats.index import ExtentRow, bytes_by_segment
from zonekeeper.bookie.segments import checkpoint as checkpoints
from zonekeeper.bookie.segments import sorted_writing
from zonekeeper.bookie.segments.arrivals import SHORT_DELAY_MS, Arrivals, Sizes
from zonekeeper.bookie.segments.checkpoint import CheckpointWriting
from zonekeeper.bookie.segments.devices import Devices
from zonekeeper.bookie.segments.directories import Directories
from zonekeeper.bookie.segments.log_ends import EndKeeper
from zonekeeper.bookie.segments.pace import BYTES_PER_SECOND
from zonekeeper.bookie.segments.places import Places
from zonekeeper.bookie.segments.reserve import Reserve
from zonekeeper.bookie.segments.sorted_writing import (
    Copy,
    Job,
    UnreadableSegmentError,
    WrittenSegment,
)
from zonekeeper.bookie.storage.ledgers import Ledger
from zonekeeper.bookie.storage.memory import Memory
from zonekeeper.placement.base.ids import EntryId, LedgerId

T = TypeVar("T")

#: Gives the last entries of those ledgers that are proven to be closed; raises nothing.
Ends: TypeAlias = Callable[[Sequence[LedgerId]], Awaitable[Mapping[LedgerId, EntryId]]]

ROUND_SEGMENTS_MAX: Final = 16
#: With fewer segments in reach of the log, a round makes no pauses, and compaction waits.
HURRY_IN_REACH: Final = 4
#: The most ledgers whose ends are asked for in a round.
ENDS_MAX: Final = 100
#: The longest time for that.
ENDS_TIMEOUT_MS: Final = 1_000
#: The number of extents that are gathered in one turn of the event loop.
_GATHER: Final = 2_000
#: The number of ledgers whose extents leave memory in one turn of the event loop.
_MOVED: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteGround:
    """The parts of a storage that the rewrite and compaction work on."""

    devices: Devices
    directories: Directories
    places: Places
    memory: Memory
    end_keeper: EndKeeper
    ends: Ends


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteStep:
    """The changes that a commit makes."""

    #: The new mark; None: it stays.
    mark: Position | None = None
    #: A new sorted segment; None: there is none.
    added: WrittenSegment | None = None
    #: Sorted segments that no longer count, with their rows that may still be in the index.
    dropped: Mapping[int, Sequence[ExtentRow]] = field(default_factory=dict)
    #: Ledgers that lose entries in the index, with their ends: the entries are past these.
    cut: Mapping[LedgerId, EntryId] = field(default_factory=dict)


class Rewriter:
    """Does rounds and commits, on an event loop."""

    def __init__(self, on: RewriteGround, arrivals: Arrivals, last: Checkpoint) -> None:
        """``last`` is the checkpoint on the disk; its ledgers are in the memory now."""
        self.counters = arrivals.counters
        self._on = on
        self._memory = on.memory
        self._index = on.devices.index
        self._arrivals = arrivals
        self._last = replace(last, ledgers={})
        self._sweep = last.sweep
        #: The most segments of the next round.
        self._round_segments = self._round_segments_max
        self._committing = asyncio.Lock()

    @property
    def log_id(self) -> int:
        """The id of the storage's log."""
        return self._last.log_id

    @property
    def segments(self) -> tuple[SortedSegment, ...]:
        """The sorted segments that count since the last commit."""
        return self._last.segments

    @property
    def sizes(self) -> Sizes:
        """The sizes of segments."""
        return self._arrivals.sizes

    @property
    def reserve(self) -> Reserve:
        """The room that is left free."""
        return self._arrivals.reserve

    @property
    def stands_still(self) -> bool:
        """Is there no room for a round?"""
        return self._arrivals.stands_still is not None

    async def run(self) -> None:
        """Do rounds until cancelled; raises ``OSError``, after which no round may be tried."""
        while True:
            await self._arrivals.wait_for_sealed()
            await self.round()

    async def round(self) -> None:
        """Rewrite the oldest sealed segments; without room, make the next round smaller."""
        loop, pace = asyncio.get_running_loop(), self._arrivals.pace
        generations = list(self._arrivals.sealed)[: self._round_segments]
        pace.begin_round(len(generations) * self._arrivals.segment_bytes, loop.time())
        through = generations[-1]
        number = self._memory.begin_sorted()
        rows = await self._gather(through)
        touched = self._memory.touched_through(through)
        await self.learn_ends(entries.ledger_id for entries in touched)
        copies = await self.do(lambda: sorted_writing.plan(rows, self._memory.end_of))
        written = None
        if copies:
            leaves = self.reserve.rounds_leave_bytes
            try:
                written = await self.write(number, copies, self._pause, leaves_bytes=leaves)
            except OSError as error:
                if error.errno not in SHORTAGES:
                    raise
                needed = sum(copy.size for copy in copies) + leaves
                await self._take_fewer(len(generations), needed, error)
                return
        self._arrivals.stand_still(None)
        self._round_segments = min(self._round_segments_max, 2 * self._round_segments)
        await self.commit(RewriteStep(mark=self._arrivals.sealed[through].last, added=written))
        await self._leave_to_index(through)
        self.counters.rewritten_segments += len(generations)
        self.counters.rewritten_bytes += written.size_bytes if written else 0
        await self._on.places.drop_arrivals(generations)
        self._arrivals.recycle(through)
        pace.end_round(loop.time())

    async def learn_ends(self, ledger_ids: Iterable[LedgerId]) -> None:
        """Ask for the ends of some of these ledgers; what is not answered in time stays unknown."""
        asked = self._memory.open_ones(ledger_ids, ENDS_MAX)
        if not asked:
            return
        try:
            async with asyncio.timeout(ENDS_TIMEOUT_MS / 1_000):
                ends = await self._on.ends([ledger.ledger_id for ledger in asked])
        except TimeoutError:
            return
        for ledger in asked:
            # A ledger that was forgotten meanwhile is set here, too; nothing uses it any more.
            ledger.closed_at = ends.get(ledger.ledger_id)

    async def write(
        self,
        number: int,
        copies: Sequence[Copy],
        pause: Callable[[int], Awaitable[None]],
        *,
        leaves_bytes: int,
    ) -> WrittenSegment:
        """Write a sorted segment into the roomiest directory, and leave ``leaves_bytes`` there.

        If a directory fails, try the next one. ``pause`` is awaited after each slice, with its
        size. Raises ``UnreadableSegmentError``, or ``OSError``: one of ``SHORTAGES``, or because no
        directory is left. After an error the file is removed.
        """
        where = (self._on.directories, self._on.places)
        while True:
            job = Job(*where, self.log_id, number, copies, leaves_bytes)
            try:
                while size := await self.do(job.step):
                    await pause(size)
                return await self.do(job.finish)
            except UnreadableSegmentError:
                await self.do(job.discard)
                raise
            except OSError as error:
                await self.do(job.discard)
                if job.directory is None or error.errno in SHORTAGES:
                    raise
                # Segments in the failed directory are still read; this one goes to another.
                self._on.directories.fail(job.directory, error)

    async def commit(self, step: RewriteStep) -> None:
        """Make the changes of a step, and sweep the ledgers that were forgotten until now."""
        async with self._committing:
            gone = self._memory.take_forgotten()
            try:
                await self._commit(step, gone)
            except BaseException:
                # It is unknown whether they were swept, so the next sweep has them again.
                self._memory.take_back(gone)
                raise

    async def _commit(self, step: RewriteStep, gone: Sequence[LedgerId]) -> None:
        freed = await self.do(lambda: self._index.bytes_of(gone)) if gone else Counter[int]()
        last = self._after(step, freed)
        if gone:
            # A sweep that was cut short has used up its number.
            self._sweep += 1
            last = replace(last, sweep=self._sweep, forgotten=tuple(gone))
        assert last.mark >= self._last.mark, "the mark never goes back"
        await self._cut(step.cut)
        await self._save(last)
        await self.do(lambda: self._to_index(step, last, swept=bool(gone)))
        self._last = last
        self.counters.swept_ledgers += len(gone)

    async def _cut(self, ends: Mapping[LedgerId, EntryId]) -> None:
        """Lower the last entries in memory, before entries past an end leave the index."""
        if not ends:
            return
        index = self._index
        lasts = await self.do(lambda: {each: index.last(each, end) for each, end in ends.items()})
        for ledger_id, last in lasts.items():
            if self._memory.end_of(ledger_id) == ends[ledger_id]:
                self._memory.entries(ledger_id).ends_at(last)

    async def sweep(self) -> None:
        """Take forgotten ledgers out of the index, if there are any."""
        if self._memory.has_forgotten:
            await self.commit(RewriteStep())

    async def measure(self) -> None:
        """Measure the room for the log and the checkpoint; after an error the last figures stay."""
        devices, arrivals, reserve = self._on.devices, self._arrivals, self.reserve
        shared = devices.files is devices.arrival_files

        def look() -> tuple[Space, Space, int]:
            spaces = devices.arrival_files.space(), devices.files.space()
            return (*spaces, checkpoints.size_of(devices.files))

        try:
            arrivals.space, space, reserve.present_bytes = await self.do(look)
        except OSError:
            return
        shared = shared or 0 != space.device == arrivals.space.device
        reserve.checkpoint_space = None if shared else space

    async def do(self, work: Callable[[], T]) -> T:
        """Do a piece of work on the background disk, after the pieces given before."""
        return await self._on.devices.background.run(work)

    async def give_up_free(self) -> bool:
        """Remove free arrival segments to make room; False: there was none to remove."""
        return await self._arrivals.give_up_free()

    @property
    def _round_segments_max(self) -> int:
        fitting = self.sizes.sorted_bytes_max // self.sizes.segment_bytes
        return max(1, min(ROUND_SEGMENTS_MAX, fitting))

    async def calm(self) -> None:
        """Return when no round is in a hurry, or when the rewrite stands still."""
        await self._arrivals.wait_for_reach(HURRY_IN_REACH)

    async def _gather(self, through: int) -> list[ExtentRow]:
        """Give the extents in sealed segments up to a generation, by ledger and entry."""
        rows: list[ExtentRow] = []
        looked_at = 0
        for entries in self._memory.touched_through(through):
            start: int | None = 0
            while start is not None:
                found, start = entries.arrived(through, start, _GATHER)
                rows += [ExtentRow(entries.ledger_id, extent) for extent in found]
                looked_at += len(found) + 1
                if looked_at >= _GATHER:
                    looked_at = 0
                    await asyncio.sleep(0)
        return rows

    async def _leave_to_index(self, through: int) -> None:
        """Remove extents from memory that the index has now, some ledgers at a time."""
        index = self._index
        touched = self._memory.touched_through(through)
        for some in (touched[at : at + _MOVED] for at in range(0, len(touched), _MOVED)):
            # Under the commit's lock: the index must not change in between.
            async with self._committing:
                ids = [entries.ledger_id for entries in some]
                lasts = await self.do(partial(index.lasts, ids))
                for entries, last in zip(some, lasts, strict=True):
                    if self._memory.is_touched(entries, through):
                        entries.sorted_through(through, last)
        self._memory.forget_touched(through)

    def _after(self, step: RewriteStep, freed: Mapping[int, int]) -> Checkpoint:
        """Give the checkpoint after a step, without its ledgers."""
        segments = [
            replace(each, live_bytes=max(0, each.live_bytes - freed.get(each.number, 0)))
            for each in self._last.segments
            if each.number not in step.dropped
        ]
        if (written := step.added) is not None:
            live = bytes_by_segment(self._counted(written))[written.number]
            segments.append(
                SortedSegment(
                    number=written.number,
                    directory=written.directory,
                    size_bytes=written.size_bytes,
                    live_bytes=live,
                )
            )
        return replace(
            self._last,
            mark=self._last.mark if step.mark is None else step.mark,
            next_sorted=self._memory.next_sorted,
            segments=tuple(sorted(segments, key=lambda each: each.number)),
            read_only=self._memory.read_only,
            tombstones=self._memory.tombstones.kept(),
        )

    async def _save(self, last: Checkpoint) -> None:
        """Replace the checkpoint; the ledger state in memory is that of the mark, or newer."""
        there = list(self._memory.ledgers.values())
        kept = await self.do(lambda: self._memory.kept(there))
        waited = False
        while True:
            try:
                await self._replace(last, kept)
            except OSError as error:
                if error.errno not in SHORTAGES:
                    raise
                # The last checkpoint still counts; the next attempt begins with a new file.
                waited = True
                self._arrivals.stand_still(str(error))
                await self._let_time_pass()
            else:
                if waited:
                    self._arrivals.stand_still(None)
                return

    async def _replace(self, last: Checkpoint, kept: Sequence[Ledger]) -> None:
        """Note the log's end, of which the checkpoint says that it is there; then replace that.

        The checkpoint is written in pieces, with pauses, like a sorted segment.
        """
        keeper, end = self._on.end_keeper, self._on.end_keeper.end
        parts = checkpoint_format.parts_of(last, len(kept), self._memory.rendered(kept))
        writing = CheckpointWriting(self._on.devices.files, parts)

        def begin() -> int:
            keeper.note(end)
            return writing.step()

        try:
            size = await self.do(begin)
            while size:
                await self._pause(size)
                size = await self.do(writing.step)
        except OSError:
            await self.do(writing.discard)
            raise
        await self.measure()

    def _to_index(self, step: RewriteStep, last: Checkpoint, *, swept: bool) -> None:
        if swept:
            self._index.forget(last.forgotten, last.sweep)
        if step.added is not None:
            self._index.add(step.added.number, self._counted(step.added))
        for number, rows in step.dropped.items():
            self._index.drop(number, rows)

    def _counted(self, written: WrittenSegment) -> list[ExtentRow]:
        """Give the rows of ledgers that were not forgotten since they were gathered."""
        return [row for row in written.rows if self._memory.counts(row.ledger_id, written.number)]

    async def _take_fewer(self, count: int, needed_bytes: int, error: OSError) -> None:
        """Make the next round smaller; after a round of one segment, wait until there is room."""
        self._round_segments = max(1, count // 2)
        if count > 1:
            return
        self._arrivals.stand_still(str(error))
        last, directories = self._last, self._on.directories
        room = 0
        # A commit meanwhile (``_last`` changes) may have reduced what the round must copy.
        while self._last is last and room < needed_bytes:
            await self._let_time_pass()
            room = (await self.do(directories.roomiest))[1].free_bytes

    async def _let_time_pass(self) -> None:
        self.counters.waits_for_room += 1
        await asyncio.sleep(SHORT_DELAY_MS / 1_000)

    async def _pause(self, size: int) -> None:
        hurry = self._arrivals.in_reach < HURRY_IN_REACH or self._arrivals.writer_waits
        await asyncio.sleep(0 if hurry else size / BYTES_PER_SECOND)


async def know_no_ends(ledger_ids: Sequence[LedgerId]) -> Mapping[LedgerId, EntryId]:
    """Say of no ledger that it is closed."""
    del ledger_ids
    return {}
