"""A bookie starts on its own disk, and on no other; a refusal changes nothing."""

import random
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.bookie import running
from zonekeeper.bookie.disk.disks import InlineDisk
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem
from zonekeeper.bookie.formats.batch_format import Position
from zonekeeper.bookie.life import boots, identity
from zonekeeper.bookie.life.identity import WrongDiskError
from zonekeeper.bookie.segments import checkpoint
from zonekeeper.metadata.bookies import bookie_records, cookie_store
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import cookies
from zonekeeper.metadata.formats.cookies import Cookie
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.metadata.stores.memory_server import MemoryServer
from zonekeeper.placement.base import locations
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.policy.unnamed import NeverNamedError

BOOKIE = BookieId("bk-a-0")
HERE = locations.parse("/a/ud-0")
NEXT_DOMAIN = locations.parse("/a/ud-1")
ELSEWHERE = locations.parse("/b/ud-0")


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    store = MemoryStore(MemoryServer())
    yield await clusters.initialise(store, "11111111-2222-3333-4444-555555555555")
    await store.close()


async def settle(
    cluster: Cluster,
    files: MemoryFileSystem,
    location: locations.Location | None = HERE,
    *,
    bookie: BookieId = BOOKIE,
    data: str = "/data",
) -> Cookie:
    mine = identity.of_bookie(bookie, cluster, Path(data))
    return await identity.settle_all(
        cluster, mine, location, {None: files}, disk=InlineDisk(), chance=random.Random(1)
    )


async def settle_all(cluster: Cluster, files: dict[str | None, MemoryFileSystem]) -> Cookie:
    """Settle a bookie with a journal and two ledger directories of their own."""
    ledgers = [Path("/l1"), Path("/l2")]
    mine = identity.of_bookie(BOOKIE, cluster, Path("/data"), journal=Path("/j"), ledgers=ledgers)
    return await identity.settle_all(
        cluster, mine, HERE, files, disk=InlineDisk(), chance=random.Random(1)
    )


def folders() -> dict[str | None, MemoryFileSystem]:
    return {each: MemoryFileSystem() for each in (None, "/j", "/l1", "/l2")}


def contents(files: MemoryFileSystem) -> dict[str, bytes]:
    return {name: files.open(name).read(0, 1 << 20) for name in files.names()}


async def serve_from(files: MemoryFileSystem) -> None:
    """Leave what a start leaves."""
    kept = await running.open_storage(files, InlineDisk(), InlineDisk())
    await kept.close()


async def test_s131_a_new_bookie_in_a_zone_that_no_policy_can_name_is_refused(
    cluster: Cluster,
) -> None:
    files, odd = MemoryFileSystem(), locations.parse("/Zone_A/ud-0")
    with pytest.raises(NeverNamedError, match="the zone of bk-a-0: 'Zone_A' can be a zone of no"):
        await settle(cluster, files, odd)
    assert files.names() == []
    assert await stored(cluster) is None

    # One whose cookie has no location, as that of an Apache bookie, gets its first one now.
    await cookie_store.create(cluster, identity.of_bookie(BOOKIE, cluster, Path("/data")))
    with pytest.raises(NeverNamedError):
        await settle(cluster, files, odd)
    await cookie_store.delete(cluster, BOOKIE, version=0)

    # One of an older version, which allowed it, has data perhaps.
    mine = identity.of_bookie(BOOKIE, cluster, Path("/data"))
    made = await settle(cluster, files)
    assert made.location == HERE
    await cookie_store.delete(cluster, BOOKIE, version=0)
    assert odd is not None
    await cookie_store.create(cluster, mine.at(odd))
    identity.write(files, identity.Version(cookie=mine.at(odd)))
    await serve_from(files)
    assert (await settle(cluster, files, odd)).location == odd


async def stored(cluster: Cluster) -> Cookie | None:
    found = await cookie_store.read(cluster, BOOKIE)
    return None if found is None else found.cookie


async def test_a_new_bookie_gets_its_cookie_with_its_location_in_both_places(
    cluster: Cluster,
) -> None:
    files = MemoryFileSystem()

    cookie = await settle(cluster, files)

    assert cookie.location == HERE
    assert await stored(cluster) == cookie
    assert cookies.parse(contents(files)[identity.VERSION_NAME]) == cookie
    assert checkpoint.NAME in files.names()


async def test_it_starts_again_and_a_new_upgrade_domain_is_written_to_both(
    cluster: Cluster,
) -> None:
    files = MemoryFileSystem()
    first = await settle(cluster, files)
    await serve_from(files)

    assert await settle(cluster, files) == first
    assert await settle(cluster, files, None) == first
    moved = await settle(cluster, files, NEXT_DOMAIN)

    assert moved.location == NEXT_DOMAIN
    assert await stored(cluster) == moved
    assert cookies.parse(contents(files)[identity.VERSION_NAME]) == moved


