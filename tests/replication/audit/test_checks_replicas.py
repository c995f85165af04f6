"""The replicas check and returned bookies, on real bookies: what is found, and what is left alone.

Numbers in comments are those of docs/scenarios.md.
"""

import asyncio
import dataclasses
import random
from collections.abc import Awaitable, Callable
from contextlib import aclosing

import pytest

from tests.client import lab
from tests.client.lab import Lab
from tests.support import playing
from zonekeeper.client.api.client import Client
from zonekeeper.metadata.bookies import bookie_records
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.ledgers import ledgers, underreplication
from zonekeeper.metadata.ledgers.ledgers import StoredLedger
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.replication.audit import (
    check_progress,
    checks_replicas,
    replica_reading,
    returning,
)
from zonekeeper.replication.audit.auditor_metrics import AuditorMetrics
from zonekeeper.replication.audit.check_progress import CheckProgress, Progressing
from zonekeeper.replication.audit.checks_replicas import ReplicasCheck
from zonekeeper.replication.audit.marking import Marker
from zonekeeper.replication.audit.replica_reading import ReplicaReader, windows
from zonekeeper.replication.audit.returning import Returning
from zonekeeper.replication.decisions.copies import CopyFault, FaultKind
from zonekeeper.replication.view.pace import BytePace
from zonekeeper.replication.view.view import View
from zonekeeper.replication.watch.zone_watch import ZoneWatch
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import errors, frames
from zonekeeper.wire.formats.frames import Frame

#: A striped ledger, and one that is not.
STRIPED = Quorums(ensemble=6, write=3, ack=2, ack_zones=2)
PLAIN = Quorums(ensemble=3, write=3, ack=2, ack_zones=2)


class CheckWorld:
    """Real bookies, a zone watch, and the check."""

    def __init__(self, lab_: Lab, cluster: Cluster, client: Client, view: View) -> None:
        self.lab = lab_
        self.cluster = cluster
        self.client = client
        self.view = view
        self.metrics = AuditorMetrics()
        marker = Marker(cluster, self.metrics, lambda: 1_000)
        pool = client.bookies.pool
        reader = ReplicaReader(view, pool, self.metrics, BytePace(lambda: 0))
        self.check = ReplicasCheck(cluster, view, reader, marker, self.metrics)
        self.returning = Returning(cluster, pool, marker)

    async def written(
        self, count: int = 10, quorums: Quorums = PLAIN, digest: Digest = Digest.CRC32C
    ) -> StoredLedger:
        """Write a ledger and close it, when all of its bookies have all of it."""
        writer = await self.client.create(quorums=quorums, digest=digest)
        for number in range(count):
            await writer.append(b"entry %d" % number)
        await writer.flush()
        await asyncio.sleep(1)
        await writer.close()
        return await self.ledger(writer.ledger_id)

    async def ledger(self, ledger_id: LedgerId) -> StoredLedger:
        stored = await ledgers.read(self.cluster, ledger_id, sync=True)
        assert stored is not None
        return stored

    async def checked(self, ledger: StoredLedger) -> tuple[BookieId, ...] | None:
        """Check a ledger; give the bookies that it is marked for then."""
        await self.check.check(ledger)
        mark = await underreplication.read(self.cluster, ledger.id)
        return None if mark is None else mark.replicas


def play(scenario: Callable[[CheckWorld], Awaitable[None]]) -> None:
    """Play a scenario on three zones of three bookies, once nothing is held any more."""

    async def staged(lab_: Lab) -> None:
        cluster = await lab_.cluster()
        view = View(cluster)
        watch = ZoneWatch(
            cluster,
            view,
            name=BookieId("watch"),
            chance=random.Random(3),
            wall_ms=lambda: 1_000,
            stands_in=False,
        )
        async with lab_.client() as client:
            tasks = [
                lab_.tasks.create_task(view.follow()),
                lab_.tasks.create_task(watch.run()),
            ]
            try:
                await view.known()
                while view.what_holds(None) is not None:
                    await view.changed(view.looks)
                await scenario(CheckWorld(lab_, cluster, client, view))
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)

    lab.play(staged)


played = playing.by(play)


def without(entry_ids: set[int]) -> Callable[[service.ReadReply], service.ReadReply]:
    """Make a bookie deny entries that it was asked for."""

    def spoiled(reply: service.ReadReply) -> service.ReadReply:
        parts = [
            part
            for frame in reply.frames
            if (part := frame.subset({one for one, _ in frame} - entry_ids)) is not None
        ]
        return dataclasses.replace(reply, frames=tuple(parts))

    return spoiled


