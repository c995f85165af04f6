"""The alerts about bookies that do not collect: as long as their cause stands, and no longer."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from tests.support import virtual_time
from tests.support.stores import MemoryPlace
from zonekeeper.metadata.bookies import held_collections
from zonekeeper.metadata.bookies.held_collections import HeldCollection, Permit
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import restored
from zonekeeper.metadata.cluster.evidence import EvidenceKind, StoreEvidence
from zonekeeper.metadata.ledgers import set_back
from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.placement.zones.zone_effects import Severity
from zonekeeper.replication.view import held_back
from zonekeeper.replication.view.held_back import RESTORED, SEVERITIES, WAITING, HeldBack

INSTANCE = "d58c3de9-d9c6-429e-be20-474dcad4d089"
A = BookieId("bk-a-0")
PROOFS = (StoreEvidence(bookie=A, kind=EvidenceKind.IDS, known=50, found=9),)
ASKED = HeldCollection(
    at_ms=1, ledgers=1_200, known=3_000, first=LedgerId(1), last=LedgerId(9), digest="ab"
)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 in virtual time
            await asyncio.sleep(0.01)


@virtual_time.played
async def test_alerts_stand_as_long_as_their_causes() -> None:
    place = MemoryPlace()
    cluster = await clusters.initialise(await place.open(), INSTANCE)
    seen = HeldBack(cluster)
    following = asyncio.ensure_future(seen.follow())
    assert await held_back.standing(cluster) == {}

    await set_back.mark(cluster, PROOFS, now_ms=1)
    await until(lambda: RESTORED in seen.alerts)
    assert "bk-a-0 knew of ledger ids below 50" in seen.alerts[RESTORED]
    await held_collections.ask(cluster, A, ASKED)
    await until(lambda: WAITING in seen.alerts)
    assert "bk-a-0 for 1200 of 3000 ledgers" in seen.alerts[WAITING]
    assert await held_back.standing(cluster) == seen.alerts

    mark = await restored.read(cluster)
    assert mark is not None
    await restored.clear(cluster, mark)
    await held_collections.permit(cluster, A, "ab", Permit(at_ms=1, by="shell", reason="x"))
    await until(lambda: not seen.alerts)
    following.cancel()
    await place.close()


@virtual_time.played
async def test_what_cannot_be_read_counts_as_what_stands() -> None:
    place = MemoryPlace()
    cluster = await clusters.initialise(await place.open(), INSTANCE)
    await cluster.store.create(cluster.root.beside("restored"), b"?")
    await cluster.store.create(cluster.root.beside(f"collecting/{A}"), b"?", make_parents=True)
    found = await held_back.standing(cluster)
    assert "the mark cannot be read" in found[RESTORED]
    assert "bk-a-0, whose question cannot be read" in found[WAITING]
    await place.close()


@virtual_time.played
async def test_a_text_names_a_few_of_many_causes() -> None:
    place = MemoryPlace()
    cluster = await clusters.initialise(await place.open(), INSTANCE)
    many = [BookieId(f"bk-a-{number:03}") for number in range(held_back.NAMED_MAX + 3)]
    proofs = (replace(PROOFS[0], bookie=bookie) for bookie in many)
    await set_back.mark(cluster, tuple(proofs), now_ms=1)
    for bookie in many:
        await held_collections.ask(cluster, bookie, ASKED)
    found = await held_back.standing(cluster)
    for text in found.values():
        assert many[held_back.NAMED_MAX - 1] in text
        assert many[held_back.NAMED_MAX] not in text
        assert text.endswith("; and 3 more")
    await place.close()


def test_a_set_back_store_is_a_page() -> None:
    assert SEVERITIES == {RESTORED: Severity.PAGE, WAITING: Severity.WARNING}
