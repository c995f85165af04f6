"""A disk that was set back to an older state, or copied, is known by its count of starts."""

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.metadata.bookies.test_bookies import cookie
from tests.wire import hextext
from zonekeeper.bookie.disk.disks import InlineDisk
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem
from zonekeeper.bookie.life import boots
from zonekeeper.bookie.life.boots import UntrustedDiskError
from zonekeeper.metadata.bookies import bookie_records, cookie_store
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.stores.memory import ExchangeLoss, MemoryStore, Passage, RequestKind
from zonekeeper.metadata.stores.memory_server import MemoryServer
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.wire.formats.errors import FormatError

BOOKIE = BookieId("bk-a-0")
#: More than a start does with a disk if two answers of the store are lost.
TRIES = 40


@pytest.fixture
def server() -> MemoryServer:
    return MemoryServer()


@pytest.fixture
async def cluster(server: MemoryServer) -> AsyncIterator[Cluster]:
    store = MemoryStore(server)
    made = await clusters.initialise(store, "11111111-2222-3333-4444-555555555555")
    await cookie_store.create(made, cookie(BOOKIE))
    yield made
    await store.close()


def no_power_after(count: int) -> Callable[[str, str], None]:
    """What disks do that lose power behind so many steps."""
    steps = itertools.count()

    def trouble(kind: str, name: str) -> None:
        if next(steps) >= count:
            raise OSError(f"no power at {kind} {name}")

    return trouble


async def start(
    cluster: Cluster, files: MemoryFileSystem, journal: MemoryFileSystem | None = None
) -> int:
    folders: dict[str | None, MemoryFileSystem] = {None: files}
    if journal is not None:
        folders["/j"] = journal
    return await boots.next_boot(
        cluster, BOOKIE, folders, journal=journal or files, disk=InlineDisk()
    )


async def test_starts_are_counted_on_the_disk_and_in_the_store(cluster: Cluster) -> None:
    files = MemoryFileSystem()

    assert [await start(cluster, files) for _ in range(3)] == [1, 2, 3]

    assert boots.load(files) == 3
    assert (await bookie_records.read(cluster, BOOKIE)).boot_epoch == 3


async def test_a_disk_that_was_set_back_is_refused_and_nothing_is_changed(cluster: Cluster) -> None:
    files = MemoryFileSystem()
    await start(cluster, files)
    snapshot = files.crashed(random.Random(1))
    await start(cluster, files)

    for _ in range(2):
        with pytest.raises(UntrustedDiskError, match="number 2 of bk-a-0, and its data folder of"):
            await start(cluster, snapshot)

    assert boots.load(snapshot) == 1
    assert await start(cluster, files) == 3


async def test_a_disk_from_before_the_first_start_is_refused(cluster: Cluster) -> None:
    await start(cluster, MemoryFileSystem())

    with pytest.raises(UntrustedDiskError, match="its data folder of no start"):
        await start(cluster, MemoryFileSystem())


async def test_a_journal_that_was_set_back_alone_is_refused_and_nothing_is_changed(
    cluster: Cluster,
) -> None:
    files, journal = MemoryFileSystem(), MemoryFileSystem()
    assert await start(cluster, files, journal) == 1
    snapshot = journal.crashed(random.Random(1))
    assert await start(cluster, files, journal) == 2

    for wrong, said in ((snapshot, "starts up to number 1"), (MemoryFileSystem(), "no start")):
        with pytest.raises(UntrustedDiskError, match=f"its journal /j of {said}.*--folder /j`"):
            await start(cluster, files, wrong)

    assert (boots.load(files), boots.load(snapshot)) == (2, 1)
    assert await start(cluster, files, journal) == 3


async def test_a_journal_that_was_served_from_before_it_had_a_count_takes_the_datas(
    cluster: Cluster,
) -> None:
    files, journal = MemoryFileSystem(), MemoryFileSystem()
    await start(cluster, files)  # as it was: the data folder's alone was counted
    journal.create("arrival-00000001")
    snapshot = journal.crashed(random.Random(1))

    assert await start(cluster, files, journal) == 2

    assert boots.load(journal) == 2
    boots.save(snapshot, 1)
    with pytest.raises(UntrustedDiskError, match="its journal /j of starts up to number 1"):
        await start(cluster, files, snapshot)


async def test_a_data_folder_without_a_count_is_refused_whatever_the_journal_holds(
    cluster: Cluster,
) -> None:
    files, journal = MemoryFileSystem(), MemoryFileSystem()
    await start(cluster, files, journal)
    journal.create("arrival-00000001")

    with pytest.raises(UntrustedDiskError, match=r"its data folder of no start.*replace-disk`"):
        await start(cluster, MemoryFileSystem(), journal)


async def test_a_start_that_is_cut_short_between_the_folders_is_followed_by_one(
    cluster: Cluster,
) -> None:
    files, journal = MemoryFileSystem(), MemoryFileSystem()
    given: list[int] = []
    for left in range(TRIES):
        files.troubles = journal.troubles = no_power_after(left)
        with suppress(OSError):
            given.append(await start(cluster, files, journal))
        files, journal = (each.crashed(random.Random(left)) for each in (files, journal))
    assert given
    assert given == sorted(set(given))


