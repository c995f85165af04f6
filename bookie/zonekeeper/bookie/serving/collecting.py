"""Garbage collection: the bookie forgets a ledger only on positive proof that it was deleted.

Two independent readings of the metadata must agree that the ledger does not exist:

1. A whole listing does not name the ledger. The listing began after the bookie knew the ledger.
2. A direct, synced reading of the ledger's node finds none (``ledgers.proven_deleted``). It also
   requires that the root is whole, that it is the cluster that was opened, and that no older export
   was restored into it. This reading comes last, right before the ledger is forgotten.

A missing answer is no proof: the round ends, and the next one begins anew.

A ledger's metadata exists before any bookie gets an entry of the ledger. So a ledger that was known
when the listing began, and is not listed, was deleted. A ledger that came later is not examined.

``candidates`` decides; ``Collector`` performs.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Protocol

from zonekeeper.metadata.cluster import restored
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.ledgers import ledger_listing, ledgers
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.placement.base.ids import LedgerId

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Collecting:
    """The settings of garbage collection."""

    every_ms: int = 600_000
    #: The most direct readings of the metadata in a second.
    proofs_per_second: int = 100


class Forgetful(Protocol):
    """The storage that garbage is collected from."""

    def known_ledgers(self) -> list[LedgerId]:
        """Give the ledgers that have a record or an entry on the disk, ascending."""
        ...

    async def forget(self, ledger_ids: Iterable[LedgerId]) -> None:
        """Forget ledgers for good, durably."""
        ...

    async def reclaim(self) -> None:
        """Begin to free the space of forgotten ledgers."""
        ...


@dataclass(slots=True, kw_only=True)
class CollectionCounters:
    """Counters since the start; none ever falls."""

    rounds: int = 0
    #: Rounds that ended because the metadata could not be read.
    rounds_failed: int = 0
    #: Rounds that did nothing because the root was restored from an export.
    rounds_held: int = 0
    #: Ledgers that a listing did not name, and that the second reading did not prove deleted.
    unproven: int = 0
    forgotten: int = 0


async def candidates(known: Iterable[LedgerId], listed: AsyncIterator[LedgerId]) -> list[LedgerId]:
    """Give the known ledgers that a whole listing does not name; both are ascending."""
    missing: list[LedgerId] = []
    rest = iter(known)
    at = next(rest, None)
    async for ledger_id in listed:
        while at is not None and at < ledger_id:
            missing.append(at)
            at = next(rest, None)
        if at == ledger_id:
            at = next(rest, None)
    if at is not None:
        missing += [at, *rest]
    return missing


class Collector:
    """Collects garbage from time to time."""

    def __init__(self, cluster: Cluster, storage: Forgetful, settings: Collecting) -> None:
        self.counters = CollectionCounters()
        self._cluster = cluster
        self._storage = storage
        self._settings = settings
        self._one_at_a_time = asyncio.Lock()

    async def run(self) -> None:
        """Do rounds until cancelled; raises the storage's error when its disk fails."""
        while True:
            await asyncio.sleep(self._settings.every_ms / 1_000)
            await self.round()

    async def round(self) -> int:
        """Forget the ledgers that are proven deleted, and give their number."""
        async with self._one_at_a_time:
            self.counters.rounds += 1
            count = 0
            try:
                for ledger_id in await self._candidates():
                    count += await self._forget(ledger_id)
            except (StoreError, UnreadableError) as error:
                self.counters.rounds_failed += 1
                _logger.warning("garbage collection ends early, and will begin anew: %s", error)
            if count:
                await self._storage.reclaim()
            return count

    async def _candidates(self) -> list[LedgerId]:
        if await restored.read(self._cluster) is not None:
            self.counters.rounds_held += 1
            return []
        # Must be read before the listing begins.
        known = self._storage.known_ledgers()
        return await candidates(known, ledger_listing.ids(self._cluster))

    async def _forget(self, ledger_id: LedgerId) -> bool:
        await asyncio.sleep(1 / self._settings.proofs_per_second)
        if not await ledgers.proven_deleted(self._cluster, ledger_id):
            self.counters.unproven += 1
            return False
        await self._storage.forget([ledger_id])
        self.counters.forgotten += 1
        return True
