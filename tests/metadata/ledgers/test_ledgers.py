"""Ledgers in the store: created once, changed by steps, deleted with proof, listed in ranges."""

import asyncio
import dataclasses
from itertools import pairwise

import pytest

from tests.metadata import weather
from tests.support import virtual_time
from tests.support.stores import MemoryPlace, Place
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import restored
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.restored import Restored
from zonekeeper.metadata.formats import ledger_format, ledger_metadata, ledger_paths
from zonekeeper.metadata.formats.ledger_metadata import Fragment, IllegalChangeError, LedgerMetadata
from zonekeeper.metadata.ledgers import ledger_ids, ledger_listing, ledgers
from zonekeeper.metadata.ledgers.deletions import Deleter
from zonekeeper.metadata.ledgers.ledger_listing import UnreadableLedger
from zonekeeper.metadata.store.errors import StoreUnavailableError
from zonekeeper.metadata.stores.memory import ExchangeLoss, MemoryStore, Passage, RequestKind
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId

DELETER = Deleter(by="test", at_ms=1)
INSTANCE = "d58c3de9-d9c6-429e-be20-474dcad4d089"
A, B, C, D = (BookieId(name) for name in "abcd")

NEW = LedgerMetadata(
    ensemble_size=3,
    write_quorum=3,
    ack_quorum=2,
    fragments=(Fragment(EntryId(0), (A, B, C)),),
    digest=Digest.CRC32C,
    password=b"secret",
    create_token=41,
)
OTHER = dataclasses.replace(NEW, create_token=42)


def close_at(last: int) -> ledgers.Change:
    return lambda old: ledger_metadata.closed(old, last_entry=EntryId(last), length=last + 1)


# ── creating ──


async def test_a_ledger_is_created_and_read_back(cluster: Cluster) -> None:
    created = await ledgers.create(cluster, NEW)
    assert await ledgers.read(cluster, created.id) == created
    assert created.metadata == NEW
    assert await cluster.store.children(cluster.root.below("idgen")) == ()


async def test_ids_are_never_given_twice(place: Place, cluster: Cluster) -> None:
    others = [await clusters.open_cluster(await place.open()) for _ in range(3)]

    async def take(one: Cluster) -> list[LedgerId]:
        return [await ledger_ids.allocate(one) for _ in range(10)]

    taken = await asyncio.gather(*(take(one) for one in (cluster, *others)))
    ids = [ledger_id for some in taken for ledger_id in some]
    assert len(set(ids)) == len(ids) == 40


async def test_a_given_id_is_created_once(cluster: Cluster) -> None:
    wanted = LedgerId(77)
    await ledgers.create(cluster, NEW, ledger_id=wanted)
    again = await ledgers.create(cluster, NEW, ledger_id=wanted)
    assert again.id == wanted, "the same creator may repeat itself"
    with pytest.raises(ledgers.LedgerExistsError, match="ledger 77 exists"):
        await ledgers.create(cluster, OTHER, ledger_id=wanted)


async def test_an_id_that_a_ledger_has_is_passed_over(cluster: Cluster) -> None:
    await ledgers.create(cluster, OTHER, ledger_id=LedgerId(0))
    assert (await ledgers.create(cluster, NEW)).id == 1


async def test_the_long_form_begins_where_its_directory_is(cluster: Cluster) -> None:
    path = cluster.root.below(f"idgen-long/{ledger_ids.high_directory(9)}")
    await cluster.store.create(path, make_parents=True)
    ids = [await ledger_ids.allocate(cluster) for _ in range(3)]
    assert ids == [9 << 32, (9 << 32) + 1, (9 << 32) + 2]
    created = await ledgers.create(cluster, NEW)
    assert await ledgers.read(cluster, created.id) == created


