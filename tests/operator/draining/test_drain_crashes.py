"""Wherever the operator dies while a zone is opened and closed, no two zones may be evicted.

The rule is asked before each call of the operator, and so after each of its writes.
"""

import asyncio
import itertools

import pytest

from tests.operator import resources
from tests.operator.draining import draining_world
from tests.operator.draining.draining_world import A_IS_OPEN, AT_REST, DrainingWorld
from tests.operator.faulty_calls import CallFault, FaultyCallsWorld
from tests.operator.resources import NAME, SPACE
from zonekeeper.operator.kubernetes.api import BUDGETS

pytestmark = pytest.mark.simulation

#: To open and close a zone makes at least so many changes; the test counts them.
CHANGES_MIN = 16
CHANGES_MAX = 40
AGAIN_MAX = 5
#: So long the loop stands still, whenever it has asked so many times for the time.
STALL_S = 12.0
STALLS_EVERY = 150
#: ``make check`` has some of the points.
POINTS = [
    pytest.param(number, marks=() if number % 6 == 1 else pytest.mark.long)
    for number in range(1, CHANGES_MAX)
]


class FaultyWorld(FaultyCallsWorld, DrainingWorld):
    """The calls of its operator meet a fault while a zone is opened and closed."""

    async def reach(self, budgets: list[str]) -> None:
        """Settle until these stand: an operator that has just begun looks for a while first."""
        for _ in range(AGAIN_MAX):
            await self.settle()
            if self.budgets() == budgets:
                return
        assert self.budgets() == budgets

    async def turn(self) -> int | None:
        try:
            return await super().turn()
        finally:
            self.check()


async def built() -> FaultyWorld:
    world = FaultyWorld()
    await world.settle()
    for number in range(draining_world.BOOKIES):
        await world.write_ledger(*(f"{NAME}-{zone}-{number}" for zone in "abc"))
    await world.settle()
    return world


async def drained(fault: CallFault | None, at: int) -> FaultyWorld:
    """Drain zone a and let it come back while this fault happens."""
    world = await built()
    world.faulty.changes, world.faulty.fault, world.faulty.at = 0, fault, at
    world.cordon("a")
    await world.reach(A_IS_OPEN)
    assert await world.drain("a") == [True, True, True]
    await world.settle()
    assert world.budgets() == A_IS_OPEN
    assert await world.drain("b") == [False, False, False]
    await world.uncordon("a")
    await world.reach(AT_REST)
    return world


async def check(world: FaultyWorld) -> None:
    assert world.budgets() == AT_REST
    assert resources.statuses(await world.conditions()) == {"True"}
    before = world.faulty.changes
    for _ in range(3):
        await world.turn()
    assert world.faulty.changes == before, "at rest no write"


async def test_a_drain_of_a_zone_has_as_many_changes_as_are_tried() -> None:
    world = await drained(None, 0)
    assert CHANGES_MIN <= world.faulty.changes < CHANGES_MAX
    await check(world)


@pytest.mark.parametrize("fault", list(CallFault))
@pytest.mark.parametrize("at", POINTS)
async def test_a_fault_at_any_change_opens_no_second_zone(at: int, fault: CallFault) -> None:
    await check(await drained(fault, at))


async def test_a_machine_that_stands_still_for_seconds_changes_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The world's time is that of its turns: the twin of the store is as patient as it needs."""
    loop, asked = asyncio.get_running_loop(), itertools.count()
    real = loop.time

    def stalls() -> float:
        return real() + STALL_S * (next(asked) // STALLS_EVERY)

    monkeypatch.setattr(loop, "time", stalls)
    await check(await drained(CallFault.LOST, 4))


@pytest.mark.parametrize("turns", range(1, 12))
async def test_a_drain_that_is_called_off_at_any_turn_ends_at_rest(turns: int) -> None:
    world = await built()
    world.cordon("a")
    for _ in range(turns):
        await world.turn()
        await world.controllers()
    await world.uncordon("a")
    world.cordon("b")
    await world.settle()
    assert world.budgets() == ["log-a-closed", "log-c-closed"]
    await world.uncordon("b")
    await world.settle()
    await check(world)


@pytest.mark.parametrize("moment", ["before the common budget goes", "while the zone is open"])
async def test_an_operator_that_sees_what_was_long_ago_opens_nothing(moment: str) -> None:
    """All budgets stood once, or the common one did not: none goes on the word of that."""
    world = await built()
    world.cordon("a")
    while sorted(world.budgets()) != (
        sorted([*AT_REST, *A_IS_OPEN]) if "before" in moment else A_IS_OPEN
    ):
        await world.turn()
        await world.controllers()
    old = world.kubernetes.copy()
    await world.uncordon("a")
    await world.settle()
    assert world.budgets() == AT_REST
    if "before" not in moment:
        world.cordon("b")
        await world.settle()
        assert world.budgets() == ["log-a-closed", "log-c-closed"]

    world.reconciler = world.new_operator()
    for _ in range(3):
        world.faulty.see(old)
        await world.turn()
        world.check()
    assert await world.kubernetes.list(BUDGETS, SPACE) != []
