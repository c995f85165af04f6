"""A bookie that starts with ledgers in limbo says so before a client can ask it."""

import dataclasses
import random
from pathlib import Path

import pytest

from tests.bookie.running import BOOKIE, LEDGER
from tests.support.stores import MemoryPlace
from zonekeeper.bookie.disk.disks import InlineDisk
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem
from zonekeeper.bookie.formats.checkpoint_format import Kept
from zonekeeper.bookie.formats.index import MemoryOrdered
from zonekeeper.bookie.ledgers.admission import AdmissionState
from zonekeeper.bookie.life import identity, known_metadata, life
from zonekeeper.bookie.life.identity import WrongDiskError
from zonekeeper.bookie.life.life import BookieGround
from zonekeeper.bookie.segments import checkpoint
from zonekeeper.bookie.segments.arrivals import Sizes
from zonekeeper.bookie.storage.storage import StoragePolicy
from zonekeeper.metadata.bookies import bookie_records
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import restored
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.evidence import Knowledge
from zonekeeper.metadata.formats.cookies import OtherBookieError
from zonekeeper.placement.base.ids import NO_ENTRY, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location

INSTANCE = "d58c3de9-d9c6-429e-be20-474dcad4d089"
WHERE = Location(ZoneName("a"), UpgradeDomain("ud-0"))
OTHER_INSTANCE = "11111111-2222-3333-4444-555555555555"


async def lives(cluster: Cluster, files: MemoryFileSystem) -> None:
    """Begin a life on some files, and end it."""
    disk, index = InlineDisk(), MemoryOrdered()
    ground = BookieGround(
        folders={None: files},
        journal=files,
        ledgers=[files],
        writing=disk,
        background=disk,
        reads=disk,
        tails=disk,
        open_index=lambda: index,
        sizes=lambda _: Sizes(segment_bytes=1 << 16),
        wall_ms=lambda: 1,
    )
    mine = identity.of_bookie(BOOKIE, cluster, Path("/data"))
    begun = await life.begin(
        cluster, mine, WHERE, ground, policy=StoragePolicy(), chance=random.Random(1)
    )
    await begun.storage.close()


async def test_a_start_with_a_ledger_in_limbo_is_said_in_the_bookies_record() -> None:
    store = await MemoryPlace().open()
    cluster = await clusters.initialise(store, INSTANCE)
    files = MemoryFileSystem()
    await lives(cluster, files)
    assert (await bookie_records.read(cluster, BOOKIE)).lost_data is None
    limbo = Kept(state=AdmissionState(fenced=True, in_limbo=True), confirmed=NO_ENTRY)
    kept = dataclasses.replace(checkpoint.load(files), ledgers={LEDGER: limbo})
    checkpoint.save(files, kept)
    for start in (2, 3):
        await lives(cluster, files)
        record = await bookie_records.read(cluster, BOOKIE)
        assert (record.boot_epoch, record.lost_data) == (start, start), "at each start"
    await store.close()


async def test_a_bookie_that_an_older_store_does_not_know_marks_it_and_is_refused() -> None:
    place = MemoryPlace()
    cluster = await clusters.initialise(await place.open(), INSTANCE)
    files = MemoryFileSystem()
    await lives(cluster, files)
    known_metadata.save(files, Knowledge(starts=1, ids=99, policy=1))
    older = await clusters.initialise(await MemoryPlace().open(), INSTANCE)

    with pytest.raises(WrongDiskError):
        await lives(older, files)

    mark = await restored.read(older)
    assert mark is not None
    assert [one.known for one in mark.evidence] == [99]


async def test_the_folder_of_another_bookie_is_no_evidence() -> None:
    cluster = await clusters.initialise(await MemoryPlace().open(), INSTANCE)
    other = await clusters.initialise(await MemoryPlace().open(), OTHER_INSTANCE)
    files = MemoryFileSystem()
    await lives(other, files)
    known_metadata.save(files, Knowledge(starts=1, ids=99, policy=1))

    with pytest.raises(OtherBookieError):
        await lives(cluster, files)

    assert await restored.read(cluster) is None