@pytest.mark.parametrize("known", [0, 3])
async def test_who_reads_from_a_follower_that_lags_draws_no_id_of_before_a_restore(
    memory: MemoryPlace, known: int
) -> None:
    """Bookies may hold ledgers with such an id, which the root does not know any more."""
    store = await memory.open()
    assert isinstance(store, MemoryStore)
    lagging = await clusters.initialise(store, INSTANCE)
    if known:
        path = lagging.root.below(f"idgen-long/{ledger_ids.high_directory(known)}")
        await store.create(path, make_parents=True)
    cluster = await clusters.open_cluster(await memory.open())
    store.read_lag_ms = 5_000
    path = cluster.root.below(f"idgen-long/{ledger_ids.high_directory(9)}")
    await cluster.store.create(path, make_parents=True)
    assert await ledger_ids.allocate(lagging) == 9 << 32
    assert await ledger_ids.allocate(cluster) == (9 << 32) + 1


@pytest.mark.parametrize("loss", [ExchangeLoss.ANSWER, ExchangeLoss.REQUEST])
@pytest.mark.parametrize("number", range(7))
async def test_a_ledger_whose_creation_was_in_doubt_is_there_once(
    memory: MemoryPlace, number: int, loss: ExchangeLoss
) -> None:
    """Each write in turn is lost, or its answer: drawing the id, the directories, the ledger."""
    store = await memory.open()
    cluster = await clusters.initialise(store, INSTANCE)
    weather.lose(store, number, loss)
    created = await ledgers.create(cluster, NEW)
    found = [one async for one in ledger_listing.all_of(cluster)]
    assert found == [created]


@virtual_time.played
async def test_a_creation_whose_answer_is_lost_with_the_store_may_have_happened() -> None:
    """Each later attempt fails for certain, which tells nothing of the first."""
    place = MemoryPlace()
    store = await place.open()
    assert isinstance(store, MemoryStore)
    cluster = await clusters.initialise(store, INSTANCE)
    beside = await clusters.open_cluster(await place.open())
    await ledgers.create(cluster, NEW, ledger_id=LedgerId(2))
    store.weather = lambda _: Passage(back_ms=1_000)
    asyncio.get_running_loop().call_later(0.5, store.cut)
    with pytest.raises(StoreUnavailableError) as lost:
        await ledgers.create(cluster, OTHER, ledger_id=LedgerId(3), rebuilt=True)
    assert await ledgers.read(beside, LedgerId(3)) is not None
    assert lost.value.maybe_applied
    store.mend()
    await place.close()


@virtual_time.played
async def test_s119_a_ledger_that_is_deleted_before_its_creator_knows_it_is_not_made_again() -> (
    None
):
    """Bookies may have collected it, and refuse its token for ever: it could never be recovered."""
    place = MemoryPlace()
    store = await place.open()
    assert isinstance(store, MemoryStore)
    cluster = await clusters.initialise(store, INSTANCE)
    beside = await clusters.open_cluster(await place.open())
    before = await ledgers.create(cluster, OTHER)
    sent = 0

    def weather(kind: RequestKind) -> Passage:
        """Lose the answer of the third write, the ledger's own; what follows takes a while."""
        nonlocal sent
        if sent == 3:
            return Passage(there_ms=1_000)
        sent += kind is RequestKind.WRITE
        return Passage(loss=ExchangeLoss.ANSWER) if sent == 3 else Passage()

    store.weather = weather
    creating = asyncio.ensure_future(ledgers.create(cluster, NEW))
    lost = LedgerId(before.id + 1)
    await asyncio.sleep(0.5)
    assert await ledgers.read(beside, lost) is not None
    assert not creating.done()
    await ledgers.delete(beside, lost, DELETER)

    created = await creating

    assert created.id == lost + 1
    assert [one async for one in ledger_listing.all_of(beside)] == [before, created]
    await place.close()


async def test_a_drawn_id_whose_answer_was_lost_is_left_out(
    memory: MemoryPlace,
) -> None:
    store = await memory.open()
    cluster = await clusters.initialise(store, INSTANCE)
    weather.lose(store, 0, ExchangeLoss.ANSWER)
    created = await ledgers.create(cluster, NEW)
    assert created.id == 1, "the first id is used up"


