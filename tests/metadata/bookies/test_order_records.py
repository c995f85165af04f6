"""Orders in the store: their format, their one transaction with the record, and their claim."""

import dataclasses
import json

import pytest

from tests.metadata.bookies.test_bookies import INSTANCE, A, cookie
from tests.metadata.weather import before_write, lose
from tests.support.stores import MemoryPlace
from zonekeeper.metadata.bookies import bookie_records, cookie_store, order_claims, order_records
from zonekeeper.metadata.bookies.bookie_records import BookieRecord, Mark
from zonekeeper.metadata.bookies.order_records import CODEC, OrderChange, OrderState
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import records
from zonekeeper.metadata.formats.malformed import MalformedError, UnreadableError, UnsupportedError
from zonekeeper.metadata.store.errors import SessionLostError
from zonekeeper.metadata.stores.memory import ExchangeLoss, MemoryStore
from zonekeeper.placement.base.fields import Plain
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.zones.bookie_orders import (
    BookieOrder,
    OrderKind,
    OrderPhase,
    OrderProgress,
    OrderWord,
)

WORD = OrderWord(at_ms=1_000, by="anna", reason="its disk is old")
BACK = OrderWord(at_ms=2_000, by="bob", reason="it stays")
MARK = Mark(at_ms=1_000, by="anna", reason="its disk is old")
WHOLE = BookieOrder(
    kind=OrderKind.REMOVE,
    token="0123",
    given=WORD,
    incarnation=12,
    read_only=True,
    emptied_ms=3_000,
    taken_back=BACK,
    progress=OrderProgress(
        at_ms=4_000,
        worker="auto-0",
        since_ms=1_500,
        phase=OrderPhase.COPYING,
        moved_ms=3_500,
        ledgers=10,
        ledgers_left=4,
        bytes=1_000,
        bytes_left=400,
        why="2 x overtaken",
    ),
)
DRAIN = BookieOrder(kind=OrderKind.DRAIN, token="0456", given=WORD, incarnation=None)


def drained(state: OrderState) -> OrderChange:
    """Give the order to drain, for the bookie that has the name now."""
    order = state.order or dataclasses.replace(DRAIN, incarnation=state.incarnation)
    return OrderChange(order=order, record=order_records.draining(state.record, order))


def taken_back(state: OrderState) -> OrderChange:
    assert state.order is not None
    order = dataclasses.replace(state.order, taken_back=state.order.taken_back or BACK)
    return OrderChange(order=order, record=order_records.draining(state.record, order))


# ── the format ──


@pytest.mark.parametrize("order", [WHOLE, DRAIN])
def test_an_order_is_read_as_it_was_written(order: BookieOrder) -> None:
    raw = records.render(CODEC.render(order), "i")
    assert CODEC.parse(records.parse(raw, "i")) == order


def test_the_record_of_an_order_stands_as_it_stood() -> None:
    assert json.loads(records.render(CODEC.render(WHOLE), "i")) == {
        "format": 1,
        "instance": "i",
        "kind": "remove",
        "token": "0123",
        "given": {"atMs": 1_000, "by": "anna", "reason": "its disk is old"},
        "incarnation": 12,
        "readOnly": True,
        "emptiedAtMs": 3_000,
        "takenBack": {"atMs": 2_000, "by": "bob", "reason": "it stays"},
        "progress": {
            "atMs": 4_000,
            "worker": "auto-0",
            "sinceMs": 1_500,
            "phase": "copying",
            "movedMs": 3_500,
            "ledgers": 10,
            "ledgersLeft": 4,
            "bytes": 1_000,
            "bytesLeft": 400,
            "why": "2 x overtaken",
        },
    }


def test_fields_of_a_newer_release_are_kept() -> None:
    plain: dict[str, Plain] = {**CODEC.render(WHOLE), "hurry": {"much": True}}
    read = CODEC.parse(records.parse(records.render(plain, "i"), "i"))
    changed = dataclasses.replace(read, progress=None)
    assert CODEC.render(changed)["hurry"] == {"much": True}


@pytest.mark.parametrize(
    ("now", "newer"),
    [(b'"kind":"remove"', b'"kind":"refill"'), (b'"phase":"copying"', b'"phase":"flying"')],
)
def test_a_kind_or_a_phase_of_a_newer_release_is_refused_in_words(now: bytes, newer: bytes) -> None:
    raw = records.render(CODEC.render(WHOLE), "i")
    assert now in raw
    with pytest.raises(UnsupportedError, match="use the newer zonekeeper that wrote it"):
        CODEC.parse(records.parse(raw.replace(now, newer), "i"))


