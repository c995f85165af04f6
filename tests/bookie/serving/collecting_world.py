"""A bookie's storage beside the metadata of its ledgers, and a collector for them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.bookie.segments import keeping
from tests.bookie.segments.keeping import Driver, frame, opening
from tests.support.stores import MemoryPlace
from zonekeeper.bookie.disk.disks import InlineDisk
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem
from zonekeeper.bookie.formats.index import MemoryOrdered
from zonekeeper.bookie.ledgers import admission
from zonekeeper.bookie.life.witness import Witness
from zonekeeper.bookie.serving.collecting import Collecting, Collector
from zonekeeper.bookie.storage.storage import Storage
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata
from zonekeeper.metadata.ledgers import ledgers
from zonekeeper.metadata.ledgers.deletions import Deleter
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId

INSTANCE = "d58c3de9-d9c6-429e-be20-474dcad4d089"
BOOKIE = BookieId("bk-a-0")
FAST = Collecting(every_ms=60_000, proofs_per_second=1_000_000)
AT_ONCE = Collecting(every_ms=0, proofs_per_second=1_000_000)
DELETER = Deleter(by="test", at_ms=1)
NEW = LedgerMetadata(
    ensemble_size=1,
    write_quorum=1,
    ack_quorum=1,
    fragments=(Fragment(EntryId(0), (BookieId("bk-a-0"),)),),
    digest=Digest.CRC32C,
    password=b"secret",
    create_token=9,
)


@dataclass
class World:
    """A bookie's storage, and the metadata of its ledgers."""

    files: MemoryFileSystem
    index: MemoryOrdered
    place: MemoryPlace
    store: MemoryStore
    cluster: Cluster
    kept: Storage
    driver: Driver
    collector: Collector

    async def create(self, *ledger_ids: int, entries: int = 4) -> None:
        for ledger_id in ledger_ids:
            await ledgers.create(self.cluster, NEW, ledger_id=LedgerId(ledger_id))
            await self.write(ledger_id, entries)

    async def write(self, ledger_id: int, entries: int) -> None:
        await self.driver.state(ledger_id, admission.OpenWanted(opening=opening(ledger_id)))
        for first in range(0, entries, 2):
            await self.driver.append(frame(ledger_id, [first, first + 1]))

    async def delete(self, *ledger_ids: int) -> None:
        for ledger_id in ledger_ids:
            await ledgers.delete(self.cluster, LedgerId(ledger_id), DELETER)

    async def collected(self) -> int:
        """Do what is done in two rounds with an interval between them; give what is forgotten."""
        return await collected_by(self.collector)

    def known(self) -> list[int]:
        return [int(ledger_id) for ledger_id in self.kept.known_ledgers()]


async def collected_by(collector: Collector) -> int:
    first = await collector.round()
    await asyncio.sleep(FAST.every_ms / 1_000)
    return first + await collector.round()


def collector_of(
    cluster: Cluster,
    kept: Storage,
    settings: Collecting = FAST,
    files: MemoryFileSystem | None = None,
) -> Collector:
    """Give a collector with a witness of its own, which keeps nothing from before."""
    witness = Witness(cluster, BOOKIE, files or MemoryFileSystem(), InlineDisk(), wall_ms=lambda: 1)
    return Collector(cluster, BOOKIE, kept, witness, settings, wall_ms=lambda: 1)


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    files, index, place = keeping.fresh(), MemoryOrdered(), MemoryPlace()
    store = await place.open()
    assert isinstance(store, MemoryStore)
    cluster = await clusters.initialise(store, INSTANCE)
    try:
        async with keeping.running(files, index) as kept:
            yield World(
                files=files,
                index=index,
                place=place,
                store=store,
                cluster=cluster,
                kept=kept,
                driver=Driver(kept),
                collector=collector_of(cluster, kept),
            )
    finally:
        await place.close()