def damaged(reply: service.ReadReply) -> service.ReadReply:
    """Turn a bit of the last packet of each frame."""
    return dataclasses.replace(reply, frames=tuple(map(_turned, reply.frames)))


def _turned(frame: Frame) -> Frame:
    packets = [bytes(packet) for _, packet in frame]
    packets[-1] = packets[-1][:-1] + bytes([packets[-1][-1] ^ 1])
    ids = [entry_id for entry_id, _ in frame]
    return frames.build(frame.ledger_id, ids, packets, frame.flags)


@played()
async def test_whole_copies_are_all_read_and_nothing_is_marked(world: CheckWorld) -> None:
    for quorums in (PLAIN, STRIPED):
        for digest in Digest:
            assert await world.checked(await world.written(9, quorums, digest)) is None
    assert world.metrics.entries_checked_total == 2 * len(Digest) * 9
    assert world.metrics.copies_unknown_total == 0


@played()
async def test_a_hole_in_the_middle_is_found(world: CheckWorld) -> None:
    # S81: only the ends would look whole.
    for quorums in (PLAIN, STRIPED):
        ledger = await world.written(12, quorums)
        holder = ledger.metadata.last_fragment.ensemble[1]
        world.lab.door(holder).spoil = without({5})
        assert await world.checked(ledger) == (holder,)
        world.lab.door(holder).spoil = lambda reply: reply


@played()
async def test_a_copy_with_a_bad_digest_is_found(world: CheckWorld) -> None:
    # S72: what is copied from is another copy; this one is made again.
    ledger = await world.written()
    holder = ledger.metadata.last_fragment.ensemble[2]
    world.lab.door(holder).spoil = damaged
    assert await world.checked(ledger) == (holder,)


async def with_a_hole(world: CheckWorld) -> tuple[LedgerId, BookieId]:
    """Give a closed ledger, and a member that was away when the others acknowledged its entry."""
    writer = await world.client.create(quorums=PLAIN)
    late = writer.ensemble[0]
    world.lab.door(late).holding = True
    await writer.append(b"while one was slow")
    await writer.flush()
    await world.lab.machines[late].crash()
    await writer.close()
    await world.lab.machines[late].start()
    return writer.ledger_id, late


@played()
async def test_what_others_acknowledged_while_a_bookie_was_away_is_found(world: CheckWorld) -> None:
    # S82: an allowed state, and brought to the write quorum.
    ledger_id, late = await with_a_hole(world)
    await asyncio.sleep(60)
    ledger = await world.ledger(ledger_id)
    assert late in ledger.metadata.bookies
    assert await world.checked(ledger) == (late,)
    assert world.metrics.doubted_total == 1


@played()
async def test_a_bookie_that_says_nothing_is_unknown_and_not_accused(world: CheckWorld) -> None:
    ledger = await world.written()
    holder = ledger.metadata.last_fragment.ensemble[0]
    world.lab.door(holder).read_error = errors.TooManyRequests("busy")
    assert await world.checked(ledger) is None
    assert world.metrics.copies_unknown_total == 10
    await world.lab.machines[holder].crash()
    await asyncio.sleep(30)
    assert await world.checked(ledger) is None, "its loss is not this check's business"


@played()
async def test_a_bookie_that_cannot_read_its_copy_is_doubted(world: CheckWorld) -> None:
    ledger = await world.written()
    holder = ledger.metadata.last_fragment.ensemble[0]
    world.lab.door(holder).read_error = errors.IoFailed("a bad sector")
    assert await world.checked(ledger) == (holder,)


async def faults_of(world: CheckWorld, ledger: StoredLedger) -> list[CopyFault]:
    """Give all faults that a reading of a ledger finds."""
    pool = world.client.bookies.pool
    reader = ReplicaReader(world.view, pool, world.metrics, BytePace(lambda: 0))
    async with aclosing(reader.judged(ledger, world.view.known)) as windows_:
        return [fault async for window in windows_ for fault in window.verdict.faults]


def unreadable(some: set[int]) -> Callable[[service.ReadReply], service.ReadReply]:
    """Make a bookie stop before entries that it cannot read, and fail at the first of them."""

    def spoiled(reply: service.ReadReply) -> service.ReadReply:
        ids = sorted(entry_id for frame in reply.frames for entry_id, _ in frame)
        stop = min((one for one in ids if one in some), default=None)
        if stop is None:
            return reply
        if stop == ids[0]:
            raise errors.IoFailed("a bad sector")
        before = {one for one in ids if one < stop}
        parts = [part for frame in reply.frames if (part := frame.subset(before)) is not None]
        return dataclasses.replace(reply, frames=tuple(parts), next_entry_id=EntryId(stop))

    return spoiled


