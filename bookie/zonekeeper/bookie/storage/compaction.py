"""Compaction: sorted segments with few live bytes are written anew, without the other bytes.

Compaction has the same steps as a round of the rewrite, in the same order: the new segment; the
checkpoint that names it in place of the old ones; the index; and, when the last read of the old
segments has ended, the removal of their files. After a crash before the checkpoint the old segments
count, after a later crash the new one. A start removes the files that do not count.

*Minor* compaction runs often, and takes segments that are nearly empty. *Major* compaction runs
seldom, or when the rewrite stands still, and takes all segments that are worth it. Both have a
limited rate, and let the rewrite go first when free segments are short.

Compaction is what frees a full device, so it does not wait for room. It takes the segments that
fit, the emptiest first; each of them makes room for the next. If none fits, it removes free arrival
segments. If that is not enough, it leaves the rest for the next time.
"""

import asyncio
import logging
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from zonekeeper.bookie.disk.files import SHORTAGES
from zonekeeper.bookie.formats import locations, sorted_format
from zonekeeper.bookie.formats.arrival_scan import DamagedLogError
from zonekeeper.bookie.formats.checkpoint_format import SortedSegment
from zonekeeper.bookie.formats.index import ExtentRow
from zonekeeper.bookie.segments import sorted_writing
from zonekeeper.bookie.segments.sorted_writing import Copy
from zonekeeper.bookie.storage.rewrite import RewriteGround, Rewriter, RewriteStep
from zonekeeper.placement.base.ids import EntryId, LedgerId

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacting:
    """The settings of compaction."""

    #: A segment is compacted if ``live bytes <= share * bytes``.
    minor_share: float = 0.2
    major_share: float = 0.8
    minor_every_ms: int = 3_600_000
    major_every_ms: int = 86_400_000
    bytes_per_second: int = 20 << 20


def choose(
    due: Iterable[SortedSegment], *, live_bytes_max: int, room_bytes: int
) -> tuple[SortedSegment, ...]:
    """Choose the segments to write into one new one, the emptiest first; at least one if one fits.

    Together they have at most ``live_bytes_max``, unless a single segment has more by itself.
    """
    ordered = sorted(due, key=lambda each: (each.live_bytes / max(1, each.size_bytes), each.number))
    chosen: list[SortedSegment] = []
    live = 0
    for each in ordered:
        if live + each.live_bytes > room_bytes:
            continue
        if chosen and live + each.live_bytes > live_bytes_max:
            break
        live += each.live_bytes
        chosen.append(each)
    return tuple(chosen)


@dataclass(frozen=True, slots=True)
class _Found:
    """The rows of the chosen segments."""

    #: All rows, by the segment's number.
    rows: dict[int, list[ExtentRow]]
    #: The rows that count, sorted by ledger and entry.
    counted: list[ExtentRow]
    ledger_ids: list[LedgerId]


@dataclass(frozen=True, slots=True)
class _Plan:
    """The frames to copy into the new segment."""

    copies: list[Copy]
    #: Ledgers that lose entries, with their ends: the entries are past these.
    cut: dict[LedgerId, EntryId]


