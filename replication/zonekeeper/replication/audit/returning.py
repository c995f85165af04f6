"""A bookie is back: its marks are taken back where its copies are there.

While the bookie was away, others may have acknowledged entries that it never got. So membership
alone proves nothing. The auditor asks the bookie which entries it has; that costs no data. The
bookie is taken off a mark in two cases: it has its whole share of the ledger's finished fragments,
or it is in none of them any more. A fragment that may still grow, or has no entries, requires
nothing of it. A bookie with a new disk is in limbo for the ledger, and only the replicators end
that. In all other cases, and where the answer is unknown, the mark stays: the replicators look at
every copy of a bookie that is registered.

A mark that is older than the loss means something else (a copy was found bad). It stays, too. So
does the mark of a bookie that was started again since it was asked: it may have a new disk.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from zonekeeper.client.bookies.link_pool import LinkPool
from zonekeeper.metadata.bookies import bookie_records
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import placement_stamp
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.formats.underreplication_format import Underreplicated
from zonekeeper.metadata.ledgers import ledgers, underreplication
from zonekeeper.metadata.store.background import together
from zonekeeper.metadata.store.store import Check
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.replication.audit.marking import Marker
from zonekeeper.replication.decisions import copies, copy_plan
from zonekeeper.replication.repair import limbo
from zonekeeper.replication.view import listing
from zonekeeper.wire.contract.service import EntryRanges, ListEntriesRequest
from zonekeeper.wire.formats import digests, errors
from zonekeeper.wire.formats.digests import MasterKey

LOOKED_AT_ONCE_MAX: Final = 32
RANGES_MAX: Final = 10_000

#: A position of an ensemble, and the entries of its fragment.
_Owed = tuple[int, range]

_logger = logging.getLogger(__name__)


class Returning:
    """Looks at the marks of bookies that came back."""

    def __init__(self, cluster: Cluster, pool: LinkPool, marker: Marker) -> None:
        self._cluster = cluster
        self._pool = pool
        self._marker = marker

    async def unmark(self, published_ms: Mapping[BookieId, int]) -> int:
        """Take bookies off the marks of ledgers; give the number of those ledgers.

        ``published_ms`` has, for each bookie that is back, the wall time since which it could be
        published.
        """
        unmarked, batch = 0, list[LedgerId]()
        starts = {one: await bookie_records.check(self._cluster, one) for one in published_ms}
        async for ledger_id in underreplication.ids(self._cluster):
            batch.append(ledger_id)
            if len(batch) == LOOKED_AT_ONCE_MAX:
                unmarked += await self._look(batch, published_ms, starts)
                batch.clear()
        return unmarked + await self._look(batch, published_ms, starts)

    async def _look(
        self,
        batch: list[LedgerId],
        published_ms: Mapping[BookieId, int],
        starts: Mapping[BookieId, Check | None],
    ) -> int:
        async def one(ledger_id: LedgerId) -> bool:
            try:
                mark = await underreplication.read(self._cluster, ledger_id)
                if mark is None:
                    return False
                named = sorted(
                    bookie
                    for bookie in published_ms.keys() & set(mark.replicas)
                    if made_for(mark, published_ms[bookie])
                )
                whole = [each for each in named if await self._has_all(ledger_id, each)]
            except UnreadableError as error:
                _logger.warning("ledger %d stays marked: %s", ledger_id, error)
                return False
            checks = [check for each in whole if (check := starts[each]) is not None]
            return bool(whole) and await self._marker.unmark(ledger_id, whole, checks)

        return sum(await together(one(ledger_id) for ledger_id in batch))

    async def _has_all(self, ledger_id: LedgerId, bookie: BookieId) -> bool:
        """Is it certain that a bookie has every entry that it should have of a ledger?"""
        ledger = await listing.until_done(
            lambda: ledgers.read(self._cluster, ledger_id, sync=True), f"reading ledger {ledger_id}"
        )
        if ledger is None:
            return False  # perhaps it was deleted: the replicator finds that out
        quorums = placement_stamp.quorums_of(ledger.metadata)
        owed = [
            (part.fragment.ensemble.index(bookie), part.entries)
            for part in copy_plan.finished(ledger.metadata)
            if part.entries and bookie in part.fragment.ensemble
        ]
        key = digests.master_key(ledger.metadata.password)
        try:
            if owed:
                return await self._has_shares(ledger_id, key, bookie, quorums, owed)
            named = bookie in ledger.metadata.bookies
            return not (named and await limbo.is_in_limbo(self._pool, ledger_id, key, bookie))
        except errors.ProtocolError as error:
            _logger.info("ledger %d stays marked for %s: %s", ledger_id, bookie, error)
            return False

    async def _has_shares(
        self,
        ledger_id: LedgerId,
        key: MasterKey,
        bookie: BookieId,
        quorums: Quorums,
        owed: Sequence[_Owed],
    ) -> bool:
        """Compare the entries that a bookie lists with those it should have, a page at a time."""
        first = EntryId(0)
        while True:
            request = ListEntriesRequest(
                ledger_id=ledger_id, first_entry_id=first, ranges_max=RANGES_MAX, key=key
            )
            page = await self._page(bookie, request)
            if not page.complete and (not page.ranges or page.ranges[-1][1] < first):
                return False  # the page does not reach the first entry that was asked for
            stop = None if page.complete else EntryId(page.ranges[-1][1] + 1)
            for at, wanted in owed:
                part = range(
                    max(wanted.start, first),
                    wanted.stop if stop is None else min(wanted.stop, stop),
                )
                if part and not copies.has_share(quorums, at, part, page.ranges):
                    return False
            if stop is None:
                return True
            first = stop

    async def _page(self, bookie: BookieId, request: ListEntriesRequest) -> EntryRanges:
        return await (await self._pool.link(bookie)).list_entries(request)


def made_for(mark: Underreplicated, published_ms: int) -> bool:
    """Was a mark made since its bookie could be published? An older mark has another reason."""
    return mark.marked_ms is not None and mark.marked_ms >= published_ms
