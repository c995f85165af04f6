"""Compaction: sorted segments of which little counts are written anew, without the rest.

It is a rewrite like that of arrival segments, with the same steps in the same order: the new
segment, the checkpoint that names it in place of the old ones, the index, and, when their last
reader has ended, the old files. A crash before the checkpoint leaves the old segments, one after it
the new one; a start tidies up.

*Minor* compaction takes segments that are nearly empty, and often; *major* compaction all that are
worth it, and seldom, or when the rewrite stands still. Both go at a pace, and let the rewrite go
first when that is short of segments.

On a full device it is the way out, so it waits for no room: it takes what fits, the emptiest first,
each of which makes room for the next. Where nothing fits, arrival segments that nobody uses are
given up, and the rest is left for the next time.
"""

import asyncio
import logging
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from zonekeeper.bookie.disk.files import SHORTAGES
from zonekeeper.bookie.formats import locations, sorted_format
from zonekeeper.bookie.formats.arrival_scan import DamagedLogError
from zonekeeper.bookie.formats.index import ExtentRow
from zonekeeper.bookie.segments import sorted_writing
from zonekeeper.bookie.segments.checkpoint import SortedSegment
from zonekeeper.bookie.segments.sorted_writing import Copy
from zonekeeper.bookie.storage.rewrite import RewriteGround, Rewriter, RewriteStep
from zonekeeper.placement.base.ids import EntryId, LedgerId

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacting:
    """When, and how fast."""

    #: Live bytes by bytes, at or under which a segment is compacted.
    minor_share: float = 0.2
    major_share: float = 0.8
    minor_every_ms: int = 3_600_000
    major_every_ms: int = 86_400_000
    bytes_per_second: int = 20 << 20


def choose(
    due: Iterable[SortedSegment], *, live_bytes_max: int, room_bytes: int
) -> tuple[SortedSegment, ...]:
    """Choose what to write into one new segment, the emptiest first; at least one if one fits.

    Only one that has more by itself goes beyond ``live_bytes_max``.
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
    """What is in the chosen segments."""

    rows: dict[int, list[ExtentRow]]
    #: Of those, the ones of ledgers that count, by ledger and entry.
    counted: list[ExtentRow]
    ledger_ids: list[LedgerId]


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is to be written."""

    copies: list[Copy]
    #: Ledgers that lose entries, which are past these ends.
    cut: dict[LedgerId, EntryId]


class Compactor:
    """Compacts the sorted segments of a rewriter."""

    def __init__(self, rewriter: Rewriter, settings: Compacting, on: RewriteGround) -> None:
        self._rewriter = rewriter
        self._settings = settings
        self._on = on
        self._one_at_a_time = asyncio.Lock()
        #: Segments that could not be read; a start tries them again.
        self._skipped: set[int] = set()

    async def run(self) -> None:
        """Compact from time to time, for ever; raises ``OSError`` as the rewrite does."""
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
        """Compact all that is due and fits, and give how many segments that were."""
        share = self._settings.major_share if major else self._settings.minor_share
        count, most, fitting = 0, self._rewriter.sizes.sorted_bytes_max, sys.maxsize
        async with self._one_at_a_time:
            # What was forgotten since the last checkpoint counts no more.
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
        """Give the live bytes for which there is room."""
        _, space = await self._rewriter.do(self._on.directories.roomiest)
        leaves_bytes = self._rewriter.sizes.compaction_leaves_bytes
        return max(0, space.free_bytes - leaves_bytes - sorted_format.HEADER_BYTES)

    async def _write_anew(self, chosen: Sequence[SortedSegment]) -> int | None:
        """Write what counts anew, and give how many segments are gone; None: there is no room."""
        numbers = [each.number for each in chosen]
        number = self._on.memory.begin_sorted()
        leaves_bytes = self._rewriter.sizes.compaction_leaves_bytes
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


class _UnreadableTableError(Exception):
    """It is not known what is in a segment."""

    def __init__(self, number: int, error: Exception) -> None:
        super().__init__(str(error))
        self.number = number
