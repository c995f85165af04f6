"""Each deletion leaves a record of itself, and the records stay few."""

import asyncio
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.metadata import weather
from tests.support import virtual_time
from tests.support.stores import MemoryPlace
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata
from zonekeeper.metadata.ledgers import deletions, ledgers
from zonekeeper.metadata.ledgers.deletions import Deleter, Deletion
from zonekeeper.metadata.store.errors import StoreUnavailableError, VersionConflictError
from zonekeeper.metadata.stores.memory import ExchangeLoss, MemoryStore, Passage, RequestKind
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId

INSTANCE = "d58c3de9-d9c6-429e-be20-474dcad4d089"
DAY_MS = 86_400_000
NOW_MS = 20_000 * DAY_MS
CLIENT = Deleter(by="client", at_ms=NOW_MS)
NEW = LedgerMetadata(
    ensemble_size=1,
    write_quorum=1,
    ack_quorum=1,
    fragments=(Fragment(EntryId(0), (BookieId("a"),)),),
    digest=Digest.CRC32C,
    password=b"secret",
    create_token=9,
)
IDS = st.sets(st.integers(0, 40).map(LedgerId), min_size=1)


async def names(cluster: Cluster) -> tuple[str, ...]:
    return await cluster.store.children(deletions.directory(cluster), sync=True) or ()


async def deleted(cluster: Cluster, *ledger_ids: int, deleter: Deleter = CLIENT) -> None:
    for ledger_id in map(LedgerId, ledger_ids):
        await ledgers.create(cluster, NEW, ledger_id=ledger_id)
        await ledgers.delete(cluster, ledger_id, deleter)


async def noted(cluster: Cluster, by: str, at_ms: int, *ledger_ids: int) -> None:
    """Leave a record without a ledger, as bulk deletions do."""
    note = deletions.noted(cluster, map(LedgerId, ledger_ids), Deleter(by=by, at_ms=at_ms))
    if not await cluster.store.exists(deletions.directory(cluster)):
        await cluster.store.create(deletions.directory(cluster))
    await cluster.store.commit([note])


async def test_a_deletion_is_recorded_and_nothing_else_is(cluster: Cluster) -> None:
    await deleted(cluster, 3, 4, 1 << 40)
    asked = [LedgerId(one) for one in (2, 3, 4, 5, 1 << 40)]
    assert await deletions.recorded(cluster, asked) == {3, 4, 1 << 40}
    raw = await cluster.store.get(f"{deletions.directory(cluster)}/{(await names(cluster))[0]}")
    assert raw is not None
    assert deletions.parse(raw.value, cluster.instance) == Deletion(
        by="client", first_ms=NOW_MS, last_ms=NOW_MS, ranges=((LedgerId(3), LedgerId(3)),)
    )


async def test_a_ledger_that_is_gone_already_leaves_no_record(cluster: Cluster) -> None:
    await deleted(cluster, 3)
    await ledgers.delete(cluster, LedgerId(3), CLIENT)
    assert len(await names(cluster)) == 1


async def test_a_deletion_that_is_refused_leaves_no_record(cluster: Cluster) -> None:
    await ledgers.create(cluster, NEW, ledger_id=LedgerId(3))
    with pytest.raises(VersionConflictError):
        await ledgers.delete(cluster, LedgerId(3), CLIENT, version=7)
    assert await names(cluster) == ()
    assert await ledgers.read(cluster, LedgerId(3)) is not None


@pytest.mark.parametrize("loss", [ExchangeLoss.ANSWER, ExchangeLoss.REQUEST])
@pytest.mark.parametrize("first", [True, False])
async def test_a_deletion_in_doubt_is_recorded_once(
    memory: MemoryPlace, loss: ExchangeLoss, *, first: bool
) -> None:
    store = await memory.open()
    cluster = await clusters.initialise(store, INSTANCE)
    await ledgers.create(cluster, NEW, ledger_id=LedgerId(3))
    if not first:
        await deleted(cluster, 9)
    weather.lose(store, 0, loss)
    await ledgers.delete(cluster, LedgerId(3), CLIENT)
    assert await ledgers.read(cluster, LedgerId(3)) is None
    assert await deletions.recorded(cluster, [LedgerId(3)]) == {3}
    assert len(await names(cluster)) == (1 if first else 2)


@pytest.mark.parametrize("losses", range(5))
async def test_the_first_deletion_makes_the_directory_after_any_number_of_losses(
    memory: MemoryPlace, losses: int
) -> None:
    """Four attempts may be lost on the way. The fifth finds that there is no directory yet."""
    store = await memory.open()
    assert isinstance(store, MemoryStore)
    cluster = await clusters.initialise(store, INSTANCE)
    await ledgers.create(cluster, NEW, ledger_id=LedgerId(3))
    lost = iter(range(losses))
    store.weather = lambda kind: Passage(
        loss=ExchangeLoss.REQUEST
        if kind is RequestKind.WRITE and next(lost, None) is not None
        else ExchangeLoss.NOTHING
    )
    await ledgers.delete(cluster, LedgerId(3), CLIENT)
    assert await deletions.recorded(cluster, [LedgerId(3)]) == {3}


async def test_records_stay_few_however_many_deletions_there_are(cluster: Cluster) -> None:
    ids = list(range(2 * deletions.FOLD_EVERY + 2))
    random.Random(1).shuffle(ids)
    await deleted(cluster, *ids)
    assert len(await names(cluster)) <= deletions.FOLD_EVERY + 1
    assert await deletions.recorded(cluster, map(LedgerId, [*ids, 10_000])) == set(ids)