async def test_another_zone_is_refused(cluster: Cluster) -> None:
    files = MemoryFileSystem()
    first = await settle(cluster, files)
    before = contents(files)

    with pytest.raises(cookies.ZoneChangedError, match="cookie move-zone"):
        await settle(cluster, files, ELSEWHERE)

    assert contents(files) == before
    assert await stored(cluster) == first


async def test_a_new_bookie_that_does_not_know_where_it_stands_is_refused(
    cluster: Cluster,
) -> None:
    files = MemoryFileSystem()

    with pytest.raises(cookies.LocationUnknownError):
        await settle(cluster, files, None)

    assert contents(files) == {}
    assert await stored(cluster) is None


async def test_a_wiped_disk_is_refused(cluster: Cluster) -> None:
    await settle(cluster, MemoryFileSystem())
    wiped = MemoryFileSystem()

    with pytest.raises(WrongDiskError, match="no file VERSION"):
        await settle(cluster, wiped)

    assert contents(wiped) == {}


async def test_a_lost_log_is_refused(cluster: Cluster) -> None:
    files = MemoryFileSystem()
    await settle(cluster, files)
    files.remove(checkpoint.NAME)

    with pytest.raises(WrongDiskError, match="no file checkpoint"):
        await settle(cluster, files)


async def test_the_disk_of_another_bookie_is_refused(cluster: Cluster) -> None:
    files = MemoryFileSystem()
    await settle(cluster, files)

    with pytest.raises(cookies.OtherBookieError, match="bk-a-0"):
        await settle(cluster, files, bookie=BookieId("bk-a-3"))
    with pytest.raises(cookies.OtherBookieError, match="journal_dirs"):
        await settle(cluster, files, data="/elsewhere")

    assert await cookie_store.ids(cluster) == [BOOKIE]


async def test_the_disk_of_another_cluster_is_refused(cluster: Cluster) -> None:
    files = MemoryFileSystem()
    await settle(cluster, files)
    store = MemoryStore(MemoryServer())
    other = await clusters.initialise(store, "99999999-2222-3333-4444-555555555555")

    with pytest.raises(cookies.OtherBookieError, match="instance"):
        await settle(other, files)
    await store.close()


async def test_a_folder_with_something_else_in_it_is_refused(cluster: Cluster) -> None:
    files = MemoryFileSystem()
    files.create("holiday.jpg")

    with pytest.raises(WrongDiskError, match=r"holiday\.jpg"):
        await settle(cluster, files)

    assert await stored(cluster) is None


async def test_a_removed_bookie_does_not_come_back_with_its_data(cluster: Cluster) -> None:
    files = MemoryFileSystem()
    await settle(cluster, files)
    await serve_from(files)
    await cookie_store.delete(cluster, BOOKIE, version=0)

    with pytest.raises(WrongDiskError, match="was removed"):
        await settle(cluster, files)

    assert await stored(cluster) is None


async def test_a_first_start_that_was_cut_short_anywhere_goes_on_where_it_stopped(
    cluster: Cluster,
) -> None:
    calls: list[str] = []
    counting = MemoryFileSystem()
    counting.troubles = lambda kind, _: calls.append(kind)
    await settle(cluster, counting)
    for dies_at in range(len(calls)):
        await cookie_store.delete(cluster, BOOKIE, version=0)
        await cut_short_and_go_on(cluster, dies_at)


async def cut_short_and_go_on(cluster: Cluster, dies_at: int) -> None:
    files = MemoryFileSystem()
    left = dies_at

    def trouble(kind: str, name: str) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(f"no power at {kind} {name}")

    files.troubles = trouble
    with pytest.raises(OSError, match="no power"):
        await settle(cluster, files)
    after = files.crashed(random.Random(dies_at))

    assert await settle(cluster, after) == await stored(cluster)
    await serve_from(after)