@played()
async def test_copies_behind_one_that_cannot_be_read_are_read(world: CheckWorld) -> None:
    ledger = await world.written(12)
    holder = ledger.metadata.last_fragment.ensemble[1]
    world.lab.door(holder).spoil = unreadable({0, 4, 5})
    found = await faults_of(world, ledger)
    assert found == [CopyFault(EntryId(one), holder, FaultKind.UNREADABLE) for one in (0, 4, 5)]


@played()
async def test_a_bookie_that_can_read_nothing_is_not_asked_for_every_entry(
    world: CheckWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_reading, "UNREADABLE_MAX", 3)
    ledger = await world.written(12)
    holder = ledger.metadata.last_fragment.ensemble[1]
    world.lab.door(holder).read_error = errors.IoFailed("a bad disk")
    found = await faults_of(world, ledger)
    assert [one.fault for one in found] == [FaultKind.UNREADABLE] * 3 + [FaultKind.UNKNOWN] * 9


@played()
async def test_an_entry_that_nobody_has_is_said_and_nobody_is_marked(world: CheckWorld) -> None:
    ledger = await world.written()
    for holder in ledger.metadata.last_fragment.ensemble:
        world.lab.door(holder).spoil = without({3})
    assert await world.checked(ledger) is None
    assert world.metrics.entries_without_copy_total == 1


@played()
async def test_copies_that_differ_are_said_and_nobody_is_marked(world: CheckWorld) -> None:
    ledger = await world.written(digest=Digest.DUMMY)
    holder = ledger.metadata.last_fragment.ensemble[0]
    world.lab.door(holder).spoil = damaged
    assert await world.checked(ledger) is None
    assert world.metrics.entries_in_conflict_total > 0


@played()
async def test_what_may_still_grow_is_left_to_its_writer(world: CheckWorld) -> None:
    writer = await world.client.create(quorums=PLAIN)
    await writer.append(b"open")
    await writer.flush()
    holder = writer.ensemble[0]
    world.lab.door(holder).spoil = without({0})
    assert await world.checked(await world.ledger(writer.ledger_id)) is None
    assert world.metrics.entries_checked_total == 0


@played()
async def test_a_check_goes_on_behind_the_last_ledger_that_was_noted(world: CheckWorld) -> None:
    every = [await world.written(2) for _ in range(3)]
    assert await world.check.begun() is None
    await check_progress.write(
        world.cluster,
        Progressing.REPLICAS,
        CheckProgress(next_ledger=every[1].id, began_ms=7),
    )
    begun = await world.check.begun()
    assert begun is not None
    assert begun.began_ms == 7
    await world.check.run(begun)
    assert world.metrics.entries_checked_total == 4
    await world.check.end()
    assert await world.check.begun() is None


@played()
async def test_a_check_notes_how_far_it_is(
    world: CheckWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks_replicas, "NOTED_EVERY", 2)
    every = [await world.written(2) for _ in range(3)]
    await world.check.run(CheckProgress(next_ledger=LedgerId(0), began_ms=7))
    assert await world.check.begun() == CheckProgress(
        next_ledger=LedgerId(every[1].id + 1), began_ms=7
    )


@played()
async def test_progress_that_cannot_be_read_costs_a_check_from_the_beginning(
    world: CheckWorld,
) -> None:
    path = world.cluster.root.beside("checks/replicas")
    await world.cluster.store.create(path, b"?", make_parents=True)
    assert await world.check.begun() is None
    await world.check.end()


@played()
async def test_nothing_is_read_while_anything_is_held(world: CheckWorld) -> None:
    ledger = await world.written()
    await world.lab.crash_zone("c")
    await asyncio.sleep(120)
    holder = next(
        one for one in ledger.metadata.last_fragment.ensemble if not one.startswith("bk-c")
    )
    world.lab.door(holder).spoil = without({3})
    before = len(world.lab.door(holder).reads)
    checking = asyncio.ensure_future(world.checked(ledger))
    await asyncio.sleep(600)
    assert len(world.lab.door(holder).reads) == before
    checking.cancel()
    await asyncio.wait([checking])


# ── bookies that came back ──


