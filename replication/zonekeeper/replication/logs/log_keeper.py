"""The log keeper: one elected process keeps logs that no writer looks after.

A round over all logs trims each by its rules, goes on with trims and deletions that were left
half-done, and names the logs that it could not look after. Now and then all ledgers are listed, and
orphans are deleted on proof (``log.sessions.collecting``).

It has an election of its own. The auditor may be Apache's, and knows nothing of logs. Two keepers
may lead for a moment: each step is a compare-and-set that knows its work again, or a deletion of
what nothing can need any more. So a term may be cut off anywhere.

While the root is marked as restored, the log keeper does nothing. The age of messages is measured
with the wall clock of the process that leads, against those of the writers.
"""

import asyncio
import logging
from contextlib import aclosing
from typing import Final

from zonekeeper.client.api.client import Client, Surroundings
from zonekeeper.log.keeping.orphans import LogLedgerFate
from zonekeeper.log.sessions import collecting, trimming
from zonekeeper.log.sessions.collecting import OrphanCollector
from zonekeeper.metadata.cluster import elections
from zonekeeper.metadata.formats.log_names import BadLogNameError
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.formats.records import ForeignRecordError
from zonekeeper.metadata.ledgers.ledgers import StoredLedger
from zonekeeper.metadata.logs import deleted_logs, log_listing, logs
from zonekeeper.metadata.logs.logs import NoLogError
from zonekeeper.metadata.store.background import alongside
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.troubles import Trouble
from zonekeeper.placement.base.units import HOUR_MS, MINUTE_MS
from zonekeeper.replication.logs.log_keeper_metrics import LogKeeperMetrics
from zonekeeper.replication.view import listing

#: The pause between two rounds over all logs.
ROUND_EVERY_MS: Final = 5 * MINUTE_MS
#: Orphans are looked for in the first round that begins so long after the last search.
ORPHANS_EVERY_MS: Final = 6 * HOUR_MS

_logger = logging.getLogger(__name__)


