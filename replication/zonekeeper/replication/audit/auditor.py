"""The auditor: one elected process finds lost copies, and marks their ledgers for the replicators.

``auditor_term`` carries out what ``auditing`` decides. Two auditors may lead for a moment: what
both write is the same, or adds to what is there. So a term may be cut off anywhere, and the next
term begins with nothing but what stands in the store.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import TypeAlias

from zonekeeper.client.api.client import Surroundings
from zonekeeper.client.bookies.link_pool import LinkPool
from zonekeeper.metadata.cluster import elections
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.store.background import alongside, together
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.replication.audit.auditor_metrics import AuditorMetrics
from zonekeeper.replication.audit.auditor_term import Term
from zonekeeper.replication.view.alerts import Chronicle
from zonekeeper.replication.view.view import View

Duty: TypeAlias = Callable[[Chronicle], Coroutine[None, None, None]]

_logger = logging.getLogger(__name__)


class Auditor:
    """One candidate for the auditor."""

    def __init__(
        self,
        cluster: Cluster,
        view: View,
        pool: LinkPool,
        *,
        name: BookieId,
        surroundings: Surroundings,
        duties: Sequence[Duty] = (),
    ) -> None:
        """``duties`` are the other work of the process that leads; each runs until cancelled."""
        #: Of all terms. The end of a term clears the numbers that say how it is now.
        self.metrics = AuditorMetrics()
        self._cluster = cluster
        self._view = view
        self._pool = pool
        self._name = name
        self._surroundings = surroundings
        self._duties = duties

    async def run(self) -> None:
        """Stand for election, and audit while elected; until cancelled."""
        store, votes = self._cluster.store, elections.auditor_votes(self._cluster)
        async with elections.stand(store, votes, self._name) as states, alongside() as group:
            term: asyncio.Task[None] | None = None
            try:
                async for leadership in states:
                    if term is not None:
                        term.cancel()
                        await asyncio.wait([term])
                    term = None if leadership is None else group.create_task(self._lead())
            finally:
                if term is not None:
                    term.cancel()

    async def _lead(self) -> None:
        await self._view.known()
        self.metrics.leading = 1
        _logger.info("%s is the auditor now", self._name, extra={"role": "auditor"})
        chance, wall_ms = self._surroundings.chance, self._surroundings.wall_ms
        chronicle = Chronicle(self._cluster, by=self._name, chance=chance, wall_ms=wall_ms)
        term = Term(
            self._cluster,
            self._view,
            self._pool,
            self.metrics,
            chronicle,
            self._surroundings,
        )
        try:
            await together([term.run(), *(duty(chronicle) for duty in self._duties)])
        finally:
            _logger.info("%s is not the auditor any more", self._name, extra={"role": "auditor"})
            self.metrics.end_term()
