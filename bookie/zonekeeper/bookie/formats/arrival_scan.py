"""Read arrival segments: find their order and their end, and tell a torn end from damage. Pure.

Each generation names the last good batch before it. So the newest generation leads back, link by
link, to the mark. Bytes after a named batch are never read. In this *chain* a bad batch is one of:

* **Damage**, if a later generation names it or a batch after it. A missing segment is damage, too.
* **Damage**, in the newest generation, if a later batch or the file ``log-end`` says that it was
  synced. A segment that this file names, and that is missing, is damage, too.
* The **end of the log**, in every other case. Such a batch was never acknowledged as on disk.

A generation whose first batch cannot be read is judged in the same way: it is damage if a later
batch of it says that the first one was synced. Damage means that acknowledged entries are lost. A
bookie that ran without them would deny them, so it must not start.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from zonekeeper.bookie.formats import batch_format, locations, log_end, numbered_names
from zonekeeper.bookie.formats.batch_format import BatchHeader, Placed, Position
from zonekeeper.bookie.formats.log_end import LogEnd
from zonekeeper.bookie.formats.record_format import bad
from zonekeeper.placement.base.troubles import Trouble
from zonekeeper.wire.formats.errors import Fault, FormatError

#: Called with (offset, size): gives up to ``size`` bytes; less only at the end of the file.
Read: TypeAlias = Callable[[int, int], bytes]

_CHUNK_BYTES: Final = 1 << 20
_REMEDY: Final = (
    "entries that were acknowledged are lost on this disk; restore the disk, or remove this "
    "bookie, start it anew, and let its ledgers be repaired"
)


class DamagedLogError(Trouble):
    """The log on the disk is damaged: entries that the bookie acknowledged are lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainLink:
    """One generation of the chain."""

    #: The file's name.
    name: str
    generation: int
    #: The last good batch before this generation.
    before: Position
    #: The sequence of the last good batch, as the next generation names it; None: the newest.
    last: int | None
    #: Batches up to this sequence were on the disk, as the log's end says; 0: it says nothing.
    known: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanned:
    """A good batch, with its records; each frame is given with its location."""

    position: Position
    placed: Sequence[Placed]


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The end of the good batches of a generation."""

    #: The last good batch.
    position: Position
    #: The offset after the last good batch.
    offset: int
    #: The offset of the first good batch that no batch says was synced; ``<= offset``.
    unsynced_at: int


def first_header(read: Read, log_id: int) -> BatchHeader | None:
    """Give the header of a segment's first batch; None: that batch is not good."""
    try:
        return _read_batch(read, log_id, 0)[0]
    except FormatError:
        return None


def chain(
    headers: Mapping[str, BatchHeader | None], mark: Position, known: LogEnd
) -> list[ChainLink]:
    """Give the generations after the mark, oldest first; raises ``DamagedLogError``.

    ``headers`` are those of the files' first batches; None: that batch is not good. ``known`` is
    the log's end as far as it is known to be on the disk.
    """
    heads = {name: header for name, header in headers.items() if header is not None}
    by_generation = {header.position.generation: name for name, header in heads.items()}
    if len(by_generation) < len(heads):
        raise DamagedLogError(f"two arrival segments have one generation: {_REMEDY}")
    links: list[ChainLink] = []
    at, last = max(by_generation, default=0), None
    if at < known.position.generation and known.position > mark:
        raise _lost(known)
    while at > mark.generation:
        if at not in by_generation:
            raise DamagedLogError(
                f"the arrival segment of generation {at} is missing "
                f"({_said_of(sorted(headers), sorted(set(headers) - set(heads)))}): {_REMEDY}"
            )
        name = by_generation[at]
        before = heads[name].before
        here = known.position.sequence if at == known.position.generation else 0
        if last is not None and last < here:
            raise _lost(known)
        links.append(ChainLink(name=name, generation=at, before=before, last=last, known=here))
        at, last = before
    if links and links[-1].before != mark:
        raise DamagedLogError(
            f"arrival segments go back to batch {_name(links[-1].before)}, and the checkpoint "
            f"says {_name(mark)}: {_REMEDY}"
        )
    return links[::-1]


def _said_of(there: Sequence[str], bad: Sequence[str]) -> str:
    """Say which file a missing generation may have been in."""
    if bad:
        return f"perhaps it is in {', '.join(bad)}, where the first batch is damaged"
    return f"none of the files that are there has it: {', '.join(there)}"


