"""A root that was set back is marked, and gives out no id that a lost ledger may have."""

import asyncio
from dataclasses import replace

import pytest

from tests.metadata import weather
from tests.support.stores import MemoryPlace
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import record_store, restored
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.evidence import EvidenceKind, StoreEvidence
from zonekeeper.metadata.cluster.restored import Restored
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.ledgers import ledger_ids, ledgers, set_back
from zonekeeper.metadata.stores.memory import ExchangeLoss
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId

INSTANCE = "d58c3de9-d9c6-429e-be20-474dcad4d089"
A, B = BookieId("bk-a-0"), BookieId("bk-b-0")
#: In 2026.
NOW_MS = 1_780_000_000_000
NEW = LedgerMetadata(
    ensemble_size=1,
    write_quorum=1,
    ack_quorum=1,
    fragments=(Fragment(EntryId(0), (A,)),),
    digest=Digest.CRC32C,
    password=b"secret",
    create_token=9,
)


def ids_of(bookie: BookieId, known: int) -> StoreEvidence:
    return StoreEvidence(bookie=bookie, kind=EvidenceKind.IDS, known=known, found=1)


async def standing(cluster: Cluster) -> Restored:
    mark = await restored.read(cluster)
    assert mark is not None
    return mark


async def test_the_mark_and_a_fresh_high_part_are_set_together(cluster: Cluster) -> None:
    assert await ledger_ids.allocate(cluster) == 0
    assert await set_back.mark(cluster, (ids_of(A, 50),), now_ms=NOW_MS)
    mark = await standing(cluster)
    assert (mark.export, mark.evidence) == ("", (ids_of(A, 50),))
    assert mark.high > 0
    assert await ledger_ids.allocate(cluster) == mark.high << 32


async def test_the_fresh_high_part_is_above_what_was_known(cluster: Cluster) -> None:
    known = (1 << 30) << 32 | 7
    await set_back.mark(cluster, (ids_of(A, known),), now_ms=NOW_MS)
    assert await ledger_ids.allocate(cluster) > known
    higher = ids_of(B, (await standing(cluster)).high << 32 | 9)
    await set_back.mark(cluster, (higher,), now_ms=NOW_MS)
    assert await ledger_ids.allocate(cluster) > higher.known


async def test_evidence_is_added_to_a_mark_that_stands(cluster: Cluster) -> None:
    assert await set_back.mark(cluster, (ids_of(A, 50),), now_ms=NOW_MS)
    first = await standing(cluster)
    assert not await set_back.mark(cluster, (ids_of(A, 50),), now_ms=NOW_MS + 5)
    assert await standing(cluster) == first
    assert await set_back.mark(cluster, (ids_of(B, 40),), now_ms=NOW_MS + 5)
    assert await standing(cluster) == replace(first, evidence=(ids_of(A, 50), ids_of(B, 40)))


@pytest.mark.parametrize("loss", [ExchangeLoss.ANSWER, ExchangeLoss.REQUEST])
async def test_a_mark_in_doubt_is_looked_up(memory: MemoryPlace, loss: ExchangeLoss) -> None:
    store = await memory.open()
    cluster = await clusters.initialise(store, INSTANCE)
    weather.lose(store, 0, loss)
    await set_back.mark(cluster, (ids_of(A, 50),), now_ms=NOW_MS)
    mark = await standing(cluster)
    assert await ledger_ids.counted_highs(cluster) == (mark.high,)


async def test_bookies_that_mark_at_the_same_time_are_all_named(cluster: Cluster) -> None:
    found = [ids_of(BookieId(f"bk-a-{number}"), 50) for number in range(6)]
    await asyncio.gather(*(set_back.mark(cluster, (one,), now_ms=NOW_MS) for one in found))
    assert (await standing(cluster)).evidence == tuple(found)
    assert await ledger_ids.counted_highs(cluster) == ((await standing(cluster)).high,)


async def test_a_mark_that_cannot_be_read_stays(cluster: Cluster) -> None:
    await cluster.store.create(cluster.root.beside("restored"), b"?")
    with pytest.raises(UnreadableError):
        await set_back.mark(cluster, (ids_of(A, 50),), now_ms=NOW_MS)