async def test_a_first_start_in_several_folders_that_was_cut_short_anywhere_goes_on(
    cluster: Cluster,
) -> None:
    await bookie_records.count_boot(cluster, BOOKIE, 1)
    dies_at, ended = 0, False
    while not ended:
        files, left = folders(), dies_at

        def trouble(kind: str, name: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise OSError(f"no power at {kind} {name}")

        for each in files.values():
            each.troubles = trouble
        try:
            await settle_all(cluster, files)
        except OSError:
            after = {name: each.crashed(random.Random(dies_at)) for name, each in files.items()}
            assert await settle_all(cluster, after) == await stored(cluster)
        else:
            ended = True
        await cookie_store.delete(cluster, BOOKIE, version=0)
        dies_at += 1


@pytest.mark.parametrize("lost", [("/j",), ("/j", "/l1", "/l2")])
async def test_a_store_that_lost_the_cookie_lets_no_bookie_pass_for_new_without_its_disks(
    cluster: Cluster, lost: tuple[str, ...]
) -> None:
    """Its arrival segments are in the folder that is not mounted."""
    files = folders()
    await settle_all(cluster, files)
    await cookie_store.delete(cluster, BOOKIE, version=0)
    unmounted = files | {each: MemoryFileSystem() for each in lost}

    with pytest.raises(WrongDiskError, match="no file VERSION"):
        await settle_all(cluster, unmounted)

    assert await stored(cluster) is None


@pytest.mark.parametrize("proof", ["boots", "a segment", "the mark"])
async def test_what_was_served_is_known_by_what_is_there_still(
    cluster: Cluster, proof: str
) -> None:
    files = folders()
    await settle_all(cluster, files)
    await cookie_store.delete(cluster, BOOKIE, version=0)
    data = files[None]
    if proof == "boots":
        boots.save(data, 1)
    elif proof == "a segment":
        files["/l2"].create("sorted-00000001")
    else:
        checkpoint.save(data, replace(checkpoint.load(data), mark=Position(3, 7)))

    with pytest.raises(WrongDiskError, match="cookie create"):
        await settle_all(cluster, files)

    assert await stored(cluster) is None


async def test_each_folder_has_the_cookie_and_says_which_it_is(cluster: Cluster) -> None:
    files = folders()

    cookie = await settle_all(cluster, files)

    assert cookie.index_dirs == ("/data",)
    assert cookie.ledger_dirs == ("/l1", "/l2")
    assert await stored(cluster) == cookie
    for folder, each in files.items():
        version = identity.read(each)
        assert version is not None
        assert (version.cookie, version.folder) == (cookie, folder)
    assert await settle_all(cluster, files) == cookie


@pytest.mark.parametrize("lost", ["/j", "/l1", "/l2"])
async def test_a_folder_that_was_wiped_is_refused_with_the_command_that_replaces_it(
    cluster: Cluster, lost: str
) -> None:
    files = folders()
    await settle_all(cluster, files)
    files[lost] = MemoryFileSystem()

    with pytest.raises(WrongDiskError, match=f"replace-disk --folder {lost}`"):
        await settle_all(cluster, files)

    assert contents(files[lost]) == {}


async def test_swapped_folders_are_refused(cluster: Cluster) -> None:
    files = folders()
    await settle_all(cluster, files)

    for one, other in (("/l1", "/l2"), ("/j", "/l1"), (None, "/j")):
        swapped = {**files, one: files[other], other: files[one]}
        with pytest.raises(WrongDiskError):
            await settle_all(cluster, swapped)


async def test_a_folder_of_another_bookie_is_refused(cluster: Cluster) -> None:
    files, foreign = folders(), MemoryFileSystem()
    await settle_all(cluster, files)
    await settle(cluster, foreign, bookie=BookieId("bk-a-3"))

    with pytest.raises(cookies.OtherBookieError, match="bk-a-3"):
        await settle_all(cluster, {**files, "/l2": foreign})


async def test_a_new_bookie_is_given_only_empty_folders(cluster: Cluster) -> None:
    files = folders()
    files["/l2"].create("sorted-00000001")

    with pytest.raises(WrongDiskError, match=r"folder /l2 is not empty \(sorted-00000001\)"):
        await settle_all(cluster, files)

    assert await stored(cluster) is None


async def test_a_bookie_with_other_folders_than_it_had_is_refused(cluster: Cluster) -> None:
    files = MemoryFileSystem()
    await settle(cluster, files)

    with pytest.raises(cookies.OtherBookieError, match="journal_dirs"):
        await settle_all(cluster, folders() | {None: files})


async def test_a_name_that_was_used_before_goes_on_with_the_count_of_starts(
    cluster: Cluster,
) -> None:
    await bookie_records.count_boot(cluster, BOOKIE, 1)
    files = MemoryFileSystem()

    await settle(cluster, files)

    started = boots.next_boot(cluster, BOOKIE, {None: files}, journal=files, disk=InlineDisk())
    assert await started == 2


async def test_the_journal_of_such_a_name_goes_on_with_the_count_too(cluster: Cluster) -> None:
    await bookie_records.count_boot(cluster, BOOKIE, 1)
    files = folders()

    await settle_all(cluster, files)

    assert {name for name, each in files.items() if boots.load(each) == 1} == {None, "/j"}