async def test_a_fold_keeps_deleters_and_times_apart(cluster: Cluster) -> None:
    await noted(cluster, "client", NOW_MS, 1, 2)
    await noted(cluster, "retention", NOW_MS + 1, 7)
    await noted(cluster, "client", NOW_MS + 2, 3, 9)
    await deletions.fold(cluster, now_ms=NOW_MS)
    found = []
    for name in await names(cluster):
        node = await cluster.store.get(f"{deletions.directory(cluster)}/{name}")
        assert node is not None
        found.append(deletions.parse(node.value, cluster.instance))
    assert sorted(found, key=lambda one: one.by) == [
        Deletion(
            by="client",
            first_ms=NOW_MS,
            last_ms=NOW_MS + 2,
            ranges=((LedgerId(1), LedgerId(3)), (LedgerId(9), LedgerId(9))),
        ),
        Deletion(
            by="retention",
            first_ms=NOW_MS + 1,
            last_ms=NOW_MS + 1,
            ranges=((LedgerId(7), LedgerId(7)),),
        ),
    ]


async def test_a_closed_record_goes_when_no_collection_can_need_it(cluster: Cluster) -> None:
    await noted(cluster, "client", NOW_MS, 1, 2)
    await deletions.fold(cluster, now_ms=NOW_MS + DAY_MS)
    (closed,) = await names(cluster)
    assert closed.startswith("f-00020000-")
    last = NOW_MS + deletions.KEPT_DAYS * DAY_MS
    await deletions.fold(cluster, now_ms=last)
    assert await names(cluster) == (closed,)
    await deletions.fold(cluster, now_ms=last + DAY_MS)
    assert await names(cluster) == ()


async def test_the_oldest_records_go_when_there_are_too_many(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletions, "FOLDED_MAX", 2)
    for day in range(4):
        await noted(cluster, "client", NOW_MS + day * DAY_MS, day)
        await deletions.fold(cluster, now_ms=NOW_MS + (day + 1) * DAY_MS)
    await deletions.fold(cluster, now_ms=NOW_MS + 4 * DAY_MS)
    assert [name[:10] for name in await names(cluster)] == ["f-00020002", "f-00020003"]


async def test_a_full_record_takes_no_more(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletions, "RANGES_MAX", 3)
    for ledger_id in (0, 2, 4, 6, 8):
        await noted(cluster, "client", NOW_MS, ledger_id)
    for _ in range(3):
        await deletions.fold(cluster, now_ms=NOW_MS)
    assert sorted(name[:2] for name in await names(cluster)) == ["d-", "f-"]
    wanted = [LedgerId(one) for one in range(10)]
    assert await deletions.recorded(cluster, wanted) == {0, 2, 4, 6, 8}


async def test_a_damaged_record_names_no_ledger_and_hides_no_other(cluster: Cluster) -> None:
    await deleted(cluster, 3, 4)
    damaged = f"{deletions.directory(cluster)}/{(await names(cluster))[0]}"
    await cluster.store.put(damaged, b"?", version=0)
    await deletions.fold(cluster, now_ms=NOW_MS + DAY_MS)
    assert await deletions.recorded(cluster, [LedgerId(3), LedgerId(4)]) == {4}


@given(st.lists(st.tuples(st.sampled_from(["client", "shell"]), IDS), max_size=6))
def test_folding_loses_no_id_and_adds_none(drawn: list[tuple[str, set[LedgerId]]]) -> None:
    young = [
        Deletion(by=by, first_ms=at, last_ms=at, ranges=deletions.ranges_of(ids))
        for at, (by, ids) in enumerate(drawn)
    ]
    for by in ("client", "shell"):
        before = set[LedgerId]().union(*(ids for who, ids in drawn if who == by))
        after = {
            ledger_id
            for whole, _ in deletions.folded(young)
            if whole.by == by
            for first, last in whole.ranges
            for ledger_id in range(first, last + 1)
        }
        assert after == before
    assert sorted(at for _, taken in deletions.folded(young) for at in taken) == list(
        range(len(young))
    )


@virtual_time.played
async def test_a_record_that_is_folded_while_it_is_read_is_not_overlooked() -> None:
    place = MemoryPlace()
    store = await place.open()
    assert isinstance(store, MemoryStore)
    cluster = await clusters.initialise(store, INSTANCE)
    beside = await clusters.open_cluster(await place.open())
    await noted(cluster, "client", NOW_MS, 1, 2)
    await noted(cluster, "client", NOW_MS, 7)
    slow = iter([False])
    store.weather = lambda _: Passage(there_ms=1_000 if next(slow, True) else 0)
    asking = asyncio.ensure_future(deletions.recorded(cluster, map(LedgerId, [1, 2, 3, 7])))
    await asyncio.sleep(0.5)
    await deletions.fold(beside, now_ms=NOW_MS)
    assert len(await names(beside)) == 1
    assert await asking == {1, 2, 7}
    await place.close()


@virtual_time.played
async def test_a_deletion_whose_answer_is_lost_with_the_store_is_unknown_and_no_refusal() -> None:
    place = MemoryPlace()
    store = await place.open()
    assert isinstance(store, MemoryStore)
    cluster = await clusters.initialise(store, INSTANCE)
    beside = await clusters.open_cluster(await place.open())
    await deleted(cluster, 9)
    await ledgers.create(cluster, NEW, ledger_id=LedgerId(3))
    store.weather = lambda _: Passage(back_ms=1_000)
    asyncio.get_running_loop().call_later(0.5, store.cut)
    with pytest.raises(StoreUnavailableError) as lost:
        await ledgers.delete(cluster, LedgerId(3), CLIENT)
    assert await ledgers.read(beside, LedgerId(3)) is None
    assert lost.value.maybe_applied
    store.mend()
    await place.close()
