"""Bugs that would lose data or break a promise, planted one at a time: a directed test shows each.

The directed tests pass with the real code where they stand. Here one of them must fail, by what it
asserts, while the bug is there. Bugs of the gate are in ``tests/zone_scenarios``.
"""

from collections.abc import Callable, Mapping, Sequence

import pytest

from tests.replication.repair import (
    test_limbo,
    test_repair_copies,
    test_repair_gate,
    test_repairing,
)
from tests.replication.repair_lab import KEY
from tests.simulation.patching import Patch, patched
from zonekeeper.client.reading import checking
from zonekeeper.client.reading.checking import CheckedReply
from zonekeeper.metadata.ledgers.underreplication import Claim
from zonekeeper.metadata.store.store import Check
from zonekeeper.placement.base.ids import BookieId, EntryId
from zonekeeper.placement.base.topology import Topology
from zonekeeper.replication.decisions import copy_plan
from zonekeeper.replication.decisions.copy_plan import Cause
from zonekeeper.replication.repair import limbo
from zonekeeper.replication.repair.copying import GoOn
from zonekeeper.replication.repair.delivery import Delivery
from zonekeeper.replication.repair.ledger_repair import LedgerRepair, Obstacle
from zonekeeper.replication.repair.repairing import Repairer
from zonekeeper.replication.view.rereading import Reread
from zonekeeper.wire.formats.entries import Entry, Sealer
from zonekeeper.wire.formats.frames import Frame

pytestmark = pytest.mark.simulation

_repair = Repairer._repair

#: Ledger, entry, LAC, length; then a CRC32C.
_HEAD_BYTES = 36


async def _put_and_forget(delivery: Delivery, frame: Frame) -> None:
    lane = await delivery._open()
    delivery._outcomes.expect(lane.append(frame))


def _unchecked(sealer: Sealer, part: Frame, checked: CheckedReply) -> None:
    for entry_id, packet in part:
        lac, length = (int.from_bytes(packet[at : at + 8], signed=True) for at in (16, 24))
        payload = bytes(packet[_HEAD_BYTES:])
        checked.good.append(Entry(sealer.ledger_id, entry_id, EntryId(lac), length, payload))


def _still_lost(bookie_id: BookieId, topology: Topology) -> Cause:
    del bookie_id, topology
    return Cause.LOST


def _whatever_happens(
    repair: LedgerRepair, ensemble: tuple[BookieId, ...], leaving: Mapping[int, Cause]
) -> GoOn:
    del repair, ensemble, leaving

    def go_on(anew: Reread | None = None) -> None:
        del anew

    return go_on


async def _ends_at_once(
    repairer: Repairer, claim: Claim, starts: dict[BookieId, Check]
) -> tuple[Obstacle, ...]:
    pool = repairer.client.bookies.pool
    found = await limbo.find(pool, claim.ledger_id, KEY, claim.mark.replicas)
    for bookie, boot_epoch in found.boots.items():
        await limbo.end(repairer.cluster, pool, claim, bookie, boot_epoch)
    return await _repair(repairer, claim, starts)


#: By what is wrong: the bug, and the tests each of which shows it.
MUTANTS: Mapping[str, tuple[Patch, Sequence[Callable[[], None]]]] = {
    "the swap comes before the copy is durable": (
        (Delivery, "put", _put_and_forget),
        [test_repairing.test_the_swap_waits_until_the_last_entry_is_on_the_targets_disk],
    ),
    "a copy is made of what no digest covers": (
        (checking, "_check_each", _unchecked),
        [test_repair_copies.test_s72_a_corrupt_source_is_passed_over_for_the_next_copy],
    ),
    "a task is not looked at again before it starts": (
        (copy_plan, "cause_of", _still_lost),
        [test_repair_copies.test_s84_a_bookie_that_is_back_keeps_its_copies_and_the_mark_goes],
    ),
    "work in flight goes on": (
        (LedgerRepair, "_go_on", _whatever_happens),
        [
            test_repair_gate.test_work_in_flight_stops_before_its_next_carrier_and_never_swaps,
            test_repair_gate.test_a_hold_between_the_last_carrier_and_the_swap_prevents_the_swap,
            test_repair_copies.test_s77_a_bookie_that_comes_back_during_the_copying_is_not_replaced,
        ],
    ),
    "limbo ends before the copies are there": (
        (Repairer, "_repair", _ends_at_once),
        [test_limbo.test_limbo_ends_only_after_every_copy_is_on_the_disk],
    ),
}

_CASES = [
    pytest.param(patch, directed, id=f"{name}-{directed.__name__}")
    for name, (patch, tests) in MUTANTS.items()
    for directed in tests
]


@pytest.mark.parametrize(("patch", "directed"), _CASES)
def test_a_directed_test_shows_its_bug(patch: Patch, directed: Callable[[], None]) -> None:
    shown = False
    try:
        with patched([patch]):
            directed()
    except* (AssertionError, pytest.fail.Exception):
        shown = True
    assert shown
