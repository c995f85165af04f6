"""The ranges of entries that the tasks of a read take.

The ranges are consecutive, and their lengths differ by at most one. Together they are exactly the
requested range: no entry twice, none left out.
"""

from itertools import pairwise
from typing import Final

from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
from zonekeeper.pipeline.reading.options import PARTITIONS_MAX, ReadOptions
from zonekeeper.placement.base.troubles import Refusal

#: One task reads about this many bytes, unless the number of tasks is given.
PARTITION_BYTES_AIM: Final = 64 << 20


class NotReadable(Refusal):
    """The ledger cannot be read as requested; nothing was done to it."""


def plan(ledger: LedgerMetadata, options: ReadOptions) -> list[range]:
    """Cut the requested entries of a ledger into ranges, at least one; raises ``NotReadable``."""
    if not ledger.is_closed:
        raise NotReadable(
            f"ledger {options.ledger} is {ledger.state.value}: only a closed ledger is read, "
            "because only its end is known for good. Close its writer; or, if the writer is gone "
            f"for good, close the ledger with zonekeeper.client: client.open({options.ledger}, "
            "recover=True) recovers it, and fences a writer that lives after all"
        )
    wanted = _wanted(ledger, options)
    count = options.partitions or _count_by_size(ledger, len(wanted))
    return _cut(wanted, max(1, min(count, len(wanted))))


def _wanted(ledger: LedgerMetadata, options: ReadOptions) -> range:
    """Give the requested entries; ``0 <= first <= end + 1``, where ``end`` is the last entry."""
    end = ledger.last_entry
    beyond = options.last if options.last is not None and options.last > end else None
    if beyond is None and options.first > end + 1:
        beyond = options.first
    if beyond is not None:
        last = f"its last entry is {end}" if end >= 0 else "it has no entries"
        raise NotReadable(
            f"ledger {options.ledger} is closed, and {last}: there is no entry {beyond}; "
            "give another first and last, or leave them out"
        )
    return range(options.first, (end if options.last is None else options.last) + 1)


def _count_by_size(ledger: LedgerMetadata, wanted: int) -> int:
    """Give the number of ranges of the aimed size, as if all entries had one size."""
    size_bytes = ledger.length * wanted // (ledger.last_entry + 1) if wanted else 0
    return min(-(-size_bytes // PARTITION_BYTES_AIM), PARTITIONS_MAX)


def _cut(wanted: range, count: int) -> list[range]:
    ends = [len(wanted) * at // count for at in range(count + 1)]
    return [wanted[low:high] for low, high in pairwise(ends)]