# ── changing ──


async def test_a_change_is_decided_anew_when_somebody_was_faster(
    cluster: Cluster, other: Cluster
) -> None:
    ledger_id = (await ledgers.create(cluster, NEW)).id
    seen: list[LedgerMetadata] = []

    def raced(old: LedgerMetadata) -> LedgerMetadata:
        seen.append(old)
        return ledger_metadata.taken_for_recovery(old)

    async def loser() -> None:
        for _ in range(10):
            await ledgers.change(cluster, ledger_id, raced)

    async def winner() -> None:
        await ledgers.change(
            other,
            ledger_id,
            lambda old: ledger_metadata.ensemble_changed(old, EntryId(0), (A, B, D)),
        )

    await winner()
    await loser()
    after = await ledgers.read(cluster, ledger_id, sync=True)
    assert after is not None
    assert after.metadata.last_fragment.ensemble == (A, B, D)
    assert after.version == 2, "a change that is there already writes nothing"


async def test_two_recoveries_agree_on_one_end(cluster: Cluster, other: Cluster) -> None:
    ledger_id = (await ledgers.create(cluster, NEW)).id

    async def recover(one: Cluster, last: int) -> LedgerMetadata | None:
        await ledgers.change(
            one,
            ledger_id,
            lambda old: None if old.is_closed else ledger_metadata.taken_for_recovery(old),
        )
        try:
            return (await ledgers.change(one, ledger_id, close_at(last))).metadata
        except IllegalChangeError:
            return None

    ends = await asyncio.gather(recover(cluster, 4), recover(other, 5))
    assert sum(end is not None for end in ends) == 1


@pytest.mark.parametrize("loss", [ExchangeLoss.ANSWER, ExchangeLoss.REQUEST])
async def test_a_change_in_doubt_is_looked_up_and_not_guessed(
    memory: MemoryPlace, loss: ExchangeLoss
) -> None:
    store = await memory.open()
    cluster = await clusters.initialise(store, INSTANCE)
    ledger_id = (await ledgers.create(cluster, NEW)).id
    weather.lose(store, 0, loss)
    done = await ledgers.change(cluster, ledger_id, close_at(4))
    assert (done.metadata.last_entry, done.version) == (4, 1)


async def test_a_change_that_no_step_explains_is_not_written(cluster: Cluster) -> None:
    ledger_id = (await ledgers.create(cluster, NEW)).id
    with pytest.raises(IllegalChangeError, match="password"):
        await ledgers.change(
            cluster, ledger_id, lambda old: dataclasses.replace(old, password=b"other")
        )
    found = await ledgers.read(cluster, ledger_id)
    assert found is not None
    assert found.version == 0


async def test_a_ledger_that_is_not_there_cannot_be_changed(cluster: Cluster) -> None:
    with pytest.raises(ledgers.NoLedgerError, match="no ledger 5"):
        await ledgers.change(cluster, LedgerId(5), close_at(4))


# ── deleting ──


async def test_a_deleted_ledger_is_gone_with_its_directories(cluster: Cluster) -> None:
    await ledgers.create(cluster, NEW, ledger_id=LedgerId(123456789))
    assert not await ledgers.proven_deleted(cluster, LedgerId(123456789))
    await ledgers.delete(cluster, LedgerId(123456789), DELETER)
    await ledgers.delete(cluster, LedgerId(123456789), DELETER)
    assert await ledgers.proven_deleted(cluster, LedgerId(123456789))
    assert not await cluster.store.exists(cluster.root.below("01"))


async def test_a_neighbours_directory_stays(cluster: Cluster) -> None:
    await ledgers.create(cluster, NEW, ledger_id=LedgerId(1))
    await ledgers.create(cluster, OTHER, ledger_id=LedgerId(2))
    await ledgers.delete(cluster, LedgerId(1), DELETER)
    assert [one async for one in ledger_listing.ids(cluster)] == [2]


