"""S133: a striped ledger on every bookie of the cluster is spread again by a change of places."""

import asyncio
import random
from collections import Counter

from tests.replication.repair_lab import (
    STRIPED,
    Bench,
    packet_at,
    payload,
    played,
    rules,
    troubles,
)
from zonekeeper.client.api.reader import Reader
from zonekeeper.client.api.writer import Writer
from zonekeeper.metadata.ledgers import underreplication
from zonekeeper.metadata.ledgers.underreplication import Claim
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.placement.ensembles import adherence
from zonekeeper.placement.ensembles.adherence import Level
from zonekeeper.placement.policy.rules import RepairRules
from zonekeeper.replication.decisions.copy_plan import Cause
from zonekeeper.replication.repair.repair_metrics import RepairTrouble
from zonekeeper.replication.repair.repairing import Attempt, Repairer

#: One of these is lost for good: as many are left as a ledger has members.
FULL = {"a": 3, "b": 2, "c": 2}
Ring = tuple[BookieId, ...]

COUNT, SIZE = 24, 1_000
#: Slow enough to see a copy under way: one share takes seconds.
SLOW = RepairRules(bytes_per_second=0, respread_bytes_per_second=1_024)


def level(bench: Bench, ensemble: Ring) -> Level:
    placement, topology = bench.view.policy.placement, bench.view.topology
    return adherence.judge(ensemble, STRIPED, placement, topology).level


async def first_ensemble(bench: Bench, writer: Writer) -> Ring:
    return (await bench.ledger(writer.ledger_id)).fragments[0].ensemble


async def soft_ring(bench: Bench, *, closed: bool = True) -> tuple[Writer, Ring]:
    """Write a ledger, and let losses and repairs put its bookies in an order that is not STRICT.

    Afterwards all bookies that are left are in its ensemble.
    """
    writer = await bench.written(COUNT, quorums=STRIPED, size=SIZE, closed=closed)
    ring = writer.ensemble
    at = next(at for at, one in enumerate(ring) if bench.zone(one) == "c")
    beside = next(ring[near % 6] for near in (at - 1, at + 1) if bench.zone(ring[near % 6]) == "a")
    for lost, again in ((ring[at], True), (beside, False)):
        await bench.lose(lost)
        if not closed:
            await go_on(writer)
        assert (await bench.attempt(writer.ledger_id, lost)).done
        if again:
            await bench.bring_back(lost)
            await asyncio.sleep(15)  # until links that were refused try again
    ring = await first_ensemble(bench, writer)
    assert set(ring) == {one.id for one in bench.lab.machines.values()} - {beside}
    assert level(bench, ring) is Level.SOFT
    return writer, ring


async def go_on(writer: Writer) -> None:
    """Append until the writer has found others for what it has lost."""
    before = writer.ensemble
    while writer.ensemble == before:
        await writer.append(payload(writer.last_appended + 1))
        await writer.flush()
        await asyncio.sleep(0.5)


def told(bench: Bench, ledger_id: LedgerId) -> list[Ring]:
    """Give the ensembles that bookies were told of a ledger, also more than once."""
    return [
        opening.ensemble
        for machine in bench.lab.machines.values()
        if machine.door is not None
        for opening in machine.door.openings
        if opening.ledger_id == ledger_id
    ]


async def copying(bench: Bench, writer: Writer) -> asyncio.Task[Attempt]:
    """Begin to spread a ledger; some entries of it are copied already."""
    await bench.mark(writer.ledger_id)
    attempt = bench.tasks.create_task(bench.repairer.attempt(writer.ledger_id, respread=True))
    await bench.until(lambda: respread_bytes(bench) > 0)
    return attempt


def respread_bytes(bench: Bench) -> int:
    return sum(size for (_, _, cause), size in bench.moved().items() if cause == Cause.RESPREAD)


async def read_all(reader: Reader) -> list[bytes]:
    return [bytes(one.payload) async for one in reader.read_entries(0, COUNT - 1)]


WRITTEN = [payload(number, SIZE) for number in range(COUNT)]


async def spread(bench: Bench, writer: Writer, ring: Ring) -> None:
    await bench.mark(writer.ledger_id)
    assert (await bench.repairer.attempt(writer.ledger_id, respread=True)).done
    await whole(bench, writer, ring)


async def whole(bench: Bench, writer: Writer, ring: Ring) -> None:
    """The ledger is STRICT on the same bookies, and every copy is there."""
    after = await first_ensemble(bench, writer)
    assert level(bench, after) is Level.STRICT
    assert sorted(after) == sorted(ring)
    assert await bench.lacks(writer.ledger_id, size=SIZE) == []
    assert await bench.marked(writer.ledger_id) is None


@played(bookies_in=FULL)
async def test_s133_a_full_ring_becomes_strict_without_a_free_bookie(bench: Bench) -> None:
    writer, ring = await soft_ring(bench)
    await spread(bench, writer, ring)
    after = await first_ensemble(bench, writer)
    changed = sum(new != old for new, old in zip(after, ring, strict=True))
    share_bytes = COUNT * STRIPED.write // STRIPED.ensemble * (SIZE + 100)
    assert 0 < respread_bytes(bench) <= changed * share_bytes
    assert bench.metrics.ledgers_respread == 1


