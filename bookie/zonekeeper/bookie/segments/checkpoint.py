"""The file of the checkpoint: read by a start, and replaced as a whole, in pieces.

Neither reading nor writing takes memory for more than a piece of the file (``PIECE_BYTES``), and a
record. A new checkpoint is written beside the old one, and each piece is synced. So the last sync
has little to do, and the log's own syncs do not wait behind it. Until the new file is whole it has
another name: a crash in between leaves the old checkpoint.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from zonekeeper.bookie.disk.files import SHORTAGES, FileSystem
from zonekeeper.bookie.disk.whole_files import Replacement
from zonekeeper.bookie.formats import checkpoint_format
from zonekeeper.bookie.formats.arrival_scan import DamagedLogError
from zonekeeper.bookie.formats.checkpoint_format import (
    Checkpoint,
    CheckpointPieces,
    Kept,
    LedgersAt,
)
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.wire.formats.errors import Fault, FormatError

NAME: Final = "checkpoint"


def load(files: FileSystem) -> Checkpoint:
    """Read the checkpoint; raises ``DamagedLogError`` or ``OSError``. Blocks.

    Its ledgers are read from the file whenever they are asked for.

    This is enough for a tool that only reads. Before anything is removed that an older checkpoint
    needs, call ``secured``.
    """
    for _ in _pieces(files):
        pass
    return _read(files)


def secured(files: FileSystem) -> Checkpoint:
    """Read the checkpoint like ``load``, and make it durable: no power loss undoes it.

    The checkpoint's name may be known to the kernel alone. Perhaps a process was killed before it
    synced the name, or the sync failed; after a failed sync, a later sync may not write it either.
    So the checkpoint is written anew. On a device without room for that, the names are only synced.
    Blocks.
    """
    last = load(files)
    copy = Replacement(files, NAME)
    try:
        for piece in _pieces(files):
            copy.add(piece)
        copy.finish()
    except OSError as error:
        if error.errno not in SHORTAGES:
            raise
        copy.discard()
        files.sync_names()
    return last


def size_of(files: FileSystem) -> int:
    """Give the bytes of the checkpoint that is there. Blocks."""
    file = files.open(NAME)
    try:
        return file.size()
    finally:
        file.close()


def save(files: FileSystem, checkpoint: Checkpoint) -> None:
    """Replace the checkpoint durably. Blocks."""
    writing = CheckpointWriting(files, checkpoint_format.whole_parts_of(checkpoint))
    while writing.step():
        pass


class CheckpointWriting:
    """The writing of one checkpoint. All calls block, and are made one after the other."""

    def __init__(self, files: FileSystem, parts: Iterator[bytes]) -> None:
        """``parts`` are those of ``checkpoint_format.parts_of``; each step asks for some."""
        self._pieces = CheckpointPieces(parts)
        self._replacement = Replacement(files, NAME)

    def step(self) -> int:
        """Write a piece, and give its size; after the last one, replace the file and give 0."""
        piece = self._pieces.take()
        self._replacement.add(piece)
        if not self._pieces.ended:
            return len(piece)
        self._replacement.finish()
        return 0

    def discard(self) -> None:
        """Remove what was written; the old checkpoint counts."""
        self._replacement.discard()


class LedgersInFile:
    """The ledgers of the checkpoint, which is read anew each time that they are asked for."""

    def __init__(self, files: FileSystem, place: LedgersAt) -> None:
        self._files = files
        self._place = place

    def __len__(self) -> int:
        return self._place.ledgers

    def items(self) -> Iterable[tuple[LedgerId, Kept]]:
        """Give the ledgers, each once; raises ``DamagedLogError`` or ``OSError``. Blocks."""
        file = self._files.open(NAME)
        try:
            yield from checkpoint_format.ledgers_in(file.read, self._place)
        except FormatError as fault:
            raise _damaged(fault) from fault
        finally:
            file.close()


def _pieces(files: FileSystem) -> Iterator[bytes]:
    """Give the file in pieces, checked at its end; raises ``DamagedLogError`` or ``OSError``."""
    file = files.open(NAME)
    try:
        yield from checkpoint_format.checked(file.read, file.size())
    except FormatError as fault:
        raise _damaged(fault) from fault
    finally:
        file.close()


def _read(files: FileSystem) -> Checkpoint:
    """Read what a file that was checked says."""
    file = files.open(NAME)
    try:
        head, place = checkpoint_format.parse_head(file.read, file.size())
    except FormatError as fault:
        raise _damaged(fault) from fault
    finally:
        file.close()
    return replace(head, ledgers=LedgersInFile(files, place))


def _damaged(fault: FormatError) -> DamagedLogError:
    if fault.fault is Fault.VERSION:
        return DamagedLogError(
            f"the file {NAME!r} was written by a newer zonekeeper ({fault}): start that version; "
            "nothing is lost"
        )
    return DamagedLogError(
        f"the file {NAME!r} is damaged ({fault}): restore the disk, or remove this bookie, start "
        "it anew, and let its ledgers be repaired"
    )
