"""Marking ledgers for the auditor: each mark is tried until the store answers.

A mark that cannot be read is reported, and left as it is; it does not stop the others. An error of
the store that no retry can cure is raised. Before each attempt the auditor asks again whether the
mark is wanted: the store's outage may be that of a zone, and what was permitted before the outage
may be held after it.
"""

import logging
from collections.abc import Callable, Collection

from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.ledgers import underreplication
from zonekeeper.metadata.store.store import Check
from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.replication.audit.auditor_metrics import AuditorMetrics
from zonekeeper.replication.view import listing

_logger = logging.getLogger(__name__)


class Marker:
    """Makes marks and takes them back."""

    def __init__(
        self, cluster: Cluster, metrics: AuditorMetrics, wall_ms: Callable[[], int]
    ) -> None:
        self._cluster = cluster
        self._metrics = metrics
        self._wall_ms = wall_ms

    async def mark(
        self, ledger_id: LedgerId, wanted: Callable[[], Collection[BookieId] | None]
    ) -> bool:
        """Mark a ledger for the bookies that ``wanted`` gives; it is called for each attempt.

        An empty collection marks the ledger for respreading. None: nothing is marked. The result is
        False if nothing was marked, or the present mark cannot be read.
        """
        try:
            return await listing.until_done(
                lambda: self._attempt(ledger_id, wanted()), f"marking ledger {ledger_id}"
            )
        except UnreadableError as error:
            self._report(error)
            return False

    async def _attempt(self, ledger_id: LedgerId, replicas: Collection[BookieId] | None) -> bool:
        if replicas is None:
            return False
        await underreplication.mark(self._cluster, ledger_id, replicas, at_ms=self._wall_ms())
        return True

    async def unmark(
        self, ledger_id: LedgerId, returned: Collection[BookieId], checks: Collection[Check]
    ) -> bool:
        """Take bookies off a ledger's mark.

        False: the mark is claimed, or cannot be read, or one of ``checks`` does not hold.
        """
        try:
            return await listing.until_done(
                lambda: underreplication.unmark(self._cluster, ledger_id, returned, checks),
                f"taking back the mark of ledger {ledger_id}",
            )
        except UnreadableError as error:
            self._report(error)
            return False

    def _report(self, error: UnreadableError) -> None:
        self._metrics.unreadable_marks_total += 1
        _logger.warning("%s", error)
