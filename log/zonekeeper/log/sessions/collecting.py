"""Collect the orphans of logs: ledgers that a writer made, and that no record has.

The ledgers come from a listing, in ascending order. What was read of a log before is a filter only:
it passes over the ledgers that the log has, at the cost of one read a page. What the filter lets
through is proved anew, by reads that are in step with the store, right before it is deleted:

1. the record of the very incarnation, or the note of its deletion (``keeping.orphans``);
2. the root: it is the cluster that was opened, and is not marked as restored. While the mark stands
   nothing is proved.
"""

from collections import Counter, OrderedDict
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from zonekeeper.client.api.client import Client
from zonekeeper.log.keeping import orphans
from zonekeeper.log.keeping.orphans import LogLedgerFate
from zonekeeper.log.sessions import trimming
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import log_names
from zonekeeper.metadata.formats.log_names import BadLogNameError
from zonekeeper.metadata.formats.log_record import LogPage, LogRecord
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.ledgers import ledgers
from zonekeeper.metadata.ledgers.ledgers import StoredLedger
from zonekeeper.metadata.logs import deleted_logs, log_stamp, logs
from zonekeeper.metadata.logs.log_stamp import LogStamp
from zonekeeper.metadata.logs.logs import NoLogError
from zonekeeper.placement.base.ids import LedgerId

#: Of so many logs a record and a page are kept while ledgers are listed.
LOGS_KEPT_MAX: Final = 1_000
_FIRST: Final = LedgerId(0)


@dataclass(slots=True)
class _Seen:
    """What was read of a log before."""

    record: LogRecord
    page: LogPage | None = None


class OrphanCollector:
    """Judges the ledgers of one listing, and deletes those that are orphans."""

    def __init__(self, client: Client) -> None:
        #: How many ledgers of logs were found, by what they are to their log.
        self.found = Counter[LogLedgerFate]()
        self._client = client
        self._cluster = client.cluster
        self._seen = OrderedDict[str, _Seen]()

    async def look(self, ledger: StoredLedger) -> bool:
        """Look at a ledger, in the order of ids; say whether it was deleted."""
        stamp = log_stamp.of(ledger.metadata)
        if stamp is None:
            return False
        try:
            log_names.check(stamp.name)
        except BadLogNameError:
            self.found[LogLedgerFate.STRAY] += 1
            return False
        if await self._is_known(ledger.id, stamp):
            self.found[LogLedgerFate.PART] += 1
            return False
        fate = await proved(self._cluster, ledger.id, stamp)
        self.found[fate] += 1
        if fate is not LogLedgerFate.ORPHAN or not await is_whole(self._cluster):
            return False
        await self._client.delete(ledger.id, by=trimming.DELETER)
        return True

    async def _is_known(self, ledger_id: LedgerId, stamp: LogStamp) -> bool:
        """Does what was read of the log before have the ledger?"""
        seen = self._seen.get(stamp.name)
        if seen is None:
            try:
                seen = _Seen(await logs.find(self._cluster, stamp.name, sync=False))
            except NoLogError:
                return False
            self._seen[stamp.name] = seen
            if len(self._seen) > LOGS_KEPT_MAX:
                self._seen.popitem(last=False)
        self._seen.move_to_end(stamp.name)
        newest = seen.record.ledgers
        if newest and ledger_id >= newest[0].id:
            return any(one.id == ledger_id for one in newest)
        while seen.page is None or seen.page.ledgers[-1].id < ledger_id:
            number = seen.record.first_page if seen.page is None else seen.page.number + 1
            if number >= seen.record.next_page:
                return False
            page = await logs.page(self._cluster, stamp.name, seen.record, number)
            if page is None:
                return False  # the oldest pages are gone since: the proof looks at the new record
            seen.page = page
        return any(one.id == ledger_id for one in seen.page.ledgers)


async def proved(cluster: Cluster, ledger_id: LedgerId, stamp: LogStamp) -> LogLedgerFate:
    """Judge a ledger by what stands in the store now."""
    try:
        record = await logs.find(cluster, stamp.name)
    except NoLogError:
        record = None
    if record is not None and record.id == stamp.log_id:
        has = await _first_from(cluster, stamp.name, record, ledger_id) == ledger_id
        first = await _first_from(cluster, stamp.name, record, _FIRST)
        return orphans.of_record(record, first, ledger_id, stamp, has=has)
    note = None if stamp.log_id is None else await deleted_logs.find(cluster, stamp.log_id)
    return orphans.without_record(stamp, was_deleted=note is not None)


async def is_whole(cluster: Cluster) -> bool:
    """Is the root still the cluster that was opened, and not marked as restored?

    A mark that cannot be read stands.
    """
    try:
        return await ledgers.is_whole(cluster)
    except UnreadableError:
        return False


async def _first_from(
    cluster: Cluster, name: str, record: LogRecord, ledger_id: LedgerId
) -> LedgerId | None:
    """Give the first ledger from one on that a record has."""
    async with aclosing(logs.ledgers(cluster, name, record, ledger_id)) as every:
        async for one in every:
            return one.id
    return None
