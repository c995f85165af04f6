"""Try a step again while what is in its way may pass, within a limit of time."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from zonekeeper.client.base import errors as client_errors
from zonekeeper.log.sessions.pausing import GrowingPause
from zonekeeper.placement.base.troubles import Trouble

#: A step that nothing lets through for so long fails with the last error.
LIMIT_S: Final = 120.0

Result = TypeVar("Result")

_logger = logging.getLogger(__name__)


async def until_done(
    step: Callable[[], Awaitable[Result]], log: str, limit_s: float = LIMIT_S
) -> Result:
    """Do a step, again and again while its error says that it may succeed later.

    A step that writes ledgers of its own may also be done again when its writer was stopped.
    """
    loop, pause = asyncio.get_running_loop(), GrowingPause()
    end_s = loop.time() + limit_s
    while True:
        try:
            return await step()
        except Trouble as error:
            again = error.retryable or isinstance(error, client_errors.WriterStopped)
            if not again or loop.time() + pause.next_s >= end_s:
                raise
            _logger.warning("log %s: a step for a query is done again: %s", log, error)
        await pause.wait()
