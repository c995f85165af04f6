"""Read ranges of entries out of segments: first plan the read, then carry it out.

A plan is made in one step on the event loop, so it is true for one moment: an entry that is not in
it was not here. The plan is carried out in a thread. There each frame is checked as a whole before
an entry of it is given out: its checksum, and that it is the frame that the extent means. A frame
that cannot be read, or fails a check, is *unknown*: the read stops before it, and never denies its
entries.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, cast

from zonekeeper.bookie.ledgers.extents import Extent
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.formats import errors, frames
from zonekeeper.wire.formats.errors import FormatError
from zonekeeper.wire.formats.frames import Frame

#: The most frames of one answer.
FRAMES_MAX: Final = 1_024


class Source(Protocol):
    """The source of the bytes; an extent's offset is a position in it."""

    def read(self, offset: int, size: int) -> bytes:
        """Read up to ``size`` bytes; raises ``OSError``."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Some entries of one frame."""

    offset: int
    size: int
    entry_ids: Sequence[EntryId]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPlan:
    """The frames to read, in order."""

    ledger_id: LedgerId
    pieces: Sequence[Piece]
    #: The plan speaks for the wanted entries before this one.
    next_entry_id: EntryId


@dataclass(frozen=True, slots=True, kw_only=True)
class EntriesFound:
    """The frames that were read; they speak for the wanted entries before ``next_entry_id``."""

    frames: tuple[Frame, ...]
    next_entry_id: EntryId


def plan(ledger_id: LedgerId, extents: Iterable[Extent], wanted: range, bytes_max: int) -> ReadPlan:
    """Choose frames until there are ``FRAMES_MAX`` of them, or ``bytes_max`` bytes.

    The bytes of the first frame do not count: perhaps only its last entries are wanted.
    """
    pieces: list[Piece] = []
    total = 0
    for extent in extents:
        entry_ids = _of(wanted, extent.first, extent.last)
        if not entry_ids:
            continue
        last = pieces[-1] if pieces else None
        if last is not None and last.offset == extent.offset:
            both = (*last.entry_ids, *entry_ids)
            pieces[-1] = Piece(offset=last.offset, size=last.size, entry_ids=both)
            continue
        if total >= bytes_max or len(pieces) == FRAMES_MAX:
            return ReadPlan(ledger_id=ledger_id, pieces=pieces, next_entry_id=entry_ids[0])
        if pieces:
            total += extent.size
        pieces.append(Piece(offset=extent.offset, size=extent.size, entry_ids=entry_ids))
    return ReadPlan(ledger_id=ledger_id, pieces=pieces, next_entry_id=EntryId(wanted.stop))


def enough(extents: Iterable[Extent], bytes_max: int) -> list[Extent]:
    """Give extents until there are enough for one answer."""
    found: list[Extent] = []
    total = 0
    for extent in extents:
        found.append(extent)
        total += extent.size
        if total >= bytes_max or len(found) == FRAMES_MAX:
            break
    return found


def up_to(wanted: range, last: EntryId) -> range:
    """Give the wanted entries ``<= last``; its ``stop`` is the next wanted entry."""
    if last >= wanted[-1]:
        return wanted
    count = max(0, (last - wanted.start) // wanted.step + 1)
    return range(wanted.start, wanted.start + count * wanted.step, wanted.step)


def carry_out(source: Source, made: ReadPlan, bytes_max: int) -> EntriesFound:
    """Read a plan. Blocks; raises IoFailed if the first of its entries cannot be read."""
    found: list[Frame] = []
    total = 0
    for piece in made.pieces:
        if found and total >= bytes_max:
            return EntriesFound(frames=tuple(found), next_entry_id=piece.entry_ids[0])
        try:
            whole = _read(source, made.ledger_id, piece)
        except errors.IoFailed:
            if not found:
                raise
            return EntriesFound(frames=tuple(found), next_entry_id=piece.entry_ids[0])
        part = _part(whole, piece.entry_ids)
        kept = _fitting(part, bytes_max - total, at_least=0 if found else 1)
        if kept < len(part):
            if kept:
                found.append(_part(part, part.entry_ids[:kept]))
            return EntriesFound(frames=tuple(found), next_entry_id=part.entry_ids[kept])
        found.append(part)
        total += len(part.packets)
    return EntriesFound(frames=tuple(found), next_entry_id=made.next_entry_id)


def _read(source: Source, ledger_id: LedgerId, piece: Piece) -> Frame:
    where = f"ledger {ledger_id}, entry {piece.entry_ids[0]}, location {piece.offset:#x}"
    try:
        frame = frames.parse_again(source.read(piece.offset, piece.size))
    except OSError as error:
        raise errors.IoFailed(f"{where}: cannot be read ({error}); ask another bookie") from error
    except FormatError as fault:
        raise errors.IoFailed(f"{where}: is damaged ({fault}); ask another bookie") from fault
    if frame.ledger_id != ledger_id or not _has_all(frame, piece.entry_ids):
        raise errors.IoFailed(f"{where}: another frame stands there; ask another bookie")
    return frame


def _part(frame: Frame, entry_ids: Sequence[EntryId]) -> Frame:
    """Give the frame of some of a frame's entries, at least one."""
    first, last = entry_ids[0], entry_ids[-1]
    between = frame.between(first, last)
    assert between is not None, "the entries are in the frame"
    if len(between) == len(entry_ids):
        return between
    part = between.subset(frozenset(entry_ids))
    assert part is not None, "the entries are in the frame"
    return part


def _fitting(frame: Frame, bytes_max: int, *, at_least: int) -> int:
    """Count the first entries whose packets fit into ``bytes_max``."""
    return max(at_least, bisect_right(frame.ends, bytes_max))


def _of(wanted: range, first: EntryId, last: EntryId) -> Sequence[EntryId]:
    """Give the wanted entries from ``first`` to ``last``."""
    skipped = -(-max(0, first - wanted.start) // wanted.step)
    start = wanted.start + skipped * wanted.step
    stop = min(last + 1, wanted.stop)
    # Not a list: a reader of old entries asks for a million entries a second.
    return cast("Sequence[EntryId]", range(start, stop, wanted.step))


def _has_all(frame: Frame, entry_ids: Sequence[EntryId]) -> bool:
    there = frame.entry_ids
    if isinstance(there, range) and there.step == 1:
        return there[0] <= entry_ids[0] and entry_ids[-1] <= there[-1]
    return frozenset(there).issuperset(entry_ids)
