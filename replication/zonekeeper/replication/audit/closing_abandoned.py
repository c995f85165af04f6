"""Closes ledgers whose writers are gone, where the owner of the cluster wants that.

It is a duty of the process that is the auditor, and does nothing while ``repair.abandonedAfter`` is
0. What is abandoned is decided in ``abandonment``. To close a ledger is to recover it, as anyone
who opens it does: each acknowledged entry stays, and the writer is fenced if it lives after all.

Nothing is closed while anything is held, or the metadata was set back: an old state of the store
may show a ledger as open that was closed. That time counts, and what is due is closed after it.
"""

import asyncio
import logging
from typing import Final

from zonekeeper.client.api.client import Client
from zonekeeper.client.base import errors
from zonekeeper.metadata.cluster import restored
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.ledgers import presences
from zonekeeper.metadata.ledgers.ledgers import StoredLedger
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.placement.base.units import MINUTE_MS, duration_text
from zonekeeper.replication.audit.auditor_metrics import AuditorMetrics
from zonekeeper.replication.decisions.abandonment import Abandonment
from zonekeeper.replication.view import listing
from zonekeeper.replication.view.alerts import Chronicle
from zonekeeper.replication.view.view import View

LOOK_EVERY_MS: Final = MINUTE_MS
#: An event names at most so many ledgers.
_NAMED_MAX: Final = 20

_logger = logging.getLogger(__name__)


class AbandonedCloser:
    """Closes abandoned ledgers, one after the other."""

    def __init__(self, client: Client, view: View, metrics: AuditorMetrics) -> None:
        self._client = client
        self._cluster = client.cluster
        self._view = view
        self._metrics = metrics
        self._loop = asyncio.get_running_loop()
        self._known = Abandonment()
        #: Ledgers from this id on were not listed yet.
        self._following = LedgerId(0)
        self._listed_ms: int | None = None

    async def run(self, chronicle: Chronicle) -> None:
        """Look every minute, until cancelled."""
        while True:
            after_ms = self._view.policy.repair.abandoned_after_ms
            if not after_ms:
                self._known, self._listed_ms = Abandonment(), None
            else:
                try:
                    await self._look(after_ms, chronicle)
                except StoreError as error:
                    await listing.pause(error, "looking for ledgers without a writer")
            await asyncio.sleep(LOOK_EVERY_MS / 1_000)

    async def _look(self, after_ms: int, chronicle: Chronicle) -> None:
        await self._list()
        gone = await presences.missing(self._cluster, self._known.presences)
        self._known.looked(gone, self._now_ms())
        due = list(self._known.due(after_ms))
        self._metrics.abandoned_ledgers = len(due)
        closed = [ledger_id for ledger_id, name in due if await self._close(ledger_id, name)]
        if closed:
            named = ", ".join(map(str, closed[:_NAMED_MAX]))
            more = f" and {len(closed) - _NAMED_MAX} more" if len(closed) > _NAMED_MAX else ""
            await chronicle.write(
                "closed",
                "cluster",
                f"ledgers were closed: {named}{more}; the processes that wrote them have had no "
                f"session for {duration_text(after_ms)}",
            )

    async def _list(self) -> None:
        """Add the ledgers that are new since the last look; now and then read all of them anew."""
        now_ms, every_ms = self._now_ms(), self._view.policy.repair.checks.bookies_ms
        known, following = self._known, self._following
        if self._listed_ms is None or now_ms - self._listed_ms >= every_ms:
            known, following, self._listed_ms = self._known.anew(), LedgerId(0), now_ms
        async for listed in listing.walk(self._cluster, first=following):
            following = LedgerId(listed.id + 1)
            if isinstance(listed, StoredLedger) and not listed.metadata.is_closed:
                name = presences.name_in(listed.metadata)
                if name is not None:
                    known.add(listed.id, name)
        self._known, self._following = known, following

    async def _close(self, ledger_id: LedgerId, name: str) -> bool:
        """Close a due ledger if it rests and nothing speaks against it; say whether it was."""
        if self._view.what_holds(None) is not None or await self._is_restored():
            return False
        try:
            ledger = await self._client.metadata(ledger_id)
            if ledger.is_closed or presences.name_in(ledger) != name:
                self._known.drop(ledger_id, name)
                return False
            password = ledger.password
            reader = await self._client.open(ledger_id, password=password, recover=False)
            if not self._known.rests(ledger_id, reader.last_confirmed):
                return False
            reader = await self._client.open(ledger_id, password=password, recover=True)
        except errors.NoSuchLedger:
            self._known.drop(ledger_id, name)
            return False
        except errors.ClientError as error:
            _logger.warning("ledger %d has no writer, and is not closed: %s", ledger_id, error)
            return False
        _logger.info(
            "ledger %d was closed at entry %d: its writer's process is gone",
            ledger_id,
            reader.last_confirmed,
        )
        self._known.drop(ledger_id, name)
        self._metrics.abandoned_closed_total += 1
        return True

    async def _is_restored(self) -> bool:
        try:
            return await restored.read(self._cluster) is not None
        except UnreadableError:
            return True

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1_000)
