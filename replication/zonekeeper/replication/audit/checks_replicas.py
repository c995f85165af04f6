"""The replicas check: every entry of every finished fragment, on each bookie of its write set.

It finds what membership does not show: damaged bytes, a hole in the middle of a ledger, and entries
that others acknowledged while a bookie was away for a moment. A bookie whose copy is doubted is
marked for that ledger. Such a bookie is registered, so the replicator looks at the copy before it
repairs. The check skips bookies that are not registered: their loss is the auditor's main work.
While anything is held anywhere, the check reads and marks nothing: an outage is no time for more
load.
"""

import logging
from contextlib import aclosing
from dataclasses import replace
from typing import Final

from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.ledgers import ledgers
from zonekeeper.metadata.ledgers.ledgers import StoredLedger
from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.replication.audit import check_progress
from zonekeeper.replication.audit.auditor_metrics import AuditorMetrics
from zonekeeper.replication.audit.check_progress import CheckProgress, Progressing
from zonekeeper.replication.audit.marking import Marker
from zonekeeper.replication.audit.replica_reading import ReplicaReader
from zonekeeper.replication.view import listing
from zonekeeper.replication.view.view import View

#: The check's progress is written after every so many ledgers.
NOTED_EVERY: Final = 100

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

    async def begun(self) -> CheckProgress | None:
        """Read where a check that is under way goes on; None: none is under way."""
        return await listing.until_done(
            lambda: check_progress.read(self._cluster, Progressing.REPLICAS),
            "reading how far the replicas check is",
        )

    async def run(self, progress: CheckProgress) -> None:
        """Check all ledgers from ``progress.next_ledger`` on; write the progress now and then."""
        checked = 0
        async with aclosing(listing.walk(self._cluster, first=progress.next_ledger)) as every:
            async for listed in every:
                if isinstance(listed, StoredLedger):
                    await self.check(listed)
                checked += 1
                if checked % NOTED_EVERY == 0:
                    following = LedgerId(listed.id + 1)
                    await self._note(replace(progress, next_ledger=following))

    async def end(self) -> None:
        """Note that no check is under way."""
        await self._note(None)

    async def check(self, ledger: StoredLedger) -> None:
        """Check one ledger, and mark it for the bookies whose copies are doubted."""
        doubted = await self._reader.verify(ledger, self._nothing_held)
        if not doubted:
            return
        await self._nothing_held()
        # A bookie that the ledger does not name any more, or that is not registered any more, is
        # not marked by this check.
        now = await self._read_again(ledger.id)
        named = frozenset[BookieId]() if now is None else now.metadata.bookies
        marked = sorted(one for one in doubted if one in named and self._reader.registered(one))
        if not marked:
            return
        for bookie in marked:
            entry_id, lack = doubted[bookie]
            _logger.warning("ledger %d: entry %d %s on %s", ledger.id, entry_id, lack.value, bookie)
        if await self._marker.mark(ledger.id, lambda: marked):
            self._metrics.doubted_total += 1

    async def _note(self, progress: CheckProgress | None) -> None:
        try:
            await listing.until_done(
                lambda: check_progress.write(self._cluster, Progressing.REPLICAS, progress),
                "noting how far the replicas check is",
            )
        except UnreadableError as error:
            _logger.warning("how far the replicas check is cannot be noted: %s", error)

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
        """Wait until nothing is held anywhere."""
        while self._view.what_holds(None) is not None:
            await self._view.changed(self._view.looks)
