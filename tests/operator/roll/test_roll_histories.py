"""Whatever happens during rolls, at most one unit is away because of them, and all end well."""

import random
from collections.abc import Awaitable, Callable

import pytest

from tests.operator.histories import play
from tests.operator.roll import rolling_world, test_gates
from tests.operator.roll.rolling_world import NEW, OLD, THIRD, UnitsAway
from tests.operator.roll.test_rolls import built
from tests.operator.worlds import World

pytestmark = pytest.mark.simulation

TURNS = 60
_Event = Callable[[World], Awaitable[None]]


def asks(image: str) -> _Event:
    async def change(world: World) -> None:
        await world.change(image=image)

    return change


async def restart_the_operator(world: World) -> None:
    world.reconciler = world.new_operator()


async def stop_the_watch(world: World) -> None:
    world.is_watched = False


#: What happens, and what takes it back; what takes itself back has no other.
_EVENTS: tuple[tuple[_Event, _Event | None], ...] = (
    (asks(OLD), None),
    (asks(NEW), None),
    (asks(THIRD), None),
    (restart_the_operator, None),
    (test_gates.mark, test_gates.unmark),
    (test_gates.hold_b, test_gates.release_b),
    (test_gates.declare, test_gates.lift),
    (test_gates.lose_data, test_gates.fill_in),
    (stop_the_watch, test_gates.watch),
    (test_gates.cut_off(is_cut_off=True), test_gates.cut_off(is_cut_off=False)),
    (test_gates.update(paused=True), test_gates.update()),
)


@pytest.mark.parametrize("seed", range(6))
async def test_at_most_one_unit_is_away_because_of_a_roll_whatever_happens(seed: int) -> None:
    chance = random.Random(seed)
    world = await built(bookiesPerZone=4)
    watched = UnitsAway(world)
    await play(world, _EVENTS, chance=chance, turns=TURNS, rate=0.3, look=watched.look)
    await world.change(image=THIRD)

    await world.settle(after_turn=watched.look)

    assert set((await rolling_world.images(world)).values()) == {THIRD}
    assert await rolling_world.declared(world) == []
    assert (await rolling_world.roll(world))["phase"] == "Settled"
