"""All ledgers, read to the end whatever the store does meanwhile.

A listing of a million ledgers takes minutes. A store that is out of reach for a moment does not
start it again: the walk goes on behind the last ledger that it gave. It gives each ledger at most
once, in ascending order, and gives every ledger that existed all the time. Nothing that it shows is
older than its begin, though it may read from a follower that is behind.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Final, TypeVar

from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.ledger_paths import LEDGER_ID_MAX
from zonekeeper.metadata.ledgers import ledger_listing
from zonekeeper.metadata.ledgers.ledger_listing import Listed
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.placement.base.ids import LedgerId

Result = TypeVar("Result")

RETRY_DELAY_MS: Final = 1_000

_FIRST: Final = LedgerId(0)
_LAST: Final = LedgerId(LEDGER_ID_MAX)

_logger = logging.getLogger(__name__)


async def walk(
    cluster: Cluster, *, first: LedgerId = _FIRST, last: LedgerId = _LAST
) -> AsyncGenerator[Listed, None]:
    """List the ledgers from ``first`` to ``last``; waits while the store cannot be reached."""
    while first <= last:
        try:
            # After a read that is in step with the store no later read shows an older state.
            await cluster.store.exists(cluster.root.path, sync=True)
            async with aclosing(ledger_listing.all_of(cluster, first=first, last=last)) as listed:
                async for one in listed:
                    first = LedgerId(one.id + 1)
                    yield one
        except StoreError as error:
            await pause(error, f"the listing from ledger {first} on")
        else:
            return


async def until_done(work: Callable[[], Awaitable[Result]], what: str) -> Result:
    """Repeat work until the store has answered it; raises an error that no retry can cure.

    The work must be such that it may be done twice.
    """
    again = False
    while True:
        try:
            return await work()
        except StoreError as error:
            await pause(error, what, again=again)
            again = True


async def pause(error: StoreError, what: str, *, again: bool = False) -> None:
    """Wait before the next attempt; raises the error if another one is of no use.

    The log has a warning for the first failure of the work, not for those that come ``again``.
    """
    if not (error.retryable or error.maybe_applied):
        raise error
    level = logging.DEBUG if again else logging.WARNING
    _logger.log(level, "%s: tried again in %d ms: %s", what, RETRY_DELAY_MS, error)
    await asyncio.sleep(RETRY_DELAY_MS / 1_000)
