"""A ledger whose id was given to another one before it was collected: it makes room (S120)."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.bookie.running import KEY, LEDGER, append, frame, open_fragment, opening, running
from tests.bookie.serving.collecting_world import (
    DELETER,
    FAST,
    INSTANCE,
    NEW,
    collected_by,
    collector_of,
)
from tests.support import virtual_time
from tests.support.stores import MemoryPlace
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem
from zonekeeper.bookie.serving.collecting import Collector
from zonekeeper.bookie.serving.service import BookieServer
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.ledgers import ledgers
from zonekeeper.placement.base.ids import EntryId
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import errors

OLD, TOKEN = dataclasses.replace(opening(), create_token=7), 8
ANEW = dataclasses.replace(OLD, create_token=TOKEN)


@asynccontextmanager
async def holding_the_old_one() -> AsyncIterator[tuple[BookieServer, Cluster, Collector]]:
    """Give a bookie that has a ledger which was deleted, and made anew under its id."""
    place = MemoryPlace()
    cluster = await clusters.initialise(await place.open(), INSTANCE)
    async with running(MemoryFileSystem()) as bookie:
        await open_fragment(bookie, OLD)
        await append(bookie, frame(0, 1))
        await made(cluster, 7)
        await ledgers.delete(cluster, LEDGER, DELETER)
        await made(cluster, TOKEN)
        yield bookie, cluster, collector_of(cluster, bookie._storage)
    await place.close()


async def made(cluster: Cluster, token: int) -> None:
    metadata = dataclasses.replace(NEW, create_token=token)
    await ledgers.create(cluster, metadata, ledger_id=LEDGER)


@virtual_time.played
async def test_s120_the_old_ledger_is_collected_once_the_new_one_was_refused() -> None:
    async with holding_the_old_one() as (bookie, _, collector):
        assert await collected_by(collector) == 0, "nobody asked for the new one"
        with pytest.raises(errors.LedgerDeleted):
            await open_fragment(bookie, ANEW)
        assert await collector.round() == 0, "one round is no proof"
        await asyncio.sleep(FAST.every_ms / 1_000 + 1)
        assert await collector.round() == 1
        await open_fragment(bookie, ANEW)
        with pytest.raises(errors.LedgerDeleted):
            await open_fragment(bookie, OLD)


@virtual_time.played
async def test_the_fence_of_the_new_ledger_is_such_a_refusal_too() -> None:
    async with holding_the_old_one() as (bookie, _, collector):
        with pytest.raises(errors.LedgerDeleted):
            await bookie.fence(LEDGER, KEY, TOKEN)
        assert await collected_by(collector) == 1
        await bookie.fence(LEDGER, KEY, TOKEN)


@virtual_time.played
async def test_a_stranger_with_another_token_makes_nothing_go() -> None:
    """Metadata decides: it shows the ledger that is here, or none that can be compared."""
    async with holding_the_old_one() as (bookie, cluster, collector):
        where = ledgers.path(cluster, LEDGER)
        await ledgers.delete(cluster, LEDGER, DELETER)
        await made(cluster, 7)
        for unreadable in (False, True):
            if unreadable:
                node = await cluster.store.get(where, sync=True)
                assert node is not None
                await cluster.store.put(where, b"no metadata", version=node.version)
            with pytest.raises(errors.LedgerDeleted):
                await open_fragment(bookie, ANEW)
            assert await collected_by(collector) == 0


@virtual_time.played
async def test_a_reader_of_the_old_ledger_gets_nothing_of_the_new_one() -> None:
    """Nor the other way round; a reader that knows no token is not refused."""
    async with holding_the_old_one() as (bookie, _, _):
        for token, there in ((7, True), (0, True), (TOKEN, False)):
            asked = service.ReadRequest(
                ledger_id=LEDGER,
                first_entry_id=EntryId(0),
                last_entry_id=EntryId(1),
                bytes_max=1 << 20,
                create_token=token,
            )
            if there:
                assert len((await bookie.read(asked)).frames) == 1
            else:
                with pytest.raises(errors.LedgerDeleted, match="is another one"):
                    await bookie.read(asked)
