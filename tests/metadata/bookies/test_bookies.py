"""Bookies in the store: cookies, registration, and records."""

import asyncio
from collections.abc import Callable
from itertools import count

import pytest

from tests.metadata import weather
from tests.support.stores import MemoryPlace
from zonekeeper.metadata.bookies import bookie_records, cookie_store, registration
from zonekeeper.metadata.bookies.bookie_records import BookieRecord, Mark
from zonekeeper.metadata.bookies.registration import Mode, Registrar
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import cookies, records, service_info
from zonekeeper.metadata.formats.cookies import Cookie
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.formats.release_formats import FormatRange, ReleaseFormats
from zonekeeper.metadata.stores.memory import ExchangeLoss, MemoryStore, Passage, RequestKind
from zonekeeper.metadata.stores.memory_server import Change, MemoryServer
from zonekeeper.metadata.stores.timeouts import Timeouts
from zonekeeper.placement.base.ids import BookieId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location

INSTANCE = "d58c3de9-d9c6-429e-be20-474dcad4d089"
A, B = BookieId("c-a-0"), BookieId("c-b-0")
IN_A, IN_B = (Location(ZoneName(zone), UpgradeDomain("ud-0")) for zone in "ab")
IN_A_UD1 = Location(ZoneName("a"), UpgradeDomain("ud-1"))
WHY = Mark(at_ms=1, by="shell", reason="disk is old")
SHORT = Timeouts(session_ms=100, request_ms=5_000)


def cookie(bookie: BookieId, location: Location | None = IN_A) -> Cookie:
    return Cookie(
        bookie=bookie,
        journal_dirs=("/j",),
        ledger_dirs=("/l",),
        instance=INSTANCE,
        location=location,
    )


def registrar(
    cluster: Cluster,
    bookie: BookieId,
    *,
    session_timeout_ms: int = 60_000,
    boot_epoch: int | None = None,
) -> Registrar:
    info = service_info.of_bookie("127.0.0.1", 3181, IN_A, tls=False, boot_epoch=boot_epoch)
    return Registrar(cluster, bookie, info, session_timeout_ms=session_timeout_ms)


async def sides(cluster: Cluster, bookie: BookieId) -> tuple[bool, bool]:
    """Is it registered as writable, as read-only?"""
    return (
        await cluster.store.exists(cluster.root.writable(bookie), sync=True),
        await cluster.store.exists(cluster.root.read_only(bookie), sync=True),
    )


# ── cookies ──


async def test_a_cookie_is_written_once_and_read_back(cluster: Cluster) -> None:
    await cookie_store.create(cluster, cookie(A))
    await cookie_store.create(cluster, cookie(A))
    stored = await cookie_store.read(cluster, A)
    assert stored is not None
    assert (stored.cookie, stored.version) == (cookie(A), 0)
    assert await cookie_store.ids(cluster) == [A]
    with pytest.raises(cookie_store.CookieExistsError, match="has a cookie"):
        await cookie_store.create(cluster, cookie(A, IN_B))


async def test_a_location_is_filled_in_and_follows_the_upgrade_domain(cluster: Cluster) -> None:
    await cookie_store.create(cluster, cookie(A, None))
    assert (await cookie_store.settle_location(cluster, A, IN_A)).location == IN_A
    assert (await cookie_store.settle_location(cluster, A, IN_A_UD1)).location == IN_A_UD1
    stored = await cookie_store.read(cluster, A)
    assert stored is not None
    assert stored.version == 2


async def test_a_location_that_apache_dropped_is_filled_in_again(cluster: Cluster) -> None:
    await cookie_store.create(cluster, cookie(A))
    rewritten = cookies.render(cookie(A, None))
    await cluster.store.put(cluster.root.cookie(A), rewritten, version=0)
    assert (await cookie_store.settle_location(cluster, A, IN_A)).location == IN_A


async def test_another_zone_is_refused_until_a_person_moves_the_bookie(cluster: Cluster) -> None:
    await cookie_store.create(cluster, cookie(A))
    with pytest.raises(cookies.ZoneChangedError):
        await cookie_store.settle_location(cluster, A, IN_B)
    await cookie_store.move(cluster, A, IN_B)
    assert (await cookie_store.settle_location(cluster, A, IN_B)).location == IN_B