@played(bookies_in=FULL)
async def test_s133_a_reader_that_knows_the_old_ensemble_finds_every_entry(bench: Bench) -> None:
    writer, ring = await soft_ring(bench)
    reader = await bench.client.open(writer.ledger_id, password=b"secret")
    await spread(bench, writer, ring)
    known = reader.metadata.last_fragment.ensemble
    assert known == ring != await first_ensemble(bench, writer)
    for number in map(EntryId, range(COUNT)):
        for position in STRIPED.write_set(number):
            assert await packet_at(bench.lab, known[position], writer.ledger_id, number)
    assert await read_all(reader) == WRITTEN


@played(bookies_in=FULL)
async def test_s133_members_are_told_nothing_that_was_never_true(bench: Bench) -> None:
    """Metadata that is rebuilt from hints may have the old ensemble. That still leads to all."""
    writer, ring = await soft_ring(bench)
    before = Counter(told(bench, writer.ledger_id))
    await spread(bench, writer, ring)
    assert set(Counter(told(bench, writer.ledger_id)) - before) == {ring}


@played(bookies_in={"a": 3, "b": 3, "c": 3})
async def test_a_newcomer_is_told_the_ensemble_that_names_it(bench: Bench) -> None:
    writer = await bench.written(COUNT, quorums=STRIPED, size=SIZE)
    await bench.lose(writer.ensemble[0])
    before = Counter(told(bench, writer.ledger_id))
    assert (await bench.attempt(writer.ledger_id, writer.ensemble[0])).done
    after = await first_ensemble(bench, writer)
    assert set(Counter(told(bench, writer.ledger_id)) - before) == {after}


@played(given=rules(repair=SLOW), bookies_in=FULL)
async def test_s133_a_replicator_that_dies_between_two_copies_leaves_all_as_it_was(
    bench: Bench,
) -> None:
    writer, ring = await soft_ring(bench)
    before = Counter(told(bench, writer.ledger_id))
    attempt = await copying(bench, writer)
    attempt.cancel()
    await asyncio.wait([attempt])
    assert await first_ensemble(bench, writer) == ring
    assert await bench.lacks(writer.ledger_id, size=SIZE) == []
    assert set(Counter(told(bench, writer.ledger_id)) - before) == {ring}
    await spread(bench, writer, ring)


@played(given=rules(repair=SLOW), bookies_in=FULL)
async def test_s133_of_two_replicators_one_swaps_and_the_other_is_overtaken(bench: Bench) -> None:
    writer, ring = await soft_ring(bench)
    attempt = await copying(bench, writer)
    mark = await underreplication.read(bench.cluster, writer.ledger_id)
    session = bench.cluster.store.session.id
    assert mark is not None
    assert session is not None
    lost = Claim(ledger_id=writer.ledger_id, mark=mark, version=0, session=session)
    await underreplication.release(bench.cluster, lost)
    other = Repairer(bench.client, bench.view, name=BookieId("other"), chance=random.Random(8))
    attempts = [await attempt, await other.attempt(writer.ledger_id, respread=True)]
    assert any(one.done for one in attempts)
    await whole(bench, writer, ring)
    assert bench.metrics.fragments_swapped + other.metrics.fragments_swapped == 3


@played(given=rules(repair=SLOW), bookies_in=FULL)
async def test_s133_a_member_that_loses_its_disk_meanwhile_takes_no_other_place(
    bench: Bench,
) -> None:
    writer, ring = await soft_ring(bench)
    up = [one for one in bench.lab.machines.values() if one.door is not None]
    before = {one.id: len(one.doorway.appended) for one in up}
    attempt = await copying(bench, writer)
    target = next(one for one in up if len(one.doorway.appended) > before[one.id])
    await target.crash()
    await target.replace_disk()
    await target.start()
    assert troubles(await attempt)
    assert await first_ensemble(bench, writer) == ring
    assert (await bench.attempt(writer.ledger_id, target.id)).done, "its disk is filled first"
    assert await bench.lacks(writer.ledger_id, size=SIZE) == []
    await asyncio.sleep(60)  # until it is avoided no more
    await spread(bench, writer, ring)


@played(given=rules(repair=SLOW), bookies_in=FULL)
async def test_s133_a_hold_ends_a_change_of_places_before_its_swap(bench: Bench) -> None:
    writer, ring = await soft_ring(bench)
    attempt = await copying(bench, writer)
    await bench.hold("b")
    assert troubles(await attempt) == [RepairTrouble.HELD]
    assert await first_ensemble(bench, writer) == ring
    await bench.open("b")
    await spread(bench, writer, ring)


@played(given=rules(repair=SLOW), bookies_in=FULL)
async def test_s133_an_open_ledger_is_recovered_while_its_first_fragment_changes_places(
    bench: Bench,
) -> None:
    writer, ring = await soft_ring(bench, closed=False)
    attempt = await copying(bench, writer)
    reader = await bench.client.open(writer.ledger_id, password=b"secret", recover=True)
    assert reader.metadata.is_closed
    assert (await attempt).done
    assert await first_ensemble(bench, writer) != ring
    assert await read_all(reader) == WRITTEN
