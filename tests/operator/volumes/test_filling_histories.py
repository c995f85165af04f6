"""Whatever fills, fails or is edited meanwhile: no volume outruns its largest size or its hour."""

import random
from collections.abc import Awaitable, Callable

import pytest

from tests.operator import resources
from tests.operator.faulty_calls import CallFault, FaultyCallsWorld
from tests.operator.histories import Happening, play
from tests.operator.volumes import volume_world
from tests.operator.volumes.filling_world import FULL, FillingWorld
from zonekeeper.operator.plan.volumes.filling import REST_MS
from zonekeeper.operator.shapes import quantities
from zonekeeper.placement.base.units import MINUTE_MS

pytestmark = pytest.mark.simulation

TURNS = 120
MOST, SIZE = 3 << 30, 1 << 30
#: So much do bookies write at a time, in MiB.
WRITTEN = 150
HEAL = {"grow": {"max": "3Gi"}}


class FillingHistory(FaultyCallsWorld, FillingWorld):
    """Bookies write, and the operator's calls meet faults."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__(heal=HEAL)
        self.chance = chance


async def write(world: FillingHistory) -> None:
    """Let some bookies hold more, as far as their volumes go."""
    for name in sorted(world.registered):
        if world.chance.random() < 0.5:
            has = int(quantities.value(await world.size(f"data-{name}")) or 0) >> 20
            world.held[name] = min(has, world.held.get(name, 0) + WRITTEN)
    await world.publish()


async def delete(world: FillingHistory) -> None:
    """Let ledgers be deleted, so that a bookie holds less."""
    for name in sorted(world.held):
        world.held[name] //= 2
    await world.publish()


def passes(ms: int) -> Callable[[FillingHistory], Awaitable[None]]:
    async def wait(world: FillingHistory) -> None:
        world.now_ms += ms

    return wait


def drives(*, expands: bool) -> Callable[[FillingHistory], Awaitable[None]]:
    async def change(world: FillingHistory) -> None:
        world.expands = expands

    return change


def cut_off(*, is_cut_off: bool) -> Callable[[FillingHistory], Awaitable[None]]:
    async def change(world: FillingHistory) -> None:
        world.is_cut_off = is_cut_off

    return change


def asks(**spec: object) -> Callable[[FillingHistory], Awaitable[None]]:
    async def change(world: FillingHistory) -> None:
        await world.change(**spec)

    return change


async def restart(world: FillingHistory) -> None:
    await world.reconciler.close()
    world.reconciler = world.new_operator()


async def fail(world: FillingHistory) -> None:
    """Let the next change meet a fault."""
    faulty = world.faulty
    faulty.fault = world.chance.choice(list(CallFault))
    faulty.at = faulty.changes + 1


EVENTS: tuple[Happening[FillingHistory], ...] = (
    (write, None),
    (write, None),
    (write, None),
    (delete, None),
    (passes(6 * MINUTE_MS), None),
    (passes(REST_MS), None),
    (restart, None),
    (fail, None),
    (drives(expands=False), drives(expands=True)),
    (cut_off(is_cut_off=True), cut_off(is_cut_off=False)),
    (asks(paused=True), asks(paused=False)),
    (asks(heal={}), asks(heal=HEAL)),
)


class SizeWatch:
    """After each turn: which claims ask for more, by how much, and how long after the last time."""

    def __init__(self, world: FillingHistory) -> None:
        self._world = world
        self._before: dict[str, int] = {}
        self._grown_ms: dict[str, int] = {}
        self.grown = 0

    async def look(self) -> None:
        world = self._world
        for name, size in (await volume_world.sizes(world)).items():
            now = int(quantities.value(size) or 0)
            before = self._before.setdefault(name, now)
            self._before[name] = now
            assert SIZE <= before <= now <= MOST, f"{name} shrinks, or is too large"
            if now == before:
                continue
            self.grown += 1
            assert now - before <= before * 20 // 100 + (1 << 20), f"{name} grew by too much"
            last_ms = self._grown_ms.get(name)
            assert last_ms is None or world.now_ms - last_ms > REST_MS - MINUTE_MS
            self._grown_ms[name] = world.now_ms


@pytest.mark.parametrize("seed", range(8))
async def test_no_volume_outruns_its_hour_or_its_largest_size(seed: int) -> None:
    chance = random.Random(seed)
    world = FillingHistory(chance)
    await world.settle()
    watch = SizeWatch(world)
    await play(world, EVENTS, chance=chance, turns=TURNS, rate=0.6, look=watch.look)
    await world.change(heal=HEAL, paused=False)
    world.held.clear()
    await full_to(world, 900)
    await settle(world, watch)
    assert int(quantities.value(await world.size()) or 0) > SIZE, "in the end it grows"
    await full_to(world, 0)
    await settle(world, watch)

    assert watch.grown
    assert await volume_world.templates(world) == {"1Gi"}
    assert resources.statuses(await world.conditions()) == {"True"}
    before = await world.picture()
    await world.turn()
    assert await world.picture() == before, "at rest there is no write"


async def full_to(world: FillingHistory, mebibytes: int) -> None:
    world.held[FULL] = mebibytes
    await world.publish()
    world.now_ms += REST_MS


async def settle(world: FillingHistory, watch: SizeWatch) -> None:
    """Let all be done, and the zone watch be seen again after an hour without a look."""
    for _ in range(2):
        await world.settle(after_turn=watch.look)