def _lost(known: LogEnd) -> DamagedLogError:
    """Say that the batch of the log's known end is in no segment."""
    name = numbered_names.name_of(numbered_names.ARRIVAL, known.arrival_number)
    return DamagedLogError(
        f"the arrival segment {name!r} is missing, or lost its beginning or its end: the file "
        f"{log_end.NAME!r} says that batch {_name(known.position)} was on the disk in it: {_REMEDY}"
    )


def refuse_lost_generation(
    read: Read, log_id: int, *, name: str, known: Collection[int], mark: Position
) -> None:
    """Raise if a segment has lost its first batch, although its generation is needed."""
    for offset, header in _headers(read, log_id, 0):
        generation = header.position.generation
        first = header.before.sequence + 1
        needed = generation > mark.generation and generation not in known
        if needed and header.known_synced >= first:
            raise DamagedLogError(
                f"the arrival segment {name!r} is damaged at its beginning, where batch "
                f"{_name(Position(generation, first))} should be: batch "
                f"{_name(header.position)} at byte {offset} says that it was there: {_REMEDY}"
            )


def scan(read: Read, log_id: int, link: ChainLink, visit: Callable[[Scanned], None]) -> End:
    """Visit the good batches of a generation in order; raises ``DamagedLogError``."""
    key = locations.arrival_key(link.generation)
    offset, sequence = 0, link.before.sequence + 1
    unsynced: deque[tuple[int, int]] = deque()
    while link.last is None or sequence <= link.last:
        try:
            header, placed = _read_batch(read, log_id, offset)
            if header.position.generation != link.generation:
                raise bad(Fault.RANGE, f"left over from generation {header.position.generation}")
        except FormatError as fault:
            _refuse_damage(read, log_id, link, Position(link.generation, sequence), offset, fault)
            break
        if header.position.sequence != sequence or header.before != link.before:
            raise DamagedLogError(
                f"batch {_name(header.position)} stands at byte {offset} of {link.name!r}, in the "
                f"place of batch {sequence}: something else wrote into it: {_REMEDY}"
            )
        visit(
            Scanned(
                position=header.position,
                placed=[Placed(r, locations.location(key, offset + at)) for r, at in placed],
            )
        )
        unsynced.append((sequence, offset))
        while unsynced and unsynced[0][0] <= header.known_synced:
            unsynced.popleft()
        offset += header.size
        sequence += 1
    return End(
        position=Position(link.generation, sequence - 1),
        offset=offset,
        unsynced_at=unsynced[0][1] if unsynced else offset,
    )


def _read_batch(read: Read, log_id: int, offset: int) -> tuple[BatchHeader, list[Placed]]:
    size = batch_format.measure(read(offset, batch_format.HEADER_BYTES), log_id).size
    return batch_format.parse(read(offset, size), log_id)


def _refuse_damage(
    read: Read, log_id: int, link: ChainLink, missing: Position, offset: int, fault: FormatError
) -> None:
    """Raise if a bad batch is damage; return if it is the end of the log."""
    where = f"batch {_name(missing)} at byte {offset} of {link.name!r} is damaged ({fault})"
    if link.last is not None:
        raise DamagedLogError(f"{where}, and a later segment counts on it: {_REMEDY}") from fault
    if missing.sequence <= link.known:
        raise DamagedLogError(
            f"{where}, and the file {log_end.NAME!r} says that batch "
            f"{_name(Position(link.generation, link.known))} was on the disk: {_REMEDY}"
        ) from fault
    for later, header in _headers(read, log_id, offset + 1):
        same = header.position.generation == missing.generation
        if same and header.known_synced >= missing.sequence:
            raise DamagedLogError(
                f"{where}, and batch {_name(header.position)} at byte {later} says that it was on "
                f"the disk: {_REMEDY}"
            ) from fault


def _headers(read: Read, log_id: int, start: int) -> Iterator[tuple[int, BatchHeader]]:
    """Give all good headers in a segment, at any offset, with their offsets."""
    wanted = batch_format.log_mark(log_id)
    while len(chunk := read(start, _CHUNK_BYTES)) >= len(wanted):
        at = -1
        while (at := chunk.find(wanted, at + 1)) >= 0:
            try:
                header = batch_format.measure(read(start + at, batch_format.HEADER_BYTES), log_id)
                batch_format.check_records(read(start + at, header.frames_at), header)
            except FormatError:
                continue
            yield start + at, header
        start += len(chunk) - len(wanted) + 1


def _name(position: Position) -> str:
    return f"{position.generation}/{position.sequence}"