class Compactor:
    """Compacts the sorted segments of a rewriter."""

    def __init__(self, rewriter: Rewriter, settings: Compacting, on: RewriteGround) -> None:
        self._rewriter = rewriter
        self._settings = settings
        self._on = on
        self._one_at_a_time = asyncio.Lock()
        #: Segments that could not be read. They are tried again after the next start.
        self._skipped: set[int] = set()

    async def run(self) -> None:
        """Compact from time to time, until cancelled; raises ``OSError`` like the rewrite."""
        loop, settings = asyncio.get_running_loop(), self._settings
        major_at = loop.time() + settings.major_every_ms / 1_000
        while True:
            until_major = max(0.0, major_at - loop.time())
            await asyncio.sleep(min(settings.minor_every_ms / 1_000, until_major))
            major = loop.time() >= major_at
            await self.compact(major=major or self._rewriter.stands_still)
            if major:
                major_at = loop.time() + settings.major_every_ms / 1_000

    async def compact(self, *, major: bool) -> int:
        """Compact all segments that are due and fit, and give their number."""
        share = self._settings.major_share if major else self._settings.minor_share
        count, most, fitting = 0, self._rewriter.sizes.sorted_bytes_max, sys.maxsize
        counters, loop = self._rewriter.counters, asyncio.get_running_loop()
        written, began_s = counters.compacted_bytes, loop.time()
        async with self._one_at_a_time:
            # So that ledgers that were forgotten since the last checkpoint do not count.
            await self._rewriter.sweep()
            while due := self._due(share):
                room = min(fitting, await self._room())
                chosen = choose(due, live_bytes_max=most, room_bytes=room)
                if chosen and (done := await self._write_anew(chosen)) is not None:
                    count += done
                elif (live := sum(each.live_bytes for each in chosen)) > 1:
                    fitting = live // 2
                elif not await self._rewriter.give_up_free():
                    self._rewriter.counters.compactions_without_room += 1
                    _logger.warning(
                        "compaction leaves %d segments for the next time: %d bytes are free for it",
                        len(due),
                        room,
                    )
                    break
        if count:
            _log(count, counters.compacted_bytes - written, loop.time() - began_s, major=major)
        return count

    def _due(self, share_max: float) -> list[SortedSegment]:
        return [
            each
            for each in self._rewriter.segments
            if each.live_bytes <= share_max * each.size_bytes
            and each.number not in self._skipped
            and not self._on.directories.is_lost(each.number)
        ]

    async def _room(self) -> int:
        """Give the room for live bytes in a new segment."""
        _, space = await self._rewriter.do(self._on.directories.roomiest)
        leaves_bytes = self._rewriter.reserve.compaction_leaves_bytes
        return max(0, space.free_bytes - leaves_bytes - sorted_format.HEADER_BYTES)

    async def _write_anew(self, chosen: Sequence[SortedSegment]) -> int | None:
        """Write the rows that count anew; give the number of segments removed. None: no room."""
        numbers = [each.number for each in chosen]
        number = self._on.memory.begin_sorted()
        leaves_bytes = self._rewriter.reserve.compaction_leaves_bytes
        firsts = [locations.location(locations.sorted_key(each), 0) for each in numbers]
        try:
            with self._on.places.pinned(firsts):
                found = await self._rewriter.do(lambda: self._find(numbers))
                await self._rewriter.learn_ends(found.ledger_ids)
                plan = await self._rewriter.do(lambda: self._plan(found))
                written = None
                if plan.copies:
                    written = await self._rewriter.write(
                        number, plan.copies, self._pause, leaves_bytes=leaves_bytes
                    )
        except _UnreadableTableError as error:
            self._skip(error.number, error)
            return 0
        except sorted_writing.UnreadableSegmentError as error:
            for each in numbers:
                self._skip(each, error)
            return 0
        except OSError as error:
            if error.errno not in SHORTAGES:
                raise
            return None
        copied = {(row.ledger_id, row.extent.first) for row in (written.rows if written else ())}
        await self._rewriter.commit(
            RewriteStep(
                added=written,
                dropped={
                    each: [row for row in rows if (row.ledger_id, row.extent.first) not in copied]
                    for each, rows in found.rows.items()
                },
                cut=plan.cut,
            )
        )
        counters = self._rewriter.counters
        counters.compacted_segments += len(numbers)
        counters.compacted_bytes += written.size_bytes if written else 0
        await self._on.places.drop_sorted(numbers)
        await self._rewriter.do(lambda: self._remove(numbers))
        return len(numbers)

    def _find(self, numbers: Sequence[int]) -> _Found:
        rows = {number: self._rows(number) for number in numbers}
        counted = [
            row
            for number, all_in in rows.items()
            for row in all_in
            if self._on.memory.counts(row.ledger_id, number)
        ]
        counted.sort(key=lambda row: (row.ledger_id, row.extent.first))
        return _Found(rows, counted, list(dict.fromkeys(row.ledger_id for row in counted)))

    def _plan(self, found: _Found) -> _Plan:
        known = ((each, self._on.memory.end_of(each)) for each in found.ledger_ids)
        ends = {ledger_id: end for ledger_id, end in known if end is not None}
        past = (row for row in found.counted if row.ledger_id in ends)
        cut = {row.ledger_id for row in past if row.extent.last > ends[row.ledger_id]}
        return _Plan(
            sorted_writing.plan(found.counted, ends.get), {each: ends[each] for each in cut}
        )

    def _rows(self, number: int) -> list[ExtentRow]:
        try:
            return sorted_writing.rows_of(self._on.directories, self._rewriter.log_id, number)
        except (OSError, DamagedLogError) as error:
            if isinstance(error, OSError) and error.errno in SHORTAGES:
                raise
            raise _UnreadableTableError(number, error) from error

    def _remove(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._on.directories.remove(number)

    def _skip(self, number: int, error: Exception) -> None:
        self._skipped.add(number)
        self._rewriter.counters.compactions_failed += 1
        _logger.warning(
            "sorted segment %d is not compacted before the next start: %s", number, error
        )

    async def _pause(self, size: int) -> None:
        await asyncio.sleep(size / self._settings.bytes_per_second)
        await self._rewriter.calm()


def _log(segments: int, size_bytes: int, took_s: float, *, major: bool) -> None:
    _logger.info(
        "%s compaction: %d sorted segments were written anew as %d bytes in %.1f s",
        "major" if major else "minor",
        segments,
        size_bytes,
        took_s,
        extra={
            "segments": segments,
            "size_bytes": size_bytes,
            "duration_ms": round(took_s * 1_000),
        },
    )


class _UnreadableTableError(Exception):
    """The table of a segment cannot be read, so its content is unknown."""

    def __init__(self, number: int, error: Exception) -> None:
        super().__init__(str(error))
        self.number = number