@played()
async def test_a_bookie_that_is_back_with_all_it_had_is_taken_off_the_mark(
    world: CheckWorld,
) -> None:
    # S77, S84: nothing is copied for it any more.
    for quorums in (PLAIN, STRIPED):
        ledger = await world.written(12, quorums)
        one, other = ledger.metadata.last_fragment.ensemble[:2]
        await underreplication.mark(world.cluster, ledger.id, [one, other], at_ms=500)
        assert await world.returning.unmark({one: 400}) == 1
        mark = await underreplication.read(world.cluster, ledger.id)
        assert mark is not None
        assert mark.replicas == (other,)


@played()
async def test_a_bookie_that_is_back_with_a_hole_stays_marked(world: CheckWorld) -> None:
    ledger_id, late = await with_a_hole(world)
    await underreplication.mark(world.cluster, ledger_id, [late], at_ms=500)
    assert await world.returning.unmark({late: 400}) == 0


@pytest.mark.parametrize("count", [0, 10])
@played()
async def test_a_bookie_that_is_back_on_an_empty_disk_stays_marked_though_it_owes_nothing(
    world: CheckWorld, count: int
) -> None:
    writer = await world.client.create(quorums=PLAIN)
    for number in range(count):
        await writer.append(b"entry %d" % number)
    await writer.flush()
    if not count:
        await writer.close()
    forgetful, whole = writer.ensemble[:2]
    for one in (forgetful, whole):
        await world.lab.machines[one].crash()
    await world.lab.machines[forgetful].replace_disk()
    for one in (forgetful, whole):
        await world.lab.machines[one].start()
    await underreplication.mark(world.cluster, writer.ledger_id, [forgetful, whole], at_ms=500)
    assert await world.returning.unmark({forgetful: 400, whole: 400}) == 1
    mark = await underreplication.read(world.cluster, writer.ledger_id)
    assert mark is not None
    assert mark.replicas == (forgetful,)


@played()
async def test_a_bookies_long_list_of_entries_is_compared_page_by_page(
    world: CheckWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(returning, "RANGES_MAX", 2)
    ledger = await world.written(60, STRIPED)
    ensemble = ledger.metadata.last_fragment.ensemble
    await underreplication.mark(world.cluster, ledger.id, ensemble, at_ms=500)
    assert await world.returning.unmark(dict.fromkeys(ensemble, 400)) == 1
    assert await underreplication.read(world.cluster, ledger.id) is None


@played()
async def test_a_mark_that_is_older_than_the_loss_says_something_else_and_stays(
    world: CheckWorld,
) -> None:
    ledger = await world.written()
    one = ledger.metadata.last_fragment.ensemble[0]
    await underreplication.mark(world.cluster, ledger.id, [one], at_ms=300)
    assert await world.returning.unmark({one: 400}) == 0


@played()
async def test_s142_a_bookie_that_is_started_again_when_it_has_answered_stays_marked(
    world: CheckWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = await world.written()
    one = ledger.metadata.last_fragment.ensemble[0]
    door = world.lab.door(one)
    answer = door.list_entries

    async def answer_for_the_last_time(request: service.ListEntriesRequest) -> service.EntryRanges:
        page = await answer(request)
        await bookie_records.count_boot(world.cluster, one, door.boot_epoch + 1)
        return page

    monkeypatch.setattr(door, "list_entries", answer_for_the_last_time)
    await underreplication.mark(world.cluster, ledger.id, [one], at_ms=500)
    assert await world.returning.unmark({one: 400}) == 0
    monkeypatch.undo()
    assert await world.returning.unmark({one: 400}) == 1


@played()
async def test_a_claimed_mark_is_left_to_its_worker(world: CheckWorld) -> None:
    ledger = await world.written()
    one = ledger.metadata.last_fragment.ensemble[0]
    await underreplication.mark(world.cluster, ledger.id, [one], at_ms=500)
    claim = await underreplication.claim(world.cluster, ledger.id, BookieId("worker"))
    assert claim is not None
    assert await world.returning.unmark({one: 400}) == 0


def test_windows_have_one_write_set_each_and_cover_everything_once() -> None:
    for quorums in (PLAIN, STRIPED):
        for first, last in ((0, 0), (3, 4), (7, 2_500)):
            wanted = range(first, last + 1)
            cut = list(windows(quorums, wanted))
            assert sorted(entry for window in cut for entry in window) == list(wanted)
            for window in cut:
                assert len({frozenset(quorums.write_set(EntryId(one))) for one in window}) == 1