@pytest.mark.parametrize(
    "changes", [{"given": "anna"}, {"readOnly": 1}, {"progress": 7}, {"incarnation": -1}]
)
def test_what_makes_no_order_is_malformed(changes: dict[str, str | int]) -> None:
    with pytest.raises(MalformedError):
        CODEC.parse({**CODEC.render(WHOLE), **changes})


# ── the transaction ──


async def test_an_order_and_the_mark_of_its_bookie_come_and_go_together(cluster: Cluster) -> None:
    await cookie_store.create(cluster, cookie(A))
    await bookie_records.count_boot(cluster, A, 3)
    given = await order_records.change(cluster, A, drained)
    assert given.order == await order_records.read(cluster, A)
    assert given.incarnation is not None
    record = await bookie_records.read(cluster, A)
    assert (record.draining, record.boot_epoch) == (MARK, 3)
    assert await order_records.read_state(cluster, A) == given
    await order_records.change(cluster, A, taken_back)
    assert (await bookie_records.read(cluster, A)).draining is None
    stands = await order_records.read(cluster, A)
    assert stands is not None
    assert stands.taken_back == BACK


async def test_the_first_mark_of_a_bookie_is_kept_and_a_recovery_makes_none(
    cluster: Cluster,
) -> None:
    before = Mark(at_ms=5, by="ann", reason="of an older release")
    await bookie_records.drain(cluster, A, before)
    await order_records.change(cluster, A, drained)
    assert (await bookie_records.read(cluster, A)).draining == before
    recover = dataclasses.replace(DRAIN, kind=OrderKind.RECOVER)
    assert order_records.draining(None, recover) is None
    assert order_records.draining(BookieRecord(boot_epoch=2), recover) == BookieRecord(boot_epoch=2)


async def test_a_change_that_changes_nothing_writes_nothing(cluster: Cluster) -> None:
    first = await order_records.change(cluster, A, drained)
    assert await order_records.change(cluster, A, drained) == first
    node = await cluster.store.get(order_records.path(cluster, A))
    assert node is not None
    assert node.version == 0


async def test_all_orders_are_read_and_one_that_is_damaged_hides_no_other(cluster: Cluster) -> None:
    assert await order_records.read_all(cluster) == {}
    await order_records.change(cluster, A, drained)
    await cluster.store.create(cluster.root.beside("orders/bk-z-9"), b"{")
    found = await order_records.read_all(cluster)
    assert found[A] == DRAIN
    assert isinstance(found[BookieId("bk-z-9")], UnreadableError)


async def test_an_order_of_an_earlier_cluster_at_this_root_is_written_over(
    cluster: Cluster,
) -> None:
    await order_records.change(cluster, A, drained)
    path = order_records.path(cluster, A)
    await cluster.store.put(path, records.render(CODEC.render(WHOLE), "another"), version=0)
    assert await order_records.read(cluster, A) is None
    assert (await order_records.change(cluster, A, drained)).order == DRAIN
    assert await order_records.read(cluster, A) == DRAIN


@pytest.mark.parametrize("loss", [ExchangeLoss.REQUEST, ExchangeLoss.ANSWER])
async def test_a_change_whose_request_or_answer_is_lost_is_made_once(
    memory: MemoryPlace, loss: ExchangeLoss
) -> None:
    for number in range(5):
        cluster = await clusters.initialise(await memory.open(), INSTANCE)
        await order_records.change(cluster, A, lambda _: OrderChange(order=None, record=None))
        lose(cluster.store, number, loss)
        after = await order_records.change(cluster, A, drained)
        assert after.order == await order_records.read(cluster, A) == DRAIN
        assert (await bookie_records.read(cluster, A)).draining == MARK
        await order_records.change(
            cluster, A, lambda _: OrderChange(order=None, record=None, without_cookie=True)
        )


async def test_a_start_of_the_bookie_between_reads_and_write_has_the_change_decided_anew(
    memory: MemoryPlace,
) -> None:
    cluster = await clusters.initialise(await memory.open(), INSTANCE)
    other = await clusters.open_cluster(await memory.open())
    await cookie_store.create(cluster, cookie(A))
    await order_records.change(cluster, A, drained)
    seen = list[BookieRecord | None]()

    def gone(state: OrderState) -> OrderChange:
        seen.append(state.record)
        if len(seen) > 1:
            return OrderChange(order=state.order, record=state.record)
        return OrderChange(order=None, record=None, without_cookie=True)

    async def started() -> None:
        if len(seen) == 1:
            await bookie_records.count_boot(other, A, 8)

    await order_records.change(cluster, A, gone, first=started)
    assert [one and one.boot_epoch for one in seen] == [0, 8]
    assert await cookie_store.read(cluster, A) is not None
    assert await order_records.read(cluster, A) is not None


