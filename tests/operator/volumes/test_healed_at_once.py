"""So many bookies are healed at a time as the resource says, whichever way each of them goes."""

import pytest

from tests.operator import resources
from tests.operator.resources import SPACE
from tests.operator.roll.rolling_world import cluster_of
from tests.operator.volumes.losing_world import LosingWorld
from zonekeeper.metadata.bookies import bookie_records
from zonekeeper.metadata.bookies.bookie_records import Mark
from zonekeeper.metadata.store.layout import Root
from zonekeeper.operator.kubernetes.api import PODS, Json
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.zones.bookie_orders import OrderKind

RECOVER: Json = {"lostVolume": "Recover"}
REFILL: Json = {"lostVolume": "Refill"}
ONE, OTHER = "log-a-1", "log-b-1"
#: Healing two bookies takes fewer turns.
TURNS_MAX = 60


async def losing(**spec: object) -> LosingWorld:
    """Give a cluster in which two bookies have just lost their volumes."""
    world = LosingWorld(**spec)
    await world.settle()
    await world.write_ledger(ONE, "log-b-0", "log-c-0")
    await world.write_ledger("log-a-0", OTHER, "log-c-1")
    for name in (ONE, OTHER):
        await world.lose(name)
    return world


async def spoil(world: LosingWorld, name: str) -> None:
    """Let the record of a bookie be one that nobody can read."""
    store = await world.open(await world.address())
    path = Root(store.root).beside(f"bookies/{name}")
    found = await store.get(path, sync=True)
    assert found is not None
    await store.put(path, b"\xff", version=found.version)
    await store.close()


@pytest.mark.parametrize("way", [RECOVER, REFILL], ids=["recover", "refill"])
async def test_one_after_the_other(way: Json) -> None:
    world = await losing(heal=way)

    async def look() -> None:
        assert len(await world.healed()) <= 1

    await world.settle(after_turn=look)
    assert resources.statuses(await world.conditions()) == {"True"}


@pytest.mark.parametrize("turn", [*range(1, 8)])
@pytest.mark.parametrize("ways", [(RECOVER, REFILL), (REFILL, RECOVER)], ids=["refill", "recover"])
async def test_another_way_that_is_chosen_meanwhile_heals_no_second_one(
    ways: tuple[Json, Json], turn: int
) -> None:
    first, second = ways
    world, turns = await losing(heal=first), 0

    async def look() -> None:
        nonlocal turns
        assert len(await world.healed()) <= 1
        turns += 1
        if turns == turn:
            await world.change(heal=second)

    await world.settle(after_turn=look)
    assert turns > turn
    assert resources.statuses(await world.conditions()) == {"True"}


async def test_a_bookie_in_limbo_is_healed_still() -> None:
    for first, second in ((REFILL, REFILL), (REFILL, RECOVER)):
        world = await losing(heal=first)
        world.fills = False
        await world.settle()
        assert world.in_limbo == {ONE}
        await world.change(heal=second)
        await world.settle()
        assert await world.healed() == {ONE}
        told = await world.message("VolumesReady")
        assert f"it waits, because spec.heal.atOnce is 1: {ONE}" in told

        world.fills = True
        await world.settle()
        assert resources.statuses(await world.conditions()) == {"True"}


async def test_a_disk_that_is_lost_again_is_given_again() -> None:
    """The pod that gave the first one has ended well, and stands still."""
    world = await losing(heal=REFILL)
    world.fills = False
    for _ in range(TURNS_MAX):
        await world.turn()
        await world.controllers()
        if world.in_limbo:
            break
    assert world.in_limbo == {ONE}
    await world.lose(ONE)
    world.fills = True
    await world.settle()

    assert resources.statuses(await world.conditions()) == {"True"}
    assert await world.healed() == set()


async def test_no_pod_that_gives_a_disk_is_left_when_nothing_is_healed_any_more() -> None:
    world = await losing(heal=REFILL)
    for _ in range(TURNS_MAX):
        await world.turn()
        if await world.healed():
            break
    await world.change(heal={})
    await world.settle()
    assert await world.healed() == set()
    pods = [one["metadata"]["name"] for one in await world.kubernetes.list(PODS, SPACE)]
    assert not [name for name in pods if name.endswith("-refill")]


async def test_bookies_that_a_person_wrote_off_are_removed_one_after_the_other() -> None:
    world = await losing()
    world.is_repaired = False
    for name in (ONE, OTHER):
        async with cluster_of(world) as cluster:
            mark = Mark(at_ms=1, by="ann", reason="both are gone")
            await bookie_records.write_off(cluster, BookieId(name), mark)
    await world.change(heal=RECOVER)
    await world.settle()
    assert {name: one.kind for name, one in (await world.orders()).items()} == {
        ONE: OrderKind.REMOVE
    }

    world.is_repaired = True
    await world.settle()
    assert resources.statuses(await world.conditions()) == {"True"}


async def test_a_bookie_that_is_written_off_comes_before_one_that_is_lost_now() -> None:
    world = await losing()
    world.is_repaired = False
    async with cluster_of(world) as cluster:
        mark = Mark(at_ms=1, by="ann", reason="it is gone")
        await bookie_records.write_off(cluster, BookieId(OTHER), mark)
    await world.change(heal=RECOVER)
    await world.settle()
    assert list(await world.orders()) == [OTHER]


async def test_what_cannot_be_read_counts_as_being_healed() -> None:
    """The record of a bookie that serves may say that it is in limbo."""
    world = await losing()
    await spoil(world, "log-c-1")
    await world.change(heal=RECOVER)
    await world.settle()
    assert await world.orders() == {}
    assert "spec.heal.atOnce is 1: log-c-1" in await world.message("VolumesReady")

    await spoil(world, ONE)
    await world.change(heal=RECOVER | {"atOnce": 2})
    await world.settle()
    told = await world.message("VolumesReady")
    assert "because its record cannot be read" in told
    assert OTHER not in told, "the other one is healed"


async def test_a_bookie_that_is_lost_later_waits_also_where_its_name_comes_first() -> None:
    world = LosingWorld(heal=REFILL)
    await world.settle()
    world.stained.add(OTHER)
    await world.lose(OTHER)
    await world.settle()
    await world.lose(ONE)
    await world.settle()
    assert await world.healed() == {OTHER}
    assert f"spec.heal.atOnce is 1: {OTHER}" in await world.message("VolumesReady")


async def test_a_bookie_that_starts_slowly_on_its_new_disk_is_healed_still() -> None:
    world = await losing(heal=REFILL)
    world.slow.add(ONE)
    await world.settle()
    assert await world.healed() == {ONE}
    assert f"spec.heal.atOnce is 1: {ONE}" in await world.message("VolumesReady")

    world.start(ONE)
    await world.settle()
    assert resources.statuses(await world.conditions()) == {"True"}
    assert await world.healed() == set()


async def test_an_order_that_cannot_be_read_counts_as_healing_its_bookie() -> None:
    world = await losing()
    store = await world.open(await world.address())
    for path in ("orders", f"orders/{ONE}"):
        await store.create(Root(store.root).beside(path), b"\xff")
    await store.close()
    await world.change(heal=RECOVER)
    await world.settle()
    told = await world.message("VolumesReady")
    assert f"{ONE}: its disk is empty" in told
    assert "the order about it cannot be read" in told
    assert f"spec.heal.atOnce is 1: {ONE}" in told
    assert await world.orders() == {}
