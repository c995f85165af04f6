"""The lines that a client logs of the ledgers that it writes: each event once, when it happens.

An application that sets up logging for ``zonekeeper`` sees them; the library sets up nothing.
"""

import logging

from zonekeeper.client.bookies.bookies import Bookies
from zonekeeper.metadata.formats.ledger_metadata import Fragment
from zonekeeper.placement.base.ids import LedgerId

_logger = logging.getLogger(__name__)


def ensemble_changed(
    ledger_id: LedgerId, before: Fragment, after: Fragment, bookies: Bookies
) -> None:
    """Log which bookies were replaced by which, from which entry on, and why."""
    pairs = [
        (was, now) for was, now in zip(before.ensemble, after.ensemble, strict=True) if was != now
    ]
    if not pairs:
        return
    replaced = ", ".join(
        f"{was} by {now} ({bookies.why_suspect(was) or 'it failed'})" for was, now in pairs
    )
    _logger.info(
        "ledger %d: ensemble change at entry %d: replaced %s",
        ledger_id,
        after.first_entry,
        replaced,
        extra={
            "ledger": ledger_id,
            "entry": after.first_entry,
            "left": [was for was, _ in pairs],
            "joined": [now for _, now in pairs],
        },
    )


def writer_stopped(ledger_id: LedgerId, why: Exception) -> None:
    """Log that a writer ended against its will: it was fenced, or lost its quorum."""
    _logger.warning(
        "ledger %d: its writer stopped: %s: %s",
        ledger_id,
        type(why).__name__,
        why,
        extra={"ledger": ledger_id, "trouble": type(why).__name__},
    )