async def test_order_record_and_cookie_go_in_one_transaction(memory: MemoryPlace) -> None:
    cluster = await clusters.initialise(await memory.open(), INSTANCE)
    other = await clusters.open_cluster(await memory.open())
    await cookie_store.create(cluster, cookie(A))
    await order_records.change(cluster, A, drained)
    calls = 0

    def gone(_: OrderState) -> OrderChange:
        nonlocal calls
        calls += 1
        return OrderChange(order=None, record=None, without_cookie=True)

    async def moved() -> None:
        if calls == 1:  # the cookie is another one than was read
            stored = await cookie_store.read(other, A)
            assert stored is not None
            await other.store.put(other.root.cookie(A), b"other", version=stored.version)

    await order_records.change(cluster, A, gone, first=moved)
    assert calls == 2
    state = await order_records.read_state(cluster, A)
    assert state == OrderState(order=None, record=None, incarnation=None)


async def test_a_bookie_that_is_made_anew_is_another_incarnation(cluster: Cluster) -> None:
    found = []
    for _ in range(2):
        await cookie_store.create(cluster, cookie(A))
        found.append((await order_records.read_state(cluster, A)).incarnation)
        await cookie_store.delete(cluster, A, version=0)
    assert None not in found
    assert found[0] != found[1], "the bytes of its cookie are the same"


# ── the claim ──


async def test_one_keeper_at_a_time_has_the_claim(cluster: Cluster, other: Cluster) -> None:
    assert await order_claims.holder(cluster, A) is None
    claim = await order_claims.take(cluster, A, "auto-0", "t0")
    assert claim is not None
    assert await order_claims.holder(other, A) == "auto-0"
    assert await order_claims.take(cluster, A, "auto-0", "t0") == claim, "it is ours already"
    assert await order_claims.take(cluster, A, "auto-0", "t1") is None, "another keeper of ours"
    assert await order_claims.take(other, A, "auto-0", "t0") is None, "another session"
    await order_claims.release(cluster, claim)
    await order_claims.release(cluster, claim)
    assert await order_claims.take(other, A, "auto-1", "t2") is not None
    with pytest.raises(SessionLostError):
        await order_claims.check(cluster, claim)


@pytest.mark.parametrize("loss", [ExchangeLoss.REQUEST, ExchangeLoss.ANSWER])
async def test_a_claim_whose_answer_is_lost_is_ours(
    memory: MemoryPlace, loss: ExchangeLoss
) -> None:
    cluster = await clusters.initialise(await memory.open(), INSTANCE)
    first = await order_claims.take(cluster, A, "auto-0", "t0")
    assert first is not None
    await order_claims.release(cluster, first)
    lose(cluster.store, 0, loss)
    assert await order_claims.take(cluster, A, "auto-0", "t0") == first
    lose(cluster.store, 0, loss)
    await order_claims.release(cluster, first)
    assert await order_claims.holder(cluster, A) is None


async def test_nothing_is_written_once_the_claim_is_over(memory: MemoryPlace) -> None:
    cluster = await clusters.initialise(await memory.open(), INSTANCE)
    store = cluster.store
    assert isinstance(store, MemoryStore)
    await order_records.change(cluster, A, drained)
    claim = await order_claims.take(cluster, A, "auto-0", "t0")
    assert claim is not None
    await order_records.change(cluster, A, taken_back, claim=claim)

    def gone(_: OrderState) -> OrderChange:
        return OrderChange(order=None, record=None)

    before_write(store, lambda: memory.server.expire(claim.session))
    with pytest.raises(SessionLostError):
        await order_records.change(cluster, A, gone, claim=claim)
    assert await order_records.read(cluster, A) is not None


async def test_nothing_is_written_under_a_claim_that_another_keeper_has_by_now(
    cluster: Cluster, other: Cluster
) -> None:
    await order_records.change(cluster, A, drained)
    claim = await order_claims.take(cluster, A, "auto-0", "t0")
    assert claim is not None
    await order_claims.release(cluster, claim)
    assert await order_claims.take(other, A, "auto-1", "t1") is not None
    with pytest.raises(SessionLostError):
        await order_records.change(cluster, A, taken_back, claim=claim)
    stands = await order_records.read(cluster, A)
    assert stands is not None
    assert stands.taken_back is None