async def test_to_clear_is_to_accept_what_the_mark_names(cluster: Cluster) -> None:
    await set_back.mark(cluster, (ids_of(A, 50),), now_ms=NOW_MS)
    seen = await standing(cluster)
    await set_back.mark(cluster, (ids_of(B, 60),), now_ms=NOW_MS)
    with pytest.raises(restored.RestoredAgainError, match="more evidence"):
        await restored.clear(cluster, seen)
    assert (await standing(cluster)).evidence == (ids_of(A, 50), ids_of(B, 60))
    await restored.clear(cluster, await standing(cluster))
    assert await restored.read(cluster) is None
    accepted = await restored.accepted(cluster)
    assert (accepted.ids, accepted.before_ids) == (60, 0)


async def test_a_clear_that_is_cut_short_leaves_the_mark(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the mark would be gone, and set again by what the person accepted."""
    await set_back.mark(cluster, (ids_of(A, 50),), now_ms=NOW_MS)
    mark = await standing(cluster)
    change, calls = record_store.change, 0

    async def once(*given: object) -> object:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise ConnectionError("ordered by the test")
        return await change(*given)  # type: ignore[arg-type]  # whatever the caller gives

    monkeypatch.setattr(record_store, "change", once)
    with pytest.raises(ConnectionError):
        await restored.clear(cluster, mark)
    monkeypatch.undo()
    assert await standing(cluster) == mark
    await restored.clear(cluster, mark)
    assert await restored.read(cluster) is None


async def test_an_import_that_is_cleared_is_accepted_whole(cluster: Cluster) -> None:
    mark = Restored(at_ms=1, high=7, export="sum")
    raw = restored.render(mark, cluster.instance)
    await cluster.store.create(cluster.root.beside("restored"), raw)
    await restored.clear(cluster, mark)
    assert (await restored.accepted(cluster)).before_ids == 7 << 32


async def test_what_was_accepted_once_stays_accepted(cluster: Cluster) -> None:
    starts = StoreEvidence(bookie=A, kind=EvidenceKind.STARTS, known=5, found=2)
    for found in (starts, ids_of(B, 60)):
        await set_back.mark(cluster, (found,), now_ms=NOW_MS)
        await restored.clear(cluster, await standing(cluster))
    await restored.clear(cluster, Restored(at_ms=NOW_MS, high=1, evidence=(ids_of(A, 50),)))
    accepted = await restored.accepted(cluster)
    assert (accepted.ids, dict(accepted.starts)) == (60, {A: 5})


async def test_an_explicit_id_that_a_lost_ledger_may_have_is_refused(cluster: Cluster) -> None:
    await set_back.mark(cluster, (ids_of(A, 50),), now_ms=NOW_MS)
    with pytest.raises(ledgers.LostIdError, match="give a higher id"):
        await ledgers.create(cluster, NEW, ledger_id=LedgerId(49))
    await ledgers.create(cluster, NEW, ledger_id=LedgerId(49), rebuilt=True)
    high = (await standing(cluster)).high
    await ledgers.create(cluster, NEW, ledger_id=LedgerId(high << 32 | 5))
    await restored.clear(cluster, await standing(cluster))
    await ledgers.create(cluster, NEW, ledger_id=LedgerId(48))


async def test_the_counter_of_ids_never_falls(cluster: Cluster) -> None:
    seen = [await ledger_ids.given_out(cluster)]
    for _ in range(3):
        drawn = await ledger_ids.allocate(cluster)
        seen.append(await ledger_ids.given_out(cluster))
        assert seen[-1] > drawn
    await set_back.mark(cluster, (ids_of(A, 50),), now_ms=NOW_MS)
    seen.append(await ledger_ids.given_out(cluster))
    assert await ledger_ids.allocate(cluster) >= seen[-1]
    seen.append(await ledger_ids.given_out(cluster))
    assert seen == sorted(set(seen))


async def test_evidence_that_a_person_has_just_accepted_does_not_set_the_mark_again(
    cluster: Cluster,
) -> None:
    """A look may have read what is accepted before the person's word, and marks after it."""
    await set_back.mark(cluster, (ids_of(A, 50),), now_ms=NOW_MS)
    await restored.clear(cluster, await standing(cluster))
    assert not await set_back.mark(cluster, (ids_of(A, 50),), now_ms=NOW_MS)
    assert await restored.read(cluster) is None
    assert await set_back.mark(cluster, (ids_of(A, 50), ids_of(A, 51)), now_ms=NOW_MS)
    assert (await standing(cluster)).evidence == (ids_of(A, 51),)