async def test_of_a_disk_and_its_copy_only_one_goes_on(cluster: Cluster) -> None:
    files = MemoryFileSystem()
    await start(cluster, files)
    copy = files.crashed(random.Random(1))

    assert await start(cluster, copy) == 2
    with pytest.raises(UntrustedDiskError):
        await start(cluster, files)


async def test_no_number_is_given_twice_after_the_store_was_restored(cluster: Cluster) -> None:
    files = MemoryFileSystem()
    boots.save(files, 1_000_000_000)

    assert await start(cluster, files) == 1_000_000_001
    assert (await bookie_records.read(cluster, BOOKIE)).boot_epoch == 1_000_000_001


async def test_a_start_that_is_cut_short_anywhere_is_followed_by_one_with_a_new_number(
    cluster: Cluster,
) -> None:
    files = MemoryFileSystem()
    given: list[int] = []
    for left in range(20):
        files.troubles = no_power_after(left)
        try:
            given.append(await start(cluster, files))
        except OSError:
            files = files.crashed(random.Random(left))
    assert given
    assert given == sorted(set(given))


async def test_a_start_that_is_cut_short_after_lost_answers_is_followed_by_one(
    cluster: Cluster,
) -> None:
    """Its own attempts, of which it never heard, do not make it a disk that was set back."""
    assert isinstance(cluster.store, MemoryStore)
    files = MemoryFileSystem()
    given: list[int] = []
    for left in range(TRIES):
        rest, lost = left, 0

        def trouble(kind: str, name: str) -> None:
            nonlocal rest
            rest -= 1
            if rest < 0:
                raise OSError(f"no power at {kind} {name}")

        def weather(kind: RequestKind) -> Passage:
            nonlocal lost
            lost += kind is RequestKind.WRITE
            return Passage(
                loss=ExchangeLoss.ANSWER
                if kind is RequestKind.WRITE and lost <= 2
                else ExchangeLoss.NOTHING
            )

        files.troubles, cluster.store.weather = trouble, weather
        with suppress(OSError):
            given.append(await start(cluster, files))
        files = files.crashed(random.Random(left))
        given.append(await start(cluster, files))
    assert len(given) > TRIES
    assert given == sorted(set(given))


async def test_a_start_that_raced_a_removal_makes_no_record_anew(cluster: Cluster) -> None:
    """The record would outlive the bookie, and refuse the empty disk of the next of its name."""
    await cookie_store.delete(cluster, BOOKIE, version=0)
    with pytest.raises(cookie_store.NoCookieError, match="it was removed, or never there"):
        await start(cluster, MemoryFileSystem())
    assert await cluster.store.get(bookie_records.path(cluster, BOOKIE)) is None


async def test_a_start_is_not_counted_if_its_bookie_is_removed_at_that_moment(
    cluster: Cluster, server: MemoryServer
) -> None:
    assert isinstance(cluster.store, MemoryStore)
    removing = await clusters.open_cluster(MemoryStore(server))
    counting = asyncio.Event()

    def weather(kind: RequestKind) -> Passage:
        if kind is RequestKind.READ:
            return Passage()
        counting.set()
        return Passage(there_ms=200)

    async def is_refused() -> bool:
        with pytest.raises(cookie_store.NoCookieError):
            await start(cluster, MemoryFileSystem())
        return True

    cluster.store.weather = weather
    async with asyncio.TaskGroup() as group:
        refused = group.create_task(is_refused())
        await counting.wait()
        await cookie_store.delete(removing, BOOKIE, version=0)
    assert refused.result()
    assert await removing.store.get(bookie_records.path(removing, BOOKIE)) is None
    await removing.store.close()


async def test_a_damaged_count_is_refused(cluster: Cluster) -> None:
    files = MemoryFileSystem()
    await start(cluster, files)
    files.open(boots.NAME).write(15, [b"\x07"])

    with pytest.raises(UntrustedDiskError, match="'boots' in the data folder is damaged"):
        await start(cluster, files)


async def test_a_damaged_count_of_the_journal_is_refused_with_its_folder(cluster: Cluster) -> None:
    files, journal = MemoryFileSystem(), MemoryFileSystem()
    await start(cluster, files, journal)
    journal.open(boots.NAME).write(15, [b"\x07"])

    with pytest.raises(UntrustedDiskError, match=r"'boots' in the journal /j is.*--folder /j`"):
        await start(cluster, files, journal)


def test_version_1_is_read_for_ever() -> None:
    golden = hextext.read("../bookie/golden/boots_v1.txt")["boots"]

    assert boots.render(0x0102030405) == golden
    assert boots.parse(golden) == 0x0102030405


@given(at=st.integers(0, 19), bit=st.integers(0, 7))
def test_a_count_with_a_wrong_bit_is_no_count(at: int, bit: int) -> None:
    data = bytearray(boots.render(7))
    data[at] ^= 1 << bit
    with pytest.raises(FormatError):
        boots.parse(bytes(data))


@pytest.mark.parametrize("size", range(20))
def test_a_count_that_is_cut_off_is_no_count(size: int) -> None:
    with pytest.raises(FormatError):
        boots.parse(boots.render(7)[:size])


async def test_a_count_of_a_newer_version_is_not_called_damaged(cluster: Cluster) -> None:
    files = MemoryFileSystem()
    await start(cluster, files)
    files.open(boots.NAME).write(4, [b"\x02"])

    with pytest.raises(UntrustedDiskError, match=r"newer zonekeeper .* start that version"):
        await start(cluster, files)
