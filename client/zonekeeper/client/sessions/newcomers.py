"""The newcomers of a recovery: bookies that took entries before metadata names them.

A bookie that gets an empty disk goes into limbo for the ledgers that name it. A recovery's newcomer
is named only when the ledger is closed. If it was started again before, it may have an empty disk,
and deny what it acknowledged. So a newcomer counts only as long as it is in the start in which its
first lane was opened. The recovery asks for that before it closes the ledger: a newcomer that was
started again, or does not answer, ends the attempt. It asks once more afterwards, because the disk
may be lost between the two. Such a newcomer is marked, so that its copy is looked at entry by
entry. Not promised: if the recovering process dies between the closing and the mark, nobody notices
before the auditor looks at the copies. The same holds if the store gives no answer for some time:
for ``CANCELLED_S`` if the recovery is cancelled then, for ``IN_DOUBT_S`` if the closing failed.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final

from zonekeeper.client.bookies.bookies import Bookies
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.ledgers import underreplication
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.wire.formats import errors

#: The time of a newcomer's mark: before each loss, so that only a look at the copy takes it off.
_UNTIMED_MS: Final = 0
_MARKS_TRIED_MAX: Final = 30
_MARK_AGAIN_S: Final = 1.0
#: A recovery that is cancelled while it closes the ledger looks no longer than this. Its caller may
#: hold a claim, or must end soon.
CANCELLED_S: Final = 5.0
#: A recovery whose closing failed looks no longer than this: its caller waits for the error.
IN_DOUBT_S: Final = 30.0

_logger = logging.getLogger(__name__)


async def started_again(bookies: Bookies, starts: Mapping[BookieId, int]) -> dict[BookieId, str]:
    """Give the bookies that are not known to be in these starts any more, and why."""
    found: dict[BookieId, str] = {}
    for bookie, start in starts.items():
        try:
            now = (await (await bookies.pool.link(bookie)).info()).boot_epoch
        except errors.ProtocolError as error:
            bookies.suspect(bookie, error)
            found[bookie] = f"{bookie} does not say whether it was started again: {error}"
        else:
            if now != start:
                found[bookie] = f"{bookie} took entries in its start {start} and is in {now} now"
    return found


async def look_again(
    bookies: Bookies,
    ledger_id: LedgerId,
    starts: Mapping[BookieId, int],
    *,
    within_s: float | None = None,
) -> None:
    """Mark the bookies that are not in these starts any more; metadata may name them now.

    With ``within_s`` it gives up after this time.
    """
    try:
        async with asyncio.timeout(within_s):
            await _look_again(bookies, ledger_id, starts)
    except TimeoutError:
        names = ", ".join(starts)
        _logger.warning(
            "ledger %d: %s may lack what they took, and could not be marked in time",
            ledger_id,
            names,
        )


async def _look_again(
    bookies: Bookies, ledger_id: LedgerId, starts: Mapping[BookieId, int]
) -> None:
    doubted = await started_again(bookies, starts)
    if not doubted:
        return
    said = f"ledger {ledger_id}: its copies are to be looked at: {'; '.join(doubted.values())}"
    _logger.warning("%s", said)
    for tries_left in reversed(range(_MARKS_TRIED_MAX)):
        try:
            # A mark that the ledger has already keeps its own time.
            await underreplication.mark(bookies.cluster, ledger_id, [*doubted], at_ms=_UNTIMED_MS)
        except (StoreError, UnreadableError) as error:
            if isinstance(error, UnreadableError) or not (error.retryable and tries_left):
                _logger.warning("%s; they could not be marked: %s", said, error)
                return
            await asyncio.sleep(_MARK_AGAIN_S)
        else:
            return
