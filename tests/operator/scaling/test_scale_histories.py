"""Whatever happens meanwhile: nothing goes that a ledger names, one bookie at most is removed."""

import random
from collections.abc import Awaitable, Callable

import pytest

from tests.operator.histories import play
from tests.operator.resources import SPACE
from tests.operator.roll import rolling_world
from tests.operator.scaling.removing_world import GoneWatch, RemovingWorld, built
from zonekeeper.operator.kubernetes.api import PODS

pytestmark = pytest.mark.simulation

TURNS = 50
HistoryEvent = Callable[[RemovingWorld], Awaitable[None]]


def asks(**spec: object) -> HistoryEvent:
    async def change(world: RemovingWorld) -> None:
        await world.change(**spec)

    return change


async def restart_the_operator(world: RemovingWorld) -> None:
    await world.reconciler.close()
    world.reconciler = world.new_operator()


async def write(world: RemovingWorld) -> None:
    """Let a writer choose bookies that take writes, one a zone."""
    going, cookies = {*await world.orders()}, await world.cookies()
    chosen = [
        next(
            one for one in sorted(cookies, reverse=True) if f"-{zone}-" in one and one not in going
        )
        for zone in "abc"
    ]
    if {*chosen} <= world.registered.keys():
        await world.write_ledger(*chosen)


async def lose_a_pod(world: RemovingWorld) -> None:
    names = sorted(await rolling_world.bookies(world))
    world.kubernetes.mark_deleted(PODS, SPACE, names[-1])


def holds(why: str) -> HistoryEvent:
    async def hold(world: RemovingWorld) -> None:
        world.held_by = why

    return hold


def repairs(*, is_repaired: bool) -> HistoryEvent:
    async def change(world: RemovingWorld) -> None:
        world.is_repaired = is_repaired

    return change


def cut_off(*, is_cut_off: bool) -> HistoryEvent:
    async def change(world: RemovingWorld) -> None:
        world.is_cut_off = is_cut_off

    return change


_EVENTS: tuple[tuple[HistoryEvent, HistoryEvent | None], ...] = (
    (asks(bookiesPerZone=2), None),
    (asks(bookiesPerZone=3), None),
    (asks(image="zonekeeper:2"), None),
    (asks(storage={"size": "1Gi", "onScaleDown": "Retain"}), None),
    (asks(scaleDown={"paused": True}), asks(scaleDown={"paused": False})),
    (restart_the_operator, None),
    (write, None),
    (lose_a_pod, None),
    (holds("zoneHeld: a drill"), holds("")),
    (repairs(is_repaired=False), repairs(is_repaired=True)),
    (cut_off(is_cut_off=True), cut_off(is_cut_off=False)),
)


@pytest.mark.parametrize("seed", range(5))
async def test_nothing_goes_that_a_ledger_names_whatever_happens(seed: int) -> None:
    chance = random.Random(seed)
    world = await built(storage={"size": "1Gi", "onScaleDown": "Delete"})
    watch = GoneWatch(world)
    await play(world, _EVENTS, chance=chance, turns=TURNS, rate=0.35, look=watch.look)
    await world.change(bookiesPerZone=2, storage={"size": "1Gi", "onScaleDown": "Delete"})
    world.now_ms += 60_000

    await world.settle(after_turn=watch.look)
    world.now_ms += 60_000
    await world.settle(after_turn=watch.look)

    asked_for = {f"log-{zone}-{number}" for zone in "abc" for number in range(2)}
    assert await world.named() <= asked_for
    assert await world.replicas() == {"a": 2, "b": 2, "c": 2}
    assert await world.orders() == {}
    before = await world.picture()
    await world.turn()
    assert await world.picture() == before, "at rest there is no write"
