"""Scrub: read everything that a bookie keeps, and report damage. Nothing is repaired.

Bytes that cannot be read are damage, too. After damage the rest is still read.

Every batch and frame that counts is read, and its checksums are compared. Every row of a sorted
segment's table is compared with its frame, and the index with the tables. So each extent of the
index is compared with its frame. Digests of entries are compared if that needs no password.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from zonekeeper.bookie.disk.files import SHORTAGES, File
from zonekeeper.bookie.formats import arrival_scan, log_end
from zonekeeper.bookie.formats.arrival_scan import ChainLink, DamagedLogError, Scanned
from zonekeeper.bookie.formats.checkpoint_format import Checkpoint
from zonekeeper.bookie.life.data_folder import HeldFolders
from zonekeeper.bookie.segments import checkpoint as checkpoints
from zonekeeper.bookie.segments import directories, log_ends
from zonekeeper.bookie.storage import storage
from zonekeeper.bookie.tools import chains, folders, indexes, segments
from zonekeeper.bookie.tools.folders import ToolError
from zonekeeper.bookie.tools.segments import Damage, Digests, FrameSeen
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import LedgerId


@dataclass(slots=True, kw_only=True)
class Findings:
    """The result of a scrub: counts and damage."""

    files: int = 0
    frames: int = 0
    entries: int = 0
    #: Entries whose digests could not be compared: ``unchecked <= entries``.
    unchecked: int = 0
    size_bytes: int = 0
    #: The place and the kind of each damage.
    damage: list[str] = field(default_factory=list)


def scrub(data: Path, held: HeldFolders, told: Callable[[str], None]) -> Findings:
    """Read everything; ``told`` is called with the name of each part before it is read."""
    found = Findings()
    try:
        last = checkpoints.load(held.data)
        digests = digests_of(last)
    except (DamagedLogError, OSError) as error:
        found.damage.append(_damage(error))
        return found
    for number in last.sorted_numbers:
        name = directories.name_of(number)
        told(name)
        try:
            file = folders.open_sorted(held, last, number)
        except FileNotFoundError:
            found.damage.append(f"{name}: it is missing, and the checkpoint names it")
            continue
        except OSError as error:
            found.damage.append(_damage(error))
            continue
        try:
            found.size_bytes += file.size()
            _count(found, name, segments.ordered(file, last.log_id, number, digests))
        except OSError as error:
            found.damage.append(_damage(error))
        finally:
            file.close()
    told("arrival segments")
    _arrivals(held, last, found, digests)
    told("index")
    _index(data, held, last, found)
    return found


def plain(found: Findings) -> dict[str, object]:
    """Give the findings as plain data."""
    return {
        "segments": found.files,
        "bytes": found.size_bytes,
        "frames": found.frames,
        "entries": found.entries,
        "entriesUnchecked": found.unchecked,
        "damage": found.damage,
    }


def digests_of(last: Checkpoint) -> dict[LedgerId, Digest]:
    """Give the digests that the checkpoint knows."""
    return {
        ledger_id: kept.state.digest
        for ledger_id, kept in last.ledgers.items()
        if kept.state.digest is not None
    }


def _count(found: Findings, name: str, parts: Iterator[segments.Part]) -> None:
    found.files += 1
    for part in parts:
        if isinstance(part, FrameSeen):
            found.frames += 1
            found.entries += len(part.frame)
            found.unchecked += 0 if part.digests_checked else len(part.frame)
        elif isinstance(part, Damage):
            found.damage.append(f"{name}, byte {part.offset}: {part.problem}")


def _arrivals(held: HeldFolders, last: Checkpoint, found: Findings, digests: Digests) -> None:
    """Read the arrival segments that a start would read; after a damaged one, read the others."""

    def damaged(error: DamagedLogError | OSError) -> None:
        found.damage.append(_damage(error))

    try:
        known = log_ends.load(held.data, last)
    except (DamagedLogError, OSError) as error:
        damaged(error)
        known = log_end.none_of(last.log_id)
    try:
        with chains.opened(held.journal, last, known, damaged) as chain:
            for link in chain.links:
                try:
                    _arrival(chain.files[link.name], link, last.log_id, found, digests)
                except OSError as error:
                    damaged(error)
    except OSError as error:
        damaged(error)


def _arrival(file: File, link: ChainLink, log_id: int, found: Findings, digests: Digests) -> None:
    """Read an arrival segment to its end; after a damaged batch, read the later good ones, too."""
    try:
        end = arrival_scan.scan(file.read, log_id, link, _nothing).offset
    except DamagedLogError as error:
        found.damage.append(_damage(error))
        end = file.size()
    found.size_bytes += end
    _count(found, link.name, _good_part(file, log_id, end, digests))


def _good_part(file: File, log_id: int, end: int, digests: Digests) -> Iterator[segments.Part]:
    for part in segments.arrival(file, log_id, digests):
        if isinstance(part, segments.BatchSeen | Damage) and part.offset >= end:
            return
        yield part


def _index(data: Path, held: HeldFolders, last: Checkpoint, found: Findings) -> None:
    """Bring the index up to date, and compare it with the tables."""
    try:
        with indexes.live(data) as index:
            storage.settle(index, last, held.ledgers)
        compared = indexes.rebuild(data, held, keep=False, told=_silent)
    except (DamagedLogError, OSError) as error:
        problem = _damage(error)
        found.damage.append(f"the index cannot be compared with the tables: {problem}")
    except ToolError as error:
        found.damage.append(str(error))
    else:
        if not compared.equal:
            found.damage.append(
                f"the index: {compared.problem}; `zonekeeper bookie rebuild-index` builds it again"
            )


def _damage(error: Exception) -> str:
    """Give the text of an error; raises it if it is a shortage, which is no damage."""
    if isinstance(error, OSError) and error.errno in SHORTAGES:
        raise error
    return f"it cannot be read: {error}" if isinstance(error, OSError) else str(error)


def _nothing(_: Scanned) -> None:
    """Do nothing: only the end of the good batches is wanted."""


def _silent(_: str) -> None:
    """Do nothing: the steps of a rebuild inside a scrub are not reported."""
