"""The rows of the replica audit: one for each range of entries with a fault on a bookie. Pure."""

from typing import Final

from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.replication.decisions.fault_ranges import FaultRange

#: The columns of what was found, in Spark's notation.
FOUND: Final = (
    "ledger bigint, fragment bigint, bookie string, finding string, first bigint, last bigint, "
    "step bigint, entries bigint, same int, error string"
)
#: With what was read; only rows whose finding is ``READ`` have it, and no ledger.
COLUMNS: Final = f"{FOUND}, ledgers bigint, bytes bigint"

#: The finding of a row that says how much a task has read of a range of ids.
READ: Final = "read"
#: The finding about a ledger whose metadata cannot be read.
NO_METADATA: Final = "unreadable metadata"
#: The finding about the rest of a ledger that has too many faults.
NOT_READ: Final = "not read"


def of_fault(ledger_id: LedgerId, fragment: EntryId, found: FaultRange) -> tuple[object, ...]:
    """Give the row of a range."""
    entries = found.entries
    return (
        *(ledger_id, fragment, found.bookie, str(found.fault)),
        *(entries[0], entries[-1], entries.step, len(entries)),
        *(found.same, None, None, None),
    )


def of_unreadable(ledger_id: LedgerId, error: Exception) -> tuple[object, ...]:
    """Give the row of a ledger whose metadata cannot be read."""
    text = " ".join(str(error).split())
    return (ledger_id, None, None, NO_METADATA, *[None] * 5, text, None, None)


def of_reading(ledgers: int, entries: int, size_bytes: int) -> tuple[object, ...]:
    """Give the row that says how much was read."""
    return (*[None] * 3, READ, *[None] * 3, entries, None, None, ledgers, size_bytes)


def of_too_many(ledger_id: LedgerId, fragment: EntryId, last: EntryId) -> tuple[object, ...]:
    """Give the row of a ledger of which no more is read than the window that ends at ``last``."""
    text = f"too many ranges of this ledger have faults: it was read up to entry {last}"
    return (ledger_id, fragment, None, NOT_READ, *[None] * 5, text, None, None)
