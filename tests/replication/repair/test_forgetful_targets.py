"""A bookie that gets a copy, loses its disk and comes back under its name before a ledger names it.

It is not in limbo for that ledger, and denies what it took: its copy must not count.
"""

import asyncio
from collections.abc import Sequence

import pytest

from tests.client.lab import Machine
from tests.replication.repair_lab import Bench, packet_at, played, rules, troubles
from zonekeeper.client.api.writer import Writer
from zonekeeper.metadata.ledgers import ledgers
from zonekeeper.metadata.store.errors import StoreUnavailableError
from zonekeeper.metadata.store.store import SessionId, Write, Written
from zonekeeper.metadata.stores.memory import MemoryStore, Passage, RequestKind, calm
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.placement.policy.rules import RepairRules
from zonekeeper.replication.repair.delivery import Delivery, TargetFailedError
from zonekeeper.replication.repair.repair_metrics import RepairTrouble
from zonekeeper.wire.formats import digests, errors, frames
from zonekeeper.wire.formats.entries import Sealer
from zonekeeper.wire.formats.openings import FragmentOpening

SLOW = RepairRules(bytes_per_second=256 * 1024)
SIZE, COUNT = 100_000, 40
LAST = EntryId(COUNT - 1)
WIDE = {"a": 3, "b": 3, "c": 3}
PAIRS = {"a": 2, "b": 2, "c": 2}


async def _anew(machine: Machine) -> None:
    """A bookie loses its disk, and starts with an empty one."""
    await machine.crash()
    await machine.replace_disk()
    await machine.start()


async def _who_has(
    bench: Bench, ledger_id: LedgerId, entry_id: EntryId, members: Sequence[BookieId]
) -> Machine:
    """Wait until a bookie that is no member has an entry."""
    for _ in range(1_000):
        for machine in bench.lab.machines.values():
            if machine.id not in members and await packet_at(
                bench.lab, machine.id, ledger_id, entry_id
            ):
                return machine
        await asyncio.sleep(0.05)
    raise AssertionError("nobody got it within 50 s")


@played(given=rules(repair=SLOW), bookies_in=WIDE)
async def test_a_target_that_loses_its_disk_between_two_carriers_is_not_the_one(
    bench: Bench,
) -> None:
    writer = await bench.written(COUNT, size=SIZE)
    lost = writer.ensemble[0]
    await bench.lose(lost)
    attempt = bench.tasks.create_task(bench.attempt(writer.ledger_id, lost))
    await _anew(await _who_has(bench, writer.ledger_id, EntryId(0), writer.ensemble))
    assert (await attempt).done
    assert await bench.lacks(writer.ledger_id, size=SIZE) == []


@played(given=rules(repair=SLOW), bookies_in=WIDE)
async def test_a_target_that_loses_its_disk_while_the_swap_is_on_its_way_is_looked_at_again(
    bench: Bench,
) -> None:
    writer = await bench.written(COUNT, size=SIZE)
    lost = writer.ensemble[0]
    await bench.lose(lost)
    store = bench.cluster.store
    assert isinstance(store, MemoryStore)
    attempt = bench.tasks.create_task(bench.attempt(writer.ledger_id, lost))
    await bench.until(lambda: bench.metrics.all_bytes_moved > 0)
    store.weather = lambda kind: Passage(there_ms=3_000 if kind is RequestKind.WRITE else 0)
    target = await _who_has(bench, writer.ledger_id, LAST, writer.ensemble)
    await asyncio.sleep(0.5)
    stored = await ledgers.read(await bench.lab.cluster(), writer.ledger_id, sync=True)
    assert stored is not None
    assert target.id not in stored.metadata.bookies
    await _anew(target)
    store.weather = calm
    assert troubles(await attempt) == [RepairTrouble.OVERTAKEN]
    assert await bench.ensemble(writer.ledger_id) == (target.id, *writer.ensemble[1:])
    assert target.id in (await bench.marked(writer.ledger_id) or ())
    assert (await bench.repairer.attempt(writer.ledger_id)).done
    assert await bench.lacks(writer.ledger_id, size=SIZE) == []