@pytest.mark.parametrize("loss", [ExchangeLoss.ANSWER, ExchangeLoss.REQUEST])
async def test_a_deletion_in_doubt_is_looked_up(memory: MemoryPlace, loss: ExchangeLoss) -> None:
    store = await memory.open()
    cluster = await clusters.initialise(store, INSTANCE)
    ledger_id = (await ledgers.create(cluster, NEW)).id
    weather.lose(store, 0, loss)
    await ledgers.delete(cluster, ledger_id, DELETER)
    assert await ledgers.proven_deleted(cluster, ledger_id)


async def test_absence_proves_nothing_in_a_root_that_is_not_the_clusters_any_more(
    cluster: Cluster,
) -> None:
    gone = LedgerId(5)
    assert await ledgers.proven_deleted(cluster, gone)
    instance = cluster.root.below("INSTANCEID")
    await cluster.store.put(instance, b"another", version=0)
    assert not await ledgers.proven_deleted(cluster, gone)
    await cluster.store.delete(instance, version=None)
    assert not await ledgers.proven_deleted(cluster, gone)


async def test_absence_proves_nothing_in_a_restored_root(cluster: Cluster) -> None:
    mark = Restored(at_ms=1, high=2, export="sum")
    raw = restored.render(mark, cluster.instance)
    await cluster.store.create(cluster.root.beside("restored"), raw)
    assert not await ledgers.proven_deleted(cluster, LedgerId(5))
    await restored.clear(cluster, mark)
    assert await ledgers.proven_deleted(cluster, LedgerId(5))


async def test_another_ledger_under_the_id_is_told_by_its_token_alone(cluster: Cluster) -> None:
    """A ledger that is not there, or whose token is not known, may be the same one."""
    await ledgers.create(cluster, NEW, ledger_id=LedgerId(5))
    assert await ledgers.proven_replaced(cluster, LedgerId(5), OTHER.create_token)
    assert not await ledgers.proven_replaced(cluster, LedgerId(5), NEW.create_token)
    assert not await ledgers.proven_replaced(cluster, LedgerId(5), 0)
    assert not await ledgers.proven_replaced(cluster, LedgerId(6), OTHER.create_token)
    raw = ledger_format.render(dataclasses.replace(NEW, create_token=0))
    await cluster.store.create(ledgers.path(cluster, LedgerId(7)), raw)
    assert not await ledgers.proven_replaced(cluster, LedgerId(7), OTHER.create_token)
    await cluster.store.put(cluster.root.below("INSTANCEID"), b"another", version=0)
    assert not await ledgers.proven_replaced(cluster, LedgerId(5), OTHER.create_token)


# ── ends ──


async def closed_and_open(cluster: Cluster) -> list[LedgerId]:
    """Two that are closed, the second of them empty; an open one; one that is not there."""
    ids = [(await ledgers.create(cluster, NEW)).id for _ in range(3)]
    await ledgers.change(cluster, ids[0], close_at(4))
    await ledgers.change(cluster, ids[1], close_at(-1))
    return [*ids, LedgerId(999)]


async def test_only_closed_ledgers_have_a_proven_end(cluster: Cluster) -> None:
    ids = await closed_and_open(cluster)
    assert await ledgers.proven_ends(cluster, ids) == {ids[0]: 4, ids[1]: -1}
    assert await ledgers.proven_ends(cluster, ids[2:]) == {}


async def test_a_damaged_ledger_hides_no_other_ones_end(cluster: Cluster) -> None:
    ids = await closed_and_open(cluster)
    await cluster.store.put(ledgers.path(cluster, ids[0]), b"?", version=1)
    assert await ledgers.proven_ends(cluster, ids) == {ids[1]: -1}


