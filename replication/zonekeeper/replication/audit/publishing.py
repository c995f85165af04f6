"""One pass over all ledgers: builds a new index, publishes losses, judges placement.

The pass reads each ledger once, and the reading serves all three. Whether a lost bookie may be
published is asked again for each ledger that names it, at the moment of the mark. If the loss is
held by then, the ledger is passed over, and the pass says so. The pass needs memory for the new
index, and for the ledgers that are being marked at that moment.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, field
from typing import Final

from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.ledgers import ledgers
from zonekeeper.metadata.ledgers.ledger_listing import UnreadableLedger
from zonekeeper.metadata.ledgers.ledgers import StoredLedger
from zonekeeper.metadata.store.background import together
from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.placement.ensembles.adherence import Level
from zonekeeper.replication.audit.marking import Marker
from zonekeeper.replication.decisions.checks_placement import PlacementCheck
from zonekeeper.replication.decisions.ledger_index import LedgerIndex
from zonekeeper.replication.view import listing

MARKED_AT_ONCE_MAX: Final = 32

_logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class PassFound:
    """What a pass found."""

    index: LedgerIndex = field(default_factory=LedgerIndex)
    #: Lost bookies that some ledger names, and that could not be published when it was met.
    passed_over: set[BookieId] = field(default_factory=set)
    unreadable: int = 0
    published: int = 0
    #: Ledgers by how well they keep the rules, where that was checked.
    by_level: Counter[Level] = field(default_factory=Counter)
    #: Those of them for which it is unknown whether they could keep the rules better.
    undecided: int = 0
    respread: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Permissions:
    """What may be done now; each is asked again whenever it matters."""

    #: The bookies that are lost, or there and lost data.
    lacking: Callable[[], Set[BookieId]]
    may_publish: Callable[[BookieId], bool]
    may_respread: Callable[[], bool]


class Publisher:
    """Publishes what is lost."""

    def __init__(self, cluster: Cluster, marker: Marker, permissions: Permissions) -> None:
        self._cluster = cluster
        self._marker = marker
        self._permissions = permissions

    async def known(self, index: LedgerIndex, bookies: Iterable[BookieId]) -> int:
        """Publish what an index knows of lost bookies; each ledger is read before it is marked."""
        published = 0
        for bookie in sorted(bookies):
            batch: list[LedgerId] = []
            for ledger_id in index.ledgers_of(bookie):
                batch.append(ledger_id)
                if len(batch) == MARKED_AT_ONCE_MAX:
                    published += sum(await together(self._known(one, bookie) for one in batch))
                    batch.clear()
            published += sum(await together(self._known(one, bookie) for one in batch))
        return published

    async def every(self, placement: PlacementCheck | None) -> PassFound:
        """Pass over all ledgers; ``placement``: judge that, too."""
        found = PassFound()
        batch: list[tuple[LedgerId, tuple[BookieId, ...]]] = []
        async for listed in listing.walk(self._cluster):
            if isinstance(listed, UnreadableLedger):
                found.unreadable += 1
                _logger.warning("ledger %d is left out: %s", listed.id, listed.error)
                continue
            found.index.add(listed.id, listed.metadata)
            lost = tuple(sorted(self._permissions.lacking() & listed.metadata.bookies))
            worth_moving = placement is not None and self._judge(placement, listed, found)
            if lost or worth_moving:
                batch.append((listed.id, lost))
            if len(batch) == MARKED_AT_ONCE_MAX:
                await together(self._mark(*one, found) for one in batch)
                batch.clear()
        await together(self._mark(*one, found) for one in batch)
        return found

    async def _known(self, ledger_id: LedgerId, bookie: BookieId) -> bool:
        if not self._permissions.may_publish(bookie):
            return False
        try:
            ledger = await listing.until_done(
                lambda: ledgers.read(self._cluster, ledger_id), f"reading ledger {ledger_id}"
            )
        except UnreadableError as error:
            _logger.warning("ledger %d is left out: %s", ledger_id, error)
            return False
        if ledger is None or bookie not in ledger.metadata.bookies:
            return False

        def wanted() -> list[BookieId] | None:
            return [bookie] if self._permissions.may_publish(bookie) else None

        return await self._marker.mark(ledger_id, wanted)

    async def _mark(
        self, ledger_id: LedgerId, lost: tuple[BookieId, ...], found: PassFound
    ) -> None:
        """Mark one ledger for its lost bookies that may be published; without any, to be moved."""

        def wanted() -> list[BookieId] | None:
            publish = [one for one in lost if self._permissions.may_publish(one)]
            found.passed_over.update(one for one in lost if one not in publish)
            return publish or None

        if lost:
            # One that cannot be read is a mark, too; another listing would not mend it.
            found.published += await self._marker.mark(ledger_id, wanted)
        else:
            found.respread += await self._marker.mark(
                ledger_id, lambda: () if self._permissions.may_respread() else None
            )

    def _judge(self, placement: PlacementCheck, listed: StoredLedger, found: PassFound) -> bool:
        finding = placement.judge(listed.metadata)
        if finding is None:
            return False
        found.by_level[finding.level] += 1
        found.undecided += finding.undecided
        return finding.can_be_bettered
