"""The replicas check: every entry of every finished fragment, on each bookie of its write set.

It finds what no membership shows: bits that rotted, a hole in the middle, and what was acknowledged
by the others while a bookie was away for a moment. A bookie whose copy is doubted is marked for
that ledger; it is there, so the replicator looks before it believes. Whoever is not registered is
passed over: that loss is the auditor's main work. Nothing is read or marked while anything is held
anywhere: an outage is no time for more load.
"""

import logging
from collections.abc import Awaitable, Callable

from zonekeeper.metadata import ledgers
from zonekeeper.metadata.cluster import Cluster
from zonekeeper.metadata.ledgers import StoredLedger
from zonekeeper.metadata.malformed import UnreadableError
from zonekeeper.placement.ids import BookieId, LedgerId
from zonekeeper.replication import listing
from zonekeeper.replication.auditor_metrics import AuditorMetrics
from zonekeeper.replication.marking import Marker
from zonekeeper.replication.replica_reading import ReplicaReader
from zonekeeper.replication.view import View

_logger = logging.getLogger(__name__)


class ReplicasCheck:
    """Checks ledgers, one after the other."""

    def __init__(
        self,
        cluster: Cluster,
        view: View,
        reader: ReplicaReader,
        marker: Marker,
        metrics: AuditorMetrics,
    ) -> None:
        self._cluster = cluster
        self._view = view
        self._reader = reader
        self._marker = marker
        self._metrics = metrics

    async def run(self, first: LedgerId, passed: Callable[[LedgerId], Awaitable[None]]) -> None:
        """Check all ledgers from ``first`` on; ``passed`` is told each one that is done."""
        async for listed in listing.walk(self._cluster, first=first):
            if isinstance(listed, StoredLedger):
                await self.check(listed)
            await passed(listed.id)

    async def check(self, ledger: StoredLedger) -> None:
        """Check one ledger, and mark it for whoever's copy is doubted."""
        doubted = await self._reader.verify(ledger, self._nothing_held)
        if not doubted:
            return
        await self._nothing_held()
        # Who was replaced meanwhile, or is lost by now, is not this check's business any more.
        now = await self._read_again(ledger.id)
        named = frozenset[BookieId]() if now is None else now.metadata.bookies
        marked = sorted(one for one in doubted if one in named and self._reader.registered(one))
        if not marked:
            return
        for bookie in marked:
            entry_id, lack = doubted[bookie]
            _logger.warning("ledger %d: entry %d %s on %s", ledger.id, entry_id, lack.value, bookie)
        if await self._marker.mark(ledger.id, marked):
            self._metrics.doubted_total += 1

    async def _read_again(self, ledger_id: LedgerId) -> StoredLedger | None:
        try:
            return await listing.until_done(
                lambda: ledgers.read(self._cluster, ledger_id, sync=True),
                f"reading ledger {ledger_id}",
            )
        except UnreadableError as error:
            _logger.warning("%s", error)
            return None

    async def _nothing_held(self) -> None:
        """Wait until nothing at all is held."""
        while self._view.what_holds(None) is not None:
            await self._view.changed(self._view.looks)
