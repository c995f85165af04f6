"""The newcomers of a recovery: bookies that took entries before metadata names them.

A bookie that gets an empty disk goes into limbo for the ledgers that name it. A recovery's newcomer
is named only when the ledger is closed. If it was started again before, it may have an empty disk,
and deny what it acknowledged. So a newcomer counts only as long as it is in the start in which its
first lane was opened. The recovery asks for that before it closes the ledger: a newcomer that was
started again, or does not answer, ends the attempt. The closing may wait for the store after that.
So its transaction checks the newcomers' records, in which each start is counted: it is not applied
once one of them was started again.

The recovery asks once more afterwards. A newcomer whose empty disk was made before the closing, and
that was started after it, is in limbo for no ledger that only the closing names. Such a newcomer is
marked, so that its copy is looked at entry by entry. Not promised: if the recovering process dies
between the closing and the mark, nobody notices before the auditor looks at the copies. The same
holds if the store gives no answer for some time: for ``CANCELLED_S`` if the recovery is cancelled
then, for ``IN_DOUBT_S`` if the closing failed.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Final

from zonekeeper.client.base.errors import RecoveryFailed
from zonekeeper.client.bookies.bookies import Bookies
from zonekeeper.metadata.bookies import bookie_records
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.ledgers import underreplication
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.metadata.store.store import Check
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


class NewcomerLostError(RecoveryFailed):
    """A bookie that took entries for this recovery may have lost them: begin anew."""


async def checks(
    bookies: Bookies, ledger_id: LedgerId, starts: Mapping[BookieId, int]
) -> list[Check]:
    """Give what lets the closing pass only while the newcomers are in these starts.

    Raises ``NewcomerLostError`` if one of them is in another start by now.
    """
    found: list[Check | None] = []
    for bookie, start in starts.items():
        try:
            record = await bookie_records.read_checked(bookies.cluster, bookie)
        except UnreadableError:  # its version still tells whether it starts from now on
            found.append(await bookie_records.check(bookies.cluster, bookie))
            continue
        if record is not None and record.value.boot_epoch != start:
            raise lost(
                ledger_id, [f"{bookie} took entries in its start {start} and has begun another"]
            )
        found.append(None if record is None else record.check)
    return [check for check in found if check is not None]


def lost(ledger_id: LedgerId, why: Iterable[str]) -> NewcomerLostError:
    """Give the error of newcomers that may have lost what they took."""
    return NewcomerLostError(
        f"ledger {ledger_id}: {'; '.join(why)}: what it took may be lost; the ledger stays in "
        "recovery, try again"
    )


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
