"""Wherever the operator dies after a bookie lost its node, one volume is given up, and it heals."""

import pytest

from tests.operator import resources
from tests.operator.faulty_calls import CallFault, FaultyCallsWorld
from tests.operator.volumes.absence_world import LOST, AbsenceWorld
from tests.operator.volumes.test_lost_nodes import LONG, RECOVER, REFILL
from zonekeeper.operator.kubernetes.api import Json

pytestmark = pytest.mark.simulation

#: A healing makes fewer changes of objects; the test counts them.
CHANGES_MIN = 12
CHANGES_MAX = 40
#: ``make check`` has some of the points.
POINTS = [
    pytest.param(number, marks=() if number % 12 == 2 else pytest.mark.long)
    for number in range(1, CHANGES_MAX)
]


class FaultyAbsenceWorld(FaultyCallsWorld, AbsenceWorld):
    """The calls of its operator meet a fault while a bookie's node is gone."""


async def healed(heal: Json, fault: CallFault | None, at: int) -> FaultyAbsenceWorld:
    """Let a bookie lose its node while this fault happens."""
    world = FaultyAbsenceWorld(heal=heal)
    await world.settle()
    await world.write_ledger("log-a-0", LOST, "log-c-0")
    first, others = await world.claim_uid(LOST), await claims(world)
    world.faulty.changes, world.faulty.fault, world.faulty.at = 0, fault, at
    seen = [first]

    async def look() -> None:
        now = await world.claim_uid(LOST)
        if now is not None and now != seen[-1]:
            seen.append(now)
        assert await claims(world) == others

    await world.lose_node(LOST)
    for _ in range(2 * LONG):
        await world.pass_minutes(1)
        await look()
    await world.settle(after_turn=look)
    assert len(seen) == 2, "one volume was given up, and one came"
    return world


async def claims(world: AbsenceWorld) -> dict[str, str]:
    """Give the uids of all other claims."""
    found = await world.claims()
    return {name: one["metadata"]["uid"] for name, one in found.items() if name != LOST}


async def check(world: FaultyAbsenceWorld) -> None:
    assert resources.statuses(await world.conditions()) == {"True"}
    assert await world.orders() == {}
    assert await world.noted() == []
    before = world.faulty.changes
    for _ in range(3):
        await world.turn()
    assert world.faulty.changes == before, "at rest no write"


@pytest.mark.parametrize("heal", [REFILL, RECOVER], ids=["refill", "recover"])
async def test_a_healing_has_as_many_changes_of_objects_as_are_tried(heal: Json) -> None:
    world = await healed(heal, None, 0)
    assert CHANGES_MIN <= world.faulty.changes < CHANGES_MAX
    await check(world)


@pytest.mark.parametrize("heal", [REFILL, RECOVER], ids=["refill", "recover"])
@pytest.mark.parametrize("fault", list(CallFault))
@pytest.mark.parametrize("at", POINTS)
async def test_a_fault_at_any_change_ends_in_one_healing(
    at: int, fault: CallFault, heal: Json
) -> None:
    await check(await healed(heal, fault, at))