async def test_a_bookie_without_a_cookie_has_nothing_to_settle(cluster: Cluster) -> None:
    with pytest.raises(cookie_store.NoCookieError):
        await cookie_store.settle_location(cluster, A, IN_A)


async def test_a_removed_cookie_is_gone_and_removing_it_again_is_fine(cluster: Cluster) -> None:
    await cookie_store.create(cluster, cookie(A))
    await cookie_store.delete(cluster, A, version=0)
    await cookie_store.delete(cluster, A, version=0)
    assert await cookie_store.read(cluster, A) is None


# ── records ──


async def test_each_writer_of_a_record_leaves_the_others_alone(cluster: Cluster) -> None:
    assert await bookie_records.count_boot(cluster, A, 1)
    await bookie_records.drain(cluster, A, WHY)
    await bookie_records.write_off(cluster, A, WHY)
    assert await bookie_records.count_boot(cluster, A, 2)
    await bookie_records.write_off(cluster, A, None)
    assert await bookie_records.read(cluster, A) == BookieRecord(boot_epoch=2, draining=WHY)


async def test_what_a_bookie_said_at_another_start_is_not_taken_back(cluster: Cluster) -> None:
    await bookie_records.lost_data(cluster, A, 2)
    await bookie_records.drain(cluster, A, WHY)
    await bookie_records.has_all_again(cluster, A, 1)
    assert await bookie_records.read(cluster, A) == BookieRecord(lost_data=2, draining=WHY)
    await bookie_records.has_all_again(cluster, A, 2)
    assert await bookie_records.read(cluster, A) == BookieRecord(draining=WHY)


async def test_what_a_newer_program_wrote_is_kept(cluster: Cluster) -> None:
    raw = b'{"format":1,"instance":"%s","rack":{"row":7}}' % INSTANCE.encode()
    path = cluster.root.beside(f"bookies/{A}")
    await cluster.store.create(path, raw)
    await bookie_records.count_boot(cluster, A, 1)
    node = await cluster.store.get(path)
    assert node is not None
    assert b'"rack":{"row":7}' in node.value
    assert b'"bootEpoch":1' in node.value


