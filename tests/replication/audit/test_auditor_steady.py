"""What must neither end an auditor nor keep it busy: odd ledgers, bad marks, bookies that flap."""

import asyncio

from tests.replication.audit_world import AuditWorld, played
from tests.replication.gate_world import MINUTE, SECOND, members
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata
from zonekeeper.metadata.ledgers import underreplication
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.replication.audit.auditor_metrics import AuditorMetrics
from zonekeeper.replication.audit.marking import Marker
from zonekeeper.replication.decisions.ledger_index import LedgerIndex
from zonekeeper.wire.contract.links import OwnedLink

A0 = BookieId("a-0")
ABC0 = ("a-0", "b-0", "c-0")
DELAY, NOTICE = 5 * MINUTE, 2 * MINUTE
#: The store's time limit for a request.
REQUEST = 30 * SECOND


class Slow:
    """A ``link_pool.LinkFactory`` that finds no bookie, and takes its time to say so."""

    def __init__(self) -> None:
        self.asked = 0
        self.answers = asyncio.Event()

    async def find(self, bookie_id: BookieId) -> str | None:
        self.asked += 1
        await self.answers.wait()
        return None

    def make(self, bookie_id: BookieId, address: str) -> OwnedLink:
        raise AssertionError(f"{bookie_id} was not found")


def test_a_ledger_with_the_largest_quorums_that_metadata_may_hold_is_indexed() -> None:
    many = tuple(BookieId(f"b-{number}") for number in range(300))
    ledger = LedgerMetadata(
        ensemble_size=300,
        write_quorum=300,
        ack_quorum=2,
        fragments=(Fragment(EntryId(0), many),),
        digest=Digest.CRC32C,
        password=b"",
    )
    index = LedgerIndex()
    index.add(LedgerId(1), ledger)
    assert list(index.copies_left({many[0]})) == [(LedgerId(1), 299)]


@played()
async def test_a_mark_that_cannot_be_read_does_not_make_the_auditor_list_for_ever(
    world: AuditWorld,
) -> None:
    await world.add_ledger(1, ABC0)
    await underreplication.mark(world.cluster, LedgerId(1), [BookieId("b-0")], at_ms=1)
    path = world.cluster.root.below("underreplication/ledgers/0000/0000/0000/0001")
    await world.cluster.store.put(f"{path}/urL0000000001", b"\xff", version=0)
    await world.gates.lose([A0])
    await world.gates.wait(DELAY + NOTICE)
    metrics = world.auditors[0].metrics
    listings = metrics.listings_total
    await world.gates.wait(30 * MINUTE)
    assert metrics.listings_total == listings
    assert await world.written_off(["a-0"]) == []
    # A person removes the unreadable mark; then the ledger is marked as it should be.
    await world.cluster.store.delete(f"{path}/urL0000000001", version=None)
    await world.gates.wait(NOTICE)
    assert await world.marks() == {1: ["a-0"]}


@played(audited=False)
async def test_a_bookie_that_comes_back_twice_while_its_marks_are_looked_at_harms_nobody(
    world: AuditWorld,
) -> None:
    slow = Slow()
    auditor = await world.audited_by("auditor-1", slow)
    await world.add_ledger(1, ABC0)
    slow.answers.set()
    await world.gates.wait(MINUTE)
    slow.answers.clear()
    for _ in range(2):
        await world.gates.lose([A0])
        await world.gates.wait(DELAY + NOTICE)
        assert await world.marks() == {1: ["a-0"]}
        await world.gates.come([A0])
        await world.gates.wait(NOTICE)
    slow.answers.set()
    await world.gates.wait(NOTICE)
    assert auditor.metrics.leading == 1
    await world.gates.lose(members(world.gates.observer.policy.placement.zones[1], 1))
    await world.gates.wait(NOTICE)
    assert auditor.metrics.lost_bookies == 1


@played()
async def test_what_is_held_when_the_store_is_back_is_not_published(world: AuditWorld) -> None:
    await world.add_ledger(1, ABC0)
    store, permitted = world.cluster.store, [True]
    assert isinstance(store, MemoryStore)
    marker = Marker(world.cluster, AuditorMetrics(), lambda: 1)
    store.cut()
    async with asyncio.TaskGroup() as group:
        made = group.create_task(marker.mark(LedgerId(1), lambda: [A0] if permitted[0] else None))
        await world.gates.wait(REQUEST + SECOND // 2)  # the first attempt has failed
        assert not made.done()
        permitted[0] = False
        store.mend()
    assert not made.result()
    assert await underreplication.read(world.cluster, LedgerId(1)) is None
