"""What a simulated bookie does from time to time, as its process does: it collects and compacts.

The collector and its proofs are the real ones. Each ledger that the bookie forgets is an event.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from zonekeeper.bookie.life.witness import Witness
from zonekeeper.bookie.serving.collecting import Collecting, Collector
from zonekeeper.bookie.storage.compaction import Compacting
from zonekeeper.bookie.storage.storage import Storage
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.wire.formats.errors import ProtocolError

_PROOFS_PER_SECOND: Final = 1_000
#: A segment is compacted as soon as a tenth of it is of no use.
_WORTH_IT: Final = 0.9
_NEVER_MS: Final = 10**9


def compacting(every_ms: int) -> Compacting:
    """Give the settings of compaction; 0: there is none in a life."""
    if not every_ms:
        return Compacting()
    return Compacting(minor_share=_WORTH_IT, minor_every_ms=every_ms, major_every_ms=_NEVER_MS)


class Telling:
    """A bookie's storage for its collector, which tells what is forgotten."""

    def __init__(self, storage: Storage, on_forget: Callable[[LedgerId], None]) -> None:
        self.known_ledgers = storage.known_ledgers
        self.take_disputed = storage.take_disputed
        self.reclaim = storage.reclaim
        self._storage = storage
        self._on_forget = on_forget

    async def forget(self, ledger_ids: Iterable[LedgerId]) -> None:
        """Forget ledgers for good, durably."""
        some = list(ledger_ids)
        for ledger_id in some:
            self._on_forget(ledger_id)
        await self._storage.forget(some)


async def collect(
    cluster: Cluster, bookie: BookieId, storage: Telling, witness: Witness, every_ms: int
) -> None:
    """Collect from time to time, until cancelled or until the bookie's disk fails."""
    settings = Collecting(every_ms=every_ms, proofs_per_second=_PROOFS_PER_SECOND)
    wall = asyncio.get_running_loop()
    collector = Collector(
        cluster, bookie, storage, witness, settings, wall_ms=lambda: int(wall.time() * 1_000)
    )
    try:
        await collector.run()
    except ProtocolError:
        return  # the storage ends the bookie, and says why