async def test_a_record_of_another_cluster_counts_as_absent_and_is_reported(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    raw = b'{"bootEpoch":9,"format":1,"instance":"elsewhere"}'
    await cluster.store.create(cluster.root.beside(f"bookies/{A}"), raw)
    assert await bookie_records.count_boot(cluster, A, 1)
    assert "instance 'elsewhere'" in caplog.text


async def test_a_damaged_record_is_not_an_absent_one(cluster: Cluster) -> None:
    await cluster.store.create(cluster.root.beside(f"bookies/{A}"), b"{")
    with pytest.raises(UnreadableError):
        await bookie_records.count_boot(cluster, A, 1)


async def test_a_boot_whose_answer_was_lost_leaves_its_number_out_and_counts_no_further(
    memory: MemoryPlace,
) -> None:
    store = await memory.open()
    cluster = await clusters.initialise(store, INSTANCE)
    weather.lose(store, 0, ExchangeLoss.ANSWER)
    assert not await bookie_records.count_boot(cluster, A, 1)
    assert (await bookie_records.read(cluster, A)).boot_epoch == 1
    assert await bookie_records.count_boot(cluster, A, 2)


async def test_a_boot_does_not_take_a_number_back(cluster: Cluster) -> None:
    assert await bookie_records.count_boot(cluster, A, 7)
    assert not await bookie_records.count_boot(cluster, A, 6)
    assert (await bookie_records.read(cluster, A)).boot_epoch == 7


async def test_two_that_count_a_boot_never_get_one_number_though_a_request_was_lost(
    memory: MemoryPlace,
) -> None:
    """What the second wrote is byte by byte what the first would have written."""
    one = await clusters.initialise(await memory.open(), INSTANCE)
    two = await clusters.open_cluster(await memory.open())
    assert isinstance(one.store, MemoryStore)
    lost = asyncio.Event()

    def weather(kind: RequestKind) -> Passage:
        if kind is RequestKind.READ or lost.is_set():
            return Passage()
        lost.set()
        return Passage(loss=ExchangeLoss.REQUEST)

    one.store.weather = weather
    async with asyncio.TaskGroup() as group:
        first = group.create_task(bookie_records.count_boot(one, A, 1))
        await lost.wait()
        second = await bookie_records.count_boot(two, A, 1)
    assert sorted([first.result(), second]) == [False, True]


# ── registration ──


async def test_a_bookie_registers_and_changes_sides_and_is_never_on_both(cluster: Cluster) -> None:
    bookie = registrar(cluster, A)
    await bookie.register(Mode.WRITABLE)
    assert await sides(cluster, A) == (True, False)
    await bookie.register(Mode.READ_ONLY)
    assert await sides(cluster, A) == (False, True)
    await bookie.register(Mode.READ_ONLY)
    assert await sides(cluster, A) == (False, True)
    await bookie.register(Mode.WRITABLE)
    assert await sides(cluster, A) == (True, False)
    info = await registration.read_service_info(cluster, A)
    assert info is not None
    assert info.bookie is not None
    assert info.bookie.port == 3181
    await bookie.leave()
    assert await sides(cluster, A) == (False, False)


class Onlooker:
    """Sees on which sides a bookie is after each change."""

    read_lag_ms = 0

    def __init__(self, server: MemoryServer, cluster: Cluster, bookie: BookieId) -> None:
        self.seen: list[tuple[bool, bool]] = []
        self._server = server
        self._paths = (cluster.root.writable(bookie), cluster.root.read_only(bookie))

    def changed(self, change: Change) -> None:
        writable, read_only = (self._server.node(path, change.id) for path in self._paths)
        self.seen.append((writable is not None, read_only is not None))

    def session_ended(self) -> None: ...


@pytest.mark.parametrize("first", Mode)
@pytest.mark.parametrize("looks", range(4))
async def test_a_change_of_mind_while_it_registers_shows_the_bookie_once(
    memory: MemoryPlace, first: Mode, looks: int
) -> None:
    """Whatever is asked for between two looks at the store, no plan is made for half of each."""
    store = await memory.open()
    assert isinstance(store, MemoryStore)
    cluster = await clusters.initialise(store, INSTANCE)
    bookie = registrar(cluster, A)
    second = Mode.READ_ONLY if first is Mode.WRITABLE else Mode.WRITABLE
    await bookie.register(second)
    onlooker = Onlooker(memory.server, cluster, A)
    memory.server.join(onlooker)
    requests = count()
    async with asyncio.TaskGroup() as group:

        def change_mind(_: RequestKind) -> Passage:
            if next(requests) == looks:
                group.create_task(bookie.register(second))
            return Passage(there_ms=1)

        store.weather = change_mind
        await bookie.register(first)
    assert all(writable != read_only for writable, read_only in onlooker.seen), onlooker.seen


@pytest.mark.parametrize("loss", [ExchangeLoss.ANSWER, ExchangeLoss.REQUEST])
@pytest.mark.parametrize("number", range(3))
async def test_registering_in_doubt_ends_on_one_side(
    memory: MemoryPlace, number: int, loss: ExchangeLoss
) -> None:
    store = await memory.open()
    cluster = await clusters.initialise(store, INSTANCE)
    weather.lose(store, number, loss)
    bookie = registrar(cluster, A)
    await bookie.register(Mode.WRITABLE)
    await bookie.register(Mode.READ_ONLY)
    assert await sides(cluster, A) == (False, True)


async def test_a_bookie_that_changes_sides_between_two_looks_is_registered(
    memory: MemoryPlace,
) -> None:
    cluster = await clusters.initialise(await memory.open(), INSTANCE)
    looking = await clusters.open_cluster(await memory.open())
    assert isinstance(looking.store, MemoryStore)
    bookie, looks = registrar(cluster, A), count(1)
    await bookie.register(Mode.READ_ONLY)
    second = asyncio.Event()

    def weather(_: RequestKind) -> Passage:
        if next(looks) != 2:
            return Passage()
        second.set()
        return Passage(there_ms=200)

    looking.store.weather = weather
    async with asyncio.TaskGroup() as group:
        found = group.create_task(registration.read_service_info(looking, A))
        await second.wait()
        await bookie.register(Mode.WRITABLE)
    assert found.result() is not None


async def test_a_foreign_bookie_in_the_root_is_refused_by_name(
    cluster: Cluster, golden: Callable[[str], bytes]
) -> None:
    path = cluster.root.below("available/10.0.0.1:3181")
    await cluster.store.create(path, golden("service-info"), ephemeral=True)
    with pytest.raises(registration.ForeignBookiesError, match=r"10\.0\.0\.1:3181"):
        await registrar(cluster, A).register(Mode.WRITABLE)
    assert await sides(cluster, A) == (False, False)


async def test_a_bookie_without_any_info_is_foreign_too(cluster: Cluster) -> None:
    path = cluster.root.below("available/readonly/old")
    await cluster.store.create(path, ephemeral=True)
    with pytest.raises(registration.ForeignBookiesError, match="readonly/old"):
        await registrar(cluster, A).register(Mode.WRITABLE)


async def test_the_session_of_a_crashed_self_is_waited_out(memory: MemoryPlace) -> None:
    cluster = await clusters.initialise(await memory.open(), INSTANCE)
    crashed = await memory.open(SHORT)
    before = await clusters.open_cluster(crashed)
    await registrar(before, A).register(Mode.WRITABLE)
    assert isinstance(crashed, MemoryStore)
    crashed.cut()  # its session ends at its timeout
    await registrar(cluster, A).register(Mode.WRITABLE)
    node = await cluster.store.get(cluster.root.writable(A))
    assert node is not None
    assert node.owner == cluster.store.session.id


async def test_another_living_process_of_the_same_name_is_refused(
    cluster: Cluster, other: Cluster
) -> None:
    await registrar(other, A).register(Mode.READ_ONLY)
    with pytest.raises(registration.NameTakenError, match="another process runs as c-a-0"):
        await registrar(cluster, A, session_timeout_ms=40).register(Mode.WRITABLE)
    assert await sides(cluster, A) == (False, True)


@pytest.mark.parametrize("before", Mode)
@pytest.mark.parametrize("boot_epoch", [3, 4])
async def test_who_is_known_as_a_former_life_is_replaced_at_once(
    cluster: Cluster, other: Cluster, before: Mode, boot_epoch: int
) -> None:
    await registrar(other, A, boot_epoch=3).register(before)
    mine = registrar(cluster, A, boot_epoch=boot_epoch)
    await mine.register(Mode.WRITABLE)
    node = await cluster.store.get(cluster.root.writable(A), sync=True)
    assert node is not None
    assert node.owner == cluster.store.session.id
    assert await sides(cluster, A) == (True, False)
    await mine.leave()
    assert await sides(cluster, A) == (False, False)


async def test_an_earlier_start_never_takes_the_place_of_a_later_one(
    cluster: Cluster, other: Cluster
) -> None:
    await registrar(other, A, boot_epoch=4).register(Mode.READ_ONLY)
    with pytest.raises(registration.NameTakenError, match="start 4 of c-a-0, and this is start 3"):
        await registrar(cluster, A, boot_epoch=3).register(Mode.WRITABLE)
    assert await sides(cluster, A) == (False, True)


async def test_the_formats_that_took_up_a_disk_stay_until_others_do(cluster: Cluster) -> None:
    some = ReleaseFormats(
        version="0.1.0",
        wire={"client-bookie": FormatRange(1, 1)},
        disk={"checkpoint": FormatRange(1, 3)},
        metadata={},
    )
    await bookie_records.count_boot(cluster, A, 1)
    assert (await bookie_records.read(cluster, A)).formats is None
    await bookie_records.tell_formats(cluster, A, some)
    assert (await bookie_records.read(cluster, A)).formats == some

    path = cluster.root.beside(f"bookies/{A}")
    before = await cluster.store.get(path)
    await bookie_records.tell_formats(cluster, A, some)
    after = await cluster.store.get(path)
    assert before is not None
    assert after is not None
    assert after.version == before.version, "nothing new is written twice"

    await bookie_records.count_boot(cluster, A, 2)
    assert (await bookie_records.read(cluster, A)).formats == some


async def test_formats_that_make_no_sense_are_unknown(cluster: Cluster) -> None:
    raw = records.render({"bootEpoch": 1, "formats": {"version": 1}}, cluster.instance)
    assert bookie_records.parse(raw, cluster.instance).formats is None
