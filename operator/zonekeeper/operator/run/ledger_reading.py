"""Reads all ledgers beside the turns, for the gate ``ledgerAtRisk``.

A listing of many ledgers takes long. So it is a task of its own: turns go on meanwhile, and tell
that the ledgers are being read. A listing is of one basis (``observing.basis_of``). Where a turn
sees another basis, the listing is given up, and a new one begins when it is wanted.
"""

import asyncio
import logging
from collections.abc import Hashable
from contextlib import aclosing
from typing import Final

from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.ledgers.ledgers import StoredLedger
from zonekeeper.operator.roots.followed import Spawn
from zonekeeper.operator.sight.ledger_sight import FragmentKinds, LedgerSight
from zonekeeper.placement.base.troubles import Trouble
from zonekeeper.replication.view import listing

#: A listing is read anew after this time, and after so many times the time that it took.
ANEW_AFTER_MS: Final = 60_000
ANEW_AFTER_TIMES: Final = 10

_logger = logging.getLogger(__name__)


class LedgerReading:
    """The listings of one cluster's ledgers; at most one runs."""

    def __init__(self, spawn: Spawn) -> None:
        self._spawn = spawn
        self._basis: Hashable = None
        self._task: asyncio.Task[FragmentKinds | None] | None = None
        self._begun_ms = 0
        #: What the last listing of this basis saw that is complete, and when it was.
        self._sight: LedgerSight | None = None
        self._complete_ms = 0

    def want(self, cluster: Cluster, basis: Hashable, *, now_ms: int) -> LedgerSight | None:
        """Give what a listing of this basis has seen; None: it is not complete yet.

        A listing that has failed begins again. One that is old is read anew, because ledgers may
        have been deleted or repaired meanwhile, and counts until then.
        """
        if basis != self._basis:
            self.give_up()
            self._basis = basis
        self._take(now_ms)
        if self._task is None and self._is_due(now_ms):
            self._begun_ms = now_ms
            self._task = self._spawn(_read(cluster))
        return self._sight

    def give_up(self) -> None:
        """End the listing and forget what it saw."""
        if self._task is not None:
            self._task.cancel()
        self._task = self._sight = self._basis = None

    async def wait(self) -> None:
        """Wait until the listing is complete or has failed, if one runs."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def _take(self, now_ms: int) -> None:
        """Take over what the listing saw, if it has ended."""
        task = self._task
        if task is None or not task.done():
            return
        self._task = None
        kinds = None if task.cancelled() else task.result()
        if kinds is not None:
            self._sight = LedgerSight(basis=self._basis, kinds=kinds)
            self._complete_ms = now_ms

    def _is_due(self, now_ms: int) -> bool:
        if self._sight is None:
            return True
        took_ms = self._complete_ms - self._begun_ms
        return now_ms - self._complete_ms >= max(ANEW_AFTER_MS, ANEW_AFTER_TIMES * took_ms)


async def _read(cluster: Cluster) -> FragmentKinds | None:
    """Read all ledgers; None: it has failed, and the log says why."""
    kinds = FragmentKinds()
    try:
        async with aclosing(listing.walk(cluster)) as listed:
            async for one in listed:
                if isinstance(one, StoredLedger):
                    kinds.add(one.id, one.metadata)
                else:
                    kinds.add_unreadable(one.id)
    except Trouble as error:
        _logger.warning("the listing of the ledgers has failed: %s", error)
        return None
    return kinds
