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
    """What a pass found and did."""

    index: LedgerIndex = field(default_factory=LedgerIndex)
    #: Lost and forgetful bookies for which a ledger was not marked, because they were held.
    passed_over: set[BookieId] = field(default_factory=set)
    #: Ledgers that cannot be read.
    unreadable: int = 0
    #: Ledgers that were marked for lost or forgetful bookies.
    published: int = 0
    #: Ledgers by their level, if the pass judged placement.
    by_level: Counter[Level] = field(default_factory=Counter)
    #: Those among them whose ``Finding`` is undecided.
    undecided: int = 0
    #: Ledgers that were marked for respreading.
    respread: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Permissions:
    """What may be done now. Each function is asked again for each ledger."""

    #: The lost and the forgetful bookies.
    lacking: Callable[[], Set[BookieId]]
    may_publish: Callable[[BookieId], bool]
    may_respread: Callable[[], bool]


class Publisher:
    """Marks the ledgers of lost and forgetful bookies, and those that are to be spread again."""

    def __init__(self, cluster: Cluster, marker: Marker, permissions: Permissions) -> None:
        self._cluster = cluster
        self._marker = marker
        self._permissions = permissions

    async def known(self, index: LedgerIndex, bookies: Iterable[BookieId]) -> int:
        """Mark the ledgers that an index has for some bookies; give how many were marked.

        Each ledger is read again before it is marked.
        """
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
        """Make the pass over all ledgers. It judges placement if ``placement`` is given."""
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
        """Mark one ledger for those of ``lost`` that may be published.

        If ``lost`` is empty, the ledger is marked for respreading.
        """

        def wanted() -> list[BookieId] | None:
            publish = [one for one in lost if self._permissions.may_publish(one)]
            found.passed_over.update(one for one in lost if one not in publish)
            return publish or None

        if lost:
            # A mark that cannot be read is a mark, too, and its ledger does not count as passed
            # over: another listing would not mend the mark.
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