async def test_a_root_that_is_not_the_clusters_any_more_proves_no_end(cluster: Cluster) -> None:
    ids = await closed_and_open(cluster)
    await cluster.store.put(cluster.root.below("INSTANCEID"), b"another", version=0)
    assert await ledgers.proven_ends(cluster, ids) == {}


async def test_a_restored_root_proves_no_end(cluster: Cluster) -> None:
    ids = await closed_and_open(cluster)
    mark = Restored(at_ms=1, high=2, export="sum")
    raw = restored.render(mark, cluster.instance)
    await cluster.store.create(cluster.root.beside("restored"), raw)
    assert await ledgers.proven_ends(cluster, ids) == {}
    await restored.clear(cluster, mark)
    assert set(await ledgers.proven_ends(cluster, ids)) == set(ids[:2])


# ── listing ──

SPREAD = [0, 1, 9_999, 10_000, 123_456_789, 2**31 - 2, 2**31 - 1, 2**31, 9 << 32, 2**63 - 1]


@pytest.fixture
async def spread(cluster: Cluster) -> Cluster:
    for ledger_id in SPREAD:
        await ledgers.create(cluster, NEW, ledger_id=LedgerId(ledger_id))
    return cluster


async def test_ledgers_are_listed_in_the_order_of_their_ids(spread: Cluster) -> None:
    assert [one async for one in ledger_listing.ids(spread)] == SPREAD
    listed = [one async for one in ledger_listing.all_of(spread)]
    assert [one.id for one in listed] == SPREAD


async def test_a_listing_goes_on_where_another_stopped(spread: Cluster) -> None:
    for stop in range(len(SPREAD) + 1):
        first = LedgerId(SPREAD[stop - 1] + 1) if stop else LedgerId(0)
        if first > ledger_paths.LEDGER_ID_MAX:
            continue
        assert [one async for one in ledger_listing.ids(spread, first=first)] == SPREAD[stop:]


async def test_any_range_is_listed_exactly(spread: Cluster) -> None:
    edges = sorted(
        {edge for one in SPREAD for edge in (one - 1, one, one + 1) if 0 <= edge < 2**63}
    )
    for low in edges[::3]:
        for high in edges[::4]:
            found = [
                one
                async for one in ledger_listing.ids(
                    spread, first=LedgerId(low), last=LedgerId(high)
                )
            ]
            assert found == [one for one in SPREAD if low <= one <= high]
            listed = ledger_listing.all_of(spread, first=LedgerId(low), last=LedgerId(high))
            assert [one.id async for one in listed] == found


async def test_a_listing_reads_only_the_directories_of_its_range(
    spread: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    children = spread.store.children

    async def counted(path: str, *, sync: bool = False) -> tuple[str, ...] | None:
        asked.append(path)
        return await children(path, sync=sync)

    monkeypatch.setattr(spread.store, "children", counted)
    found = [
        one
        async for one in ledger_listing.ids(spread, first=LedgerId(10_000), last=LedgerId(10_001))
    ]
    assert found == [10_000]
    top = spread.root.path
    assert asked == [top, f"{top}/00", f"{top}/00/0001"]


async def test_a_ledger_that_cannot_be_read_is_listed_as_that(cluster: Cluster) -> None:
    good = await ledgers.create(cluster, NEW)
    path = ledgers.path(cluster, LedgerId(good.id + 1))
    await cluster.store.create(path, b"garbage", make_parents=True)
    listed = [one async for one in ledger_listing.all_of(cluster)]
    assert listed[0] == good
    assert isinstance(listed[1], UnreadableLedger)


async def test_more_ledgers_than_are_read_at_a_time_all_come_in_order(memory: MemoryPlace) -> None:
    cluster = await clusters.initialise(await memory.open(), INSTANCE)
    count = 2 * ledger_listing.READS_IN_FLIGHT_MAX + 3
    for _ in range(count):
        await ledgers.create(cluster, NEW)
    ids = [one.id async for one in ledger_listing.all_of(cluster)]
    assert len(ids) == count
    assert all(a < b for a, b in pairwise(ids))
