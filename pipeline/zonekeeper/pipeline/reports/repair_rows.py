"""The rows of a repair: what is done, what is left and why, and what was copied. Pure.

They have the columns of the replica audit, because the repair ends with an audit of its own, whose
rows stand beside these. The finding of a ledger that is left is the trouble that keeps it, by the
name that replicators give it.
"""

from typing import Final

from zonekeeper.pipeline.reports import fault_rows
from zonekeeper.placement.base.ids import BookieId, LedgerId

#: The finding of a ledger that was marked when the job was planned, and that nothing is left of.
DONE: Final = "done"
#: The finding of a ledger that another process works on.
CLAIMED: Final = "claimed"
#: The finding of a ledger whose mark asks only for a better spread.
SPREAD: Final = "spread"
#: The finding of a row that says how much a task has copied.
COPIED: Final = "copied"
#: What is not left over.
HARMLESS: Final = (DONE, SPREAD, COPIED, fault_rows.READ)
#: What is a sum, and not about one ledger.
SUMS: Final = (COPIED, fault_rows.READ)


def of_done(ledger_id: LedgerId) -> tuple[object, ...]:
    """Give the row of a ledger of whose mark nothing is left."""
    return _row(ledger_id, DONE)


def of_spread(ledger_id: LedgerId) -> tuple[object, ...]:
    """Give the row of a ledger that has all its copies."""
    text = "it has its copies; autorecovery spreads it better when nothing else is to be done"
    return _row(ledger_id, SPREAD, error=text)


def of_claimed(ledger_id: LedgerId) -> tuple[object, ...]:
    """Give the row of a ledger that is left to another process."""
    return _row(ledger_id, CLAIMED, error="another process works on it, and goes on with it")


def of_obstacle(
    ledger_id: LedgerId, bookie: BookieId | None, trouble: str, text: str
) -> tuple[object, ...]:
    """Give the row of one bookie whose copy is not repaired; None: it is about the ledger."""
    return _row(ledger_id, trouble, bookie=bookie, error=" ".join(text.split()))


def of_copied(ledgers: int, size_bytes: int) -> tuple[object, ...]:
    """Give the row that says how many ledgers were repaired, and what was copied for them."""
    return (*[None] * 3, COPIED, *[None] * 6, ledgers, size_bytes)


def _row(
    ledger_id: LedgerId, finding: str, *, bookie: BookieId | None = None, error: str | None = None
) -> tuple[object, ...]:
    return (ledger_id, None, bookie, finding, *[None] * 5, error, None, None)
