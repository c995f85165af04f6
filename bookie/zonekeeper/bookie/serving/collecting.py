"""Garbage collection: which ledgers a bookie may forget, on positive proof only.

Two readings of the metadata, which have nothing to do with each other, must say that a ledger is
gone: a whole listing that began after the bookie knew the ledger and does not have it, and a direct
synced reading of its node (``ledgers.proven_deleted``). The second one also wants the root to be
whole, to be the cluster that was opened, and to have nothing restored from an older export. It
comes last, right before the ledger is forgotten. An answer that cannot be had is no proof: a round
that meets one ends, and the next one begins anew.

A ledger's metadata is there before any bookie hears of the ledger, so one that is known when the
listing begins and is not listed was deleted; one that came later is not looked at.

``candidates`` decides, ``Collector`` does.
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
    """When, and how fast."""

    every_ms: int = 600_000
    #: Direct readings of the metadata.
    proofs_per_second: int = 100


class Forgetful(Protocol):
    """What garbage is collected from."""

    def known_ledgers(self) -> list[LedgerId]:
        """Give the ledgers of which anything is on the disk, ascending."""
        ...

    async def forget(self, ledger_ids: Iterable[LedgerId]) -> None:
        """Forget ledgers for good, durably."""
        ...

    async def reclaim(self) -> None:
        """Give up what was forgotten."""
        ...


@dataclass(slots=True, kw_only=True)
class CollectionCounters:
    """What was done since the start."""

    rounds: int = 0
    #: Rounds that ended because the metadata could not be read.
    rounds_failed: int = 0
    #: Rounds that did nothing because the root was restored from an export.
    rounds_held: int = 0
    #: Ledgers that a listing lacked, and that the second reading did not prove to be gone.
    unproven: int = 0
    forgotten: int = 0


async def candidates(known: Iterable[LedgerId], listed: AsyncIterator[LedgerId]) -> list[LedgerId]:
    """Give those of the known ledgers that a whole listing lacks; both ascend."""
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
    """Collects from time to time."""

    def __init__(self, cluster: Cluster, storage: Forgetful, settings: Collecting) -> None:
        self.counters = CollectionCounters()
        self._cluster = cluster
        self._storage = storage
        self._settings = settings
        self._one_at_a_time = asyncio.Lock()

    async def run(self) -> None:
        """Do rounds for ever; raises what the storage raises when its disk fails."""
        while True:
            await asyncio.sleep(self._settings.every_ms / 1_000)
            await self.round()

    async def round(self) -> int:
        """Forget what is proven to be deleted, and give how many ledgers that were."""
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
        # Before the listing begins.
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
