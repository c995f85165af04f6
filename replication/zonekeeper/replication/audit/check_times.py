"""When a periodic check is due: Apache's nodes keep its last time, also for the next auditor."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, TypeAlias

from zonekeeper.metadata.cluster import repair_controls
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.repair_controls import PeriodicCheck
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.placement.base.units import MINUTE_MS
from zonekeeper.placement.policy.rules import CheckIntervals
from zonekeeper.replication.view import listing
from zonekeeper.replication.view.view import View

#: Takes the interval of one check, in milliseconds, from the policy's intervals.
Interval: TypeAlias = Callable[[CheckIntervals], int]

#: At most this long passes between two looks whether a check is due: the policy may change.
_LOOKED_UP_EVERY_MS: Final = MINUTE_MS

_logger = logging.getLogger(__name__)


class CheckTimes:
    """Says when each check is due, and notes when it was made."""

    def __init__(self, cluster: Cluster, view: View, wall_ms: Callable[[], int]) -> None:
        self._cluster = cluster
        self._view = view
        self._wall_ms = wall_ms

    async def until_due(self, check: PeriodicCheck, interval_ms: Interval) -> None:
        """Wait until a check is due."""
        while True:
            due_in_ms = await self.due_in_ms(check, interval_ms)
            if due_in_ms == 0:
                return
            await asyncio.sleep(min(due_in_ms, _LOOKED_UP_EVERY_MS) / 1_000)

    async def due_in_ms(self, check: PeriodicCheck, interval_ms: Interval) -> int:
        """Say how long it is until a check is due: its interval after its last time; 0: now."""
        every_ms = interval_ms(self._view.policy.repair.checks)
        last_ms = await self._last(check)
        # A last time in the future was written by another clock, and proves nothing.
        since_ms = None if last_ms is None else self._wall_ms() - last_ms
        if since_ms is None or not 0 <= since_ms < every_ms:
            return 0
        return every_ms - since_ms

    async def note(self, check: PeriodicCheck, wall_ms: int) -> None:
        """Write the last time of a check that is done: ``wall_ms`` is when it began."""
        await listing.until_done(
            lambda: repair_controls.write_check_time_ms(self._cluster, check, wall_ms),
            f"writing {check.value}",
        )

    async def _last(self, check: PeriodicCheck) -> int | None:
        try:
            return await listing.until_done(
                lambda: repair_controls.read_check_time_ms(self._cluster, check),
                f"reading {check.value}",
            )
        except UnreadableError as error:
            _logger.warning("the check is made anew: %s", error)
            return None
