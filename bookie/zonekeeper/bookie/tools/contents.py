"""The content of a bookie's disks, read like a start would read it, but without a change.

A start begins a new generation, writes again batches that may not be on the disk, and removes
unfinished segments. This module does none of that.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from zonekeeper.bookie.disk.files import FileSystem
from zonekeeper.bookie.formats import arrival_scan
from zonekeeper.bookie.formats.batch_format import Position
from zonekeeper.bookie.formats.checkpoint_format import Checkpoint
from zonekeeper.bookie.formats.index import Index
from zonekeeper.bookie.formats.log_end import LogEnd
from zonekeeper.bookie.ledgers.admission import AdmissionState
from zonekeeper.bookie.ledgers.extents import joined
from zonekeeper.bookie.storage.memory import Memory
from zonekeeper.bookie.tools import chains
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.formats import entries


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalFile:
    """A file of an arrival segment."""

    name: str
    size_bytes: int
    #: None: the file has no batch that is still needed.
    generation: int | None
    #: The offset at which its good batches end.
    used_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """All content of a bookie's disks."""

    checkpoint: Checkpoint
    memory: Memory
    arrivals: tuple[ArrivalFile, ...]
    #: The last good batch.
    end: Position


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerSummary:
    """The state and the entries of a ledger, in numbers."""

    ledger_id: LedgerId
    state: AdmissionState
    lac: EntryId
    #: The number of maximal runs of entries.
    runs: int
    entries: int
    first: EntryId | None
    last: EntryId | None


def load(last: Checkpoint, known: LogEnd, arrival_files: FileSystem, index: Index) -> Contents:
    """Read everything; raises ``DamagedLogError`` or ``OSError``.

    The caller has brought the index up to date.
    """
    memory = Memory(index, last)
    with chains.opened(arrival_files, last, known) as chain:
        ends = {
            link.name: arrival_scan.scan(
                chain.files[link.name].read, last.log_id, link, memory.replay
            )
            for link in chain.links
        }
        found = tuple(
            ArrivalFile(
                name=name,
                size_bytes=file.size(),
                generation=ends[name].position.generation if name in ends else None,
                used_bytes=ends[name].offset if name in ends else 0,
            )
            for name, file in sorted(chain.files.items())
        )
    memory.restarted()
    end = max((each.position for each in ends.values()), default=last.mark)
    return Contents(checkpoint=last, memory=memory, arrivals=found, end=end)


def ledgers(contents: Contents) -> Iterator[LedgerSummary]:
    """Give all ledgers with a record or an entry here, by their ids."""
    for ledger_id, ledger in sorted(contents.memory.ledgers.items()):
        if not ledger.known:
            continue
        count, runs = 0, 0
        first: EntryId | None = None
        last: EntryId | None = None
        for low, high in joined(ledger.extents.between(0, entries.ID_END - 1)):
            first, last = low if first is None else first, high
            count, runs = count + high - low + 1, runs + 1
        yield LedgerSummary(
            ledger_id=ledger_id,
            state=ledger.durable,
            lac=ledger.confirmed,
            runs=runs,
            entries=count,
            first=first,
            last=last,
        )
