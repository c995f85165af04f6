"""Reading a log from its beginning to its end, and telling a torn end from damage. Pure.

A batch is written only when the one before it is on disk, and before it is on disk nothing of it is
acknowledged. So at most one batch can be torn by a crash, and nothing stands behind it:

* a bad batch with a later one behind it was once whole: **damage**. What it held was acknowledged,
  and a bookie that went on without it would deny entries that it had. It must not start;
* a bad batch with nothing behind it is the **torn end**: it was never acknowledged, and is cut off.

The last batch of all cannot be told from a torn one when it is damaged; therefore an idle log and
one that is closed get an empty batch behind it (see ``log``).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from zonekeeper.bookie import log_format
from zonekeeper.bookie.log_format import Placed
from zonekeeper.wire.errors import FormatError

#: Gives up to so many bytes from an offset on; less only at the end of the file.
Read: TypeAlias = Callable[[int, int], bytes]

_CHUNK_BYTES: Final = 1 << 20


class DamagedLogError(Exception):
    """The log was damaged after it was written; what it acknowledged is not all there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scanned:
    """A whole batch, where it stands, and what it holds; frames stand at file offsets."""

    offset: int
    size: int
    sequence: int
    placed: Sequence[Placed]


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """Where the log ends."""

    #: Behind the last whole batch; what follows in the file is torn.
    offset: int
    #: What the next batch is to have.
    sequence: int
    #: Where the last whole batch begins; None: there is none.
    last_batch: int | None


def scan(read: Read, log_id: int, visit: Callable[[Scanned], None]) -> End:
    """Visit all batches of a log in order; raises ``DamagedLogError``."""
    end = End(offset=log_format.FILE_HEADER_BYTES, sequence=1, last_batch=None)
    while head := read(end.offset, log_format.BATCH_HEADER_BYTES):
        try:
            batch = _read_batch(read, log_id, end, head)
        except FormatError as fault:
            _refuse_damage(read, log_id, end, fault)
            return end
        visit(batch)
        end = End(
            offset=batch.offset + batch.size,
            sequence=batch.sequence + 1,
            last_batch=batch.offset,
        )
    return end


def _read_batch(read: Read, log_id: int, end: End, head: bytes) -> Scanned:
    size = log_format.measure(head, log_id).size
    header, placed = log_format.parse(read(end.offset, size), log_id)
    if header.sequence != end.sequence:
        raise DamagedLogError(
            f"batch {header.sequence} stands at byte {end.offset} of the log, in the place of "
            f"batch {end.sequence}: something else wrote into the file, or it was put together "
            "from two; restore the disk, or remove this bookie and start it anew"
        )
    return Scanned(
        offset=end.offset,
        size=size,
        sequence=header.sequence,
        placed=[Placed(record, end.offset + offset) for record, offset in placed],
    )


def _refuse_damage(read: Read, log_id: int, end: End, fault: FormatError) -> None:
    """Look for a batch that was written after the bad one."""
    for offset in _marks(read, log_id, end.offset + 1):
        try:
            header = log_format.measure(read(offset, log_format.BATCH_HEADER_BYTES), log_id)
            log_format.check_records(read(offset, header.frames_at), header)
        except FormatError:
            continue
        raise DamagedLogError(
            f"the log is damaged at byte {end.offset}, where batch {end.sequence} should begin "
            f"({fault}), and batch {header.sequence} at byte {offset} shows that this is not a "
            "torn end: entries that were acknowledged are lost on this disk; restore the disk, or "
            "remove this bookie, start it anew, and let its ledgers be repaired"
        ) from fault


def _marks(read: Read, log_id: int, start: int) -> Iterator[int]:
    """Give the offsets at which the bytes stand that begin a batch of this log."""
    wanted = log_format.mark(log_id)
    while len(chunk := read(start, _CHUNK_BYTES)) >= len(wanted):
        at = -1
        while (at := chunk.find(wanted, at + 1)) >= 0:
            yield start + at
        start += len(chunk) - len(wanted) + 1