class ForgetsBeforeTheSwap:
    """The newcomer of a ledger loses its disk after it was asked, and before its swap is applied.

    Each copy in one zone has one place to go to, so that the target is known.
    """

    def __init__(self, bench: Bench, writer: Writer) -> None:
        self.bench, self.ledger_id = bench, writer.ledger_id
        self.lost = next(one for one in writer.ensemble if bench.zone(one) == "b")
        self.target = next(
            machine
            for machine in bench.lab.machines.values()
            if machine.id not in writer.ensemble and bench.zone(machine.id) == "b"
        )
        assert isinstance(bench.cluster.store, MemoryStore)
        self.store = bench.cluster.store
        self.swapped = False
        self.no_marks_until_s = 0.0
        self._commit = self.store.commit

    async def __call__(
        self, writes: Sequence[Write], *, session: SessionId | None = None
    ) -> tuple[Written, ...]:
        where = ledgers.path(self.bench.cluster, self.ledger_id)
        takes_marks = asyncio.get_running_loop().time() >= self.no_marks_until_s
        if not takes_marks and "/underreplication/ledgers/" in writes[0].path:
            raise StoreUnavailableError("the test's", store="test")
        if self.swapped or where not in {each.path for each in writes}:
            return await self._commit(writes, session=session)
        self.swapped = True
        await _anew(self.target)
        try:
            return await self._commit(writes, session=session)
        finally:
            await self.afterwards()

    async def afterwards(self) -> None:
        """What happens once the swap is applied, and before its answer is heard."""

    async def repaired(self, *named: BookieId) -> None:
        """Repair, and see that the newcomer was looked at."""
        bench = self.bench
        await bench.lose(self.lost)
        await bench.attempt(self.ledger_id, self.lost, *named)
        assert self.target.id in await bench.ensemble(self.ledger_id)
        assert self.target.id in (await bench.marked(self.ledger_id) or ())
        await bench.open("b")
        await bench.until(lambda: bench.view.what_holds(None) is None)
        assert (await bench.repairer.attempt(self.ledger_id)).done
        assert await bench.marked(self.ledger_id) is None
        assert await bench.lacks(self.ledger_id) == []


class HeldMeanwhile(ForgetsBeforeTheSwap):
    """The answer is lost, and something is held when the swap is decided again."""

    async def afterwards(self) -> None:
        await self.bench.hold("b")
        raise StoreUnavailableError("the test's", store="test", maybe_applied=True)


class NoMarksTaken(ForgetsBeforeTheSwap):
    """The store takes no mark for longer than a call waits."""

    async def afterwards(self) -> None:
        self.no_marks_until_s = asyncio.get_running_loop().time() + 100


@pytest.mark.parametrize("what", [ForgetsBeforeTheSwap, HeldMeanwhile, NoMarksTaken])
@played(bookies_in=PAIRS)
async def test_a_newcomer_that_may_have_forgotten_is_looked_at_however_its_swap_ended(
    bench: Bench, what: type[ForgetsBeforeTheSwap], monkeypatch: pytest.MonkeyPatch
) -> None:
    forgets = what(bench, await bench.written(20))
    monkeypatch.setattr(bench.cluster.store, "commit", forgets)
    await forgets.repaired()


@played(bookies_in=PAIRS)
async def test_a_newcomer_that_may_have_forgotten_is_looked_at_if_the_mark_names_him_already(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgets = ForgetsBeforeTheSwap(bench, await bench.written(20))
    monkeypatch.setattr(bench.cluster.store, "commit", forgets)
    await forgets.repaired(forgets.target.id)


@played()
async def test_what_was_acknowledged_in_another_start_is_not_taken_for_a_copy(bench: Bench) -> None:
    writer = await bench.written(1)
    target = next(m for m in bench.lab.machines.values() if m.id not in writer.ensemble)
    ledger = await bench.ledger(writer.ledger_id)
    opening = FragmentOpening(
        ledger_id=writer.ledger_id,
        master_key=digests.master_key(ledger.password),
        quorums=bench.client.reading(writer.ledger_id, ledger).quorums,
        digest=ledger.digest,
        first_entry_id=EntryId(0),
        ensemble=(target.id, *writer.ensemble[1:]),
    )
    packet = Sealer(writer.ledger_id, ledger.digest, ledger.password).seal(
        EntryId(0), EntryId(-1), 1, b"x"
    )
    delivery = Delivery(bench.client.bookies, target.id, opening)
    await delivery.check_start()  # nothing was delivered, so that nothing can be missing
    await delivery.put(
        frames.build(writer.ledger_id, [EntryId(0)], [packet], frames.Flags.RECOVERY)
    )
    await delivery.check_start()
    await _anew(target)
    with pytest.raises(TargetFailedError) as failed:
        await delivery.check_start()
    assert isinstance(failed.value.error, errors.StartedAgain)
    await target.crash()
    with pytest.raises(TargetFailedError):
        await delivery.check_start()  # no bookie can tell


@played(given=rules(repair=SLOW))
async def test_a_member_that_is_started_again_while_its_holes_are_filled_stays_a_member(
    bench: Bench,
) -> None:
    writer = await bench.written(COUNT, size=SIZE)
    doubted = bench.lab.machines[writer.ensemble[0]]
    doubted.doorway.read_error = errors.NoSuchEntry("the test's")
    attempt = bench.tasks.create_task(bench.attempt(writer.ledger_id, doubted.id))
    await bench.until(lambda: bench.metrics.all_bytes_moved > 0)
    await doubted.crash()
    await doubted.start()
    assert troubles(await attempt) == [RepairTrouble.NO_SOURCE]
    assert await bench.ensemble(writer.ledger_id) == writer.ensemble
    assert (await bench.repairer.attempt(writer.ledger_id)).done