class LogKeeper:
    """One candidate for the log keeper."""

    def __init__(self, client: Client, *, name: BookieId, surroundings: Surroundings) -> None:
        #: Of all terms. The end of a term clears the numbers that say how it is now.
        self.metrics = LogKeeperMetrics()
        self._client = client
        self._cluster = client.cluster
        self._name = name
        self._wall_ms = surroundings.wall_ms
        #: The time on the loop's clock of the last search for orphans in this term.
        self._searched_ms: int | None = None

    async def run(self) -> None:
        """Stand for election, and keep logs while elected; until cancelled."""
        votes = elections.log_keeper_votes(self._cluster)
        async with (
            elections.stand(self._cluster.store, votes, self._name) as states,
            alongside() as group,
        ):
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
        self.metrics.leading = 1
        self._searched_ms = None
        _logger.info("%s is the log keeper now", self._name, extra={"role": "log keeper"})
        try:
            while True:
                try:
                    await self.round()
                except StoreError as error:
                    await listing.pause(error, "a round over all logs")
                    continue
                await asyncio.sleep(ROUND_EVERY_MS / 1_000)
        finally:
            _logger.info(
                "%s is not the log keeper any more", self._name, extra={"role": "log keeper"}
            )
            self.metrics.end_term()

    async def round(self) -> None:
        """Look after each log once, and look for orphans if that is due."""
        self.metrics.held = int(not await collecting.is_whole(self._cluster))
        if self.metrics.held:
            return
        count, failing = 0, 0
        async with aclosing(log_listing.namespaces(self._cluster)) as namespaces:
            async for namespace in namespaces:
                try:
                    async with aclosing(log_listing.names(self._cluster, namespace)) as names:
                        async for name in names:
                            count += 1
                            failing += not await self._looked_after(name)
                except BadLogNameError as error:
                    failing += not self._failed(namespace, error)
        self.metrics.logs, self.metrics.failing_logs = count, failing
        now_ms = int(asyncio.get_running_loop().time() * 1_000)
        if self._searched_ms is None or now_ms - self._searched_ms >= ORPHANS_EVERY_MS:
            if count or await self._has_notes():
                await self._collect()
            self._searched_ms = now_ms
        self.metrics.rounds_total += 1

    async def _has_notes(self) -> bool:
        """Was a log deleted not long ago? A cluster without logs, and without notes, has no orphan.

        So a cluster that is used for ledgers alone pays for no listing.
        """
        async with aclosing(deleted_logs.ids(self._cluster)) as notes:
            async for _ in notes:
                return True
        return False

    async def _looked_after(self, name: str) -> bool:
        """Look after one log; False: it could not be done. The store's silence ends the round."""
        try:
            await self._look_after(name)
        except NoLogError:
            return True  # it was deleted meanwhile
        except StoreError as error:
            if error.retryable or error.maybe_applied:
                raise
            return self._failed(name, error)
        except Trouble as error:
            return self._failed(name, error)
        return True

    @staticmethod
    def _failed(name: str, error: Trouble) -> bool:
        _logger.warning("log %s is not looked after in this round: %s", name, error)
        return False

    async def _look_after(self, name: str) -> None:
        record = await logs.find(self._cluster, name, sync=False)
        if not await collecting.is_whole(self._cluster):
            self.metrics.held = 1
            return
        if record.deleting:
            await trimming.delete(self._client, name, record.id, self._wall_ms())
            self.metrics.deletions_total += 1
            _logger.info("log %s: its deletion was done to the end", name)
            return
        moved = await trimming.by_rules(self._client, name, record, self._wall_ms())
        deleted = 0
        if moved or record.start is not None:
            deleted = await trimming.reclaim(self._client, name, record.id)
        self.metrics.trims_total += moved
        self.metrics.ledgers_deleted_total += deleted
        if moved:
            _logger.info("log %s was trimmed by its rules: %d ledgers were deleted", name, deleted)

    async def _collect(self) -> None:
        """List all ledgers, and delete those that are orphans of logs."""
        begun_ms = self._wall_ms()
        collector = OrphanCollector(self._client)
        async with aclosing(listing.walk(self._cluster)) as every:
            async for one in every:
                if isinstance(one, StoredLedger) and await self._looked_at(collector, one):
                    self.metrics.orphans_deleted_total += 1
        self.metrics.pending_ledgers = collector.found[LogLedgerFate.PENDING]
        self.metrics.stray_ledgers = collector.found[LogLedgerFate.STRAY]
        self.metrics.listings_total += 1
        async with aclosing(deleted_logs.ids(self._cluster)) as notes:
            async for log_id in notes:
                await self._forget_old(log_id, begun_ms)

    async def _forget_old(self, log_id: str, begun_ms: int) -> None:
        """Remove the note of a deletion that was old when the search began."""
        try:
            note = await deleted_logs.find(self._cluster, log_id)
        except (UnreadableError, ForeignRecordError) as error:
            _logger.warning("the note of a deleted log is passed over: %s", error)
            return
        if note is not None and note.at_ms + deleted_logs.KEPT_MS <= begun_ms:
            await deleted_logs.forget(self._cluster, log_id)

    async def _looked_at(self, collector: OrphanCollector, ledger: StoredLedger) -> bool:
        try:
            deleted = await collector.look(ledger)
        except StoreError as error:
            if error.retryable or error.maybe_applied:
                raise
            return self._passed_over(ledger, error)
        except Trouble as error:
            return self._passed_over(ledger, error)
        if deleted:
            _logger.info("ledger %d was made for a log and is in no record: deleted", ledger.id)
        return deleted

    @staticmethod
    def _passed_over(ledger: StoredLedger, error: Trouble) -> bool:
        _logger.warning("ledger %d was made for a log, and is passed over: %s", ledger.id, error)
        return False
