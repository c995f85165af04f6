"""A person's orders in the operator's world, written as the plugin writes them."""

import dataclasses
from typing import TypedDict, Unpack

from tests.operator.resources import NAME, SPACE
from tests.operator.worlds import TURN_MS, World
from zonekeeper.metadata.bookies import order_records
from zonekeeper.metadata.bookies.order_records import OrderChange, OrderState
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import elections, repair_controls, zone_store
from zonekeeper.operator.kubernetes.api import BOOKIE_CLUSTERS, Json, ObjectKind
from zonekeeper.operator.people import order_format
from zonekeeper.operator.people.order_format import ORDER
from zonekeeper.operator.roots.resource_orders import AskedFor, ResourceOrder
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.zones.bookie_orders import BookieOrder
from zonekeeper.placement.zones.gate import Gate, Person, Token

ANNA = Person(name="anna", reason="the site is moved")
FOR_MS = 120_000


class OrderParts(TypedDict, total=False):
    """What a test says of an order."""

    token: str
    uid: str
    person: Person
    until_ms: int
    zone: ZoneName | None
    incident: Token | None
    held_by: str | None
    bookie: BookieId | None
    is_forced: bool
    for_ms: int


async def made(world: World, asked: AskedFor, **parts: Unpack[OrderParts]) -> ResourceOrder:
    """Make an order about the resource as it stands."""
    order = ResourceOrder(
        token=f"order-{asked}",
        asked=asked,
        uid=str((await world.get())["metadata"]["uid"]),
        person=ANNA,
        until_ms=world.wall_ms + FOR_MS,
    )
    return dataclasses.replace(order, **parts)


async def write(world: World, order: ResourceOrder) -> None:
    """Write an order on the resource."""
    await annotate(world, order_format.render(order))


async def annotate(world: World, text: str | None) -> None:
    """Write any text where an order stands; None takes it off."""
    await world.kubernetes.edit(
        BOOKIE_CLUSTERS, await world.get(), {"metadata": {"annotations": {ORDER: text}}}
    )


async def give(world: World, asked: AskedFor, **parts: Unpack[OrderParts]) -> Json:
    """Write an order, let the operator work, and give its answer."""
    await write(world, await made(world, asked, **parts))
    for _ in range(4):
        await world.turn()
    return await answer(world)


async def answer(world: World) -> Json:
    """Give the answer that the status has."""
    found: Json = (await world.get())["status"].get("order", {})
    return found


async def held(world: World) -> dict[str, Json]:
    """Give what the status shows as held, by gate."""
    return {one["gate"]: one for one in (await world.get())["status"]["repair"].get("held", ())}


async def gate(world: World, zone: str) -> Gate:
    """Give the gate of a zone, as the store has it."""
    store = await world.open(await world.address())
    record = await zone_store.read_zone(await clusters.open_cluster(store), ZoneName(zone))
    await store.close()
    assert record is not None
    return record.gate


async def is_enabled(world: World) -> bool:
    """Is automatic replication on?"""
    store = await world.open(await world.address())
    found = await repair_controls.is_enabled(await clusters.open_cluster(store))
    await store.close()
    return found


async def bookie_order(world: World, bookie: str) -> BookieOrder | None:
    """Give the order about a bookie, as the store has it."""
    store = await world.open(await world.address())
    found = await order_records.read(await clusters.open_cluster(store), BookieId(bookie))
    await store.close()
    return found


async def change_order(world: World, bookie: str, order: BookieOrder | None) -> None:
    """Let an autorecovery process, or another person, change the order about a bookie."""

    def decide(state: OrderState) -> OrderChange:
        record = state.record if order is None else order_records.draining(state.record, order)
        return OrderChange(order=order, record=record)

    store = await world.open(await world.address())
    await order_records.change(await clusters.open_cluster(store), BookieId(bookie), decide)
    await store.close()


async def candidate(world: World) -> None:
    """Let an autorecovery process run that stands for the auditor."""
    store = await world.open(await world.address())
    cluster = await clusters.open_cluster(store)
    await store.create(f"{elections.auditor_votes(cluster)}/V_0000000001", make_parents=True)
    await store.close()


def later(world: World, ms: int) -> None:
    """Let time pass without a turn."""
    world.now_ms += ms - TURN_MS


def resource_of(world: World) -> Json:
    """Give the resource, without a call."""
    found = world.kubernetes.peek(BOOKIE_CLUSTERS, SPACE, NAME)
    assert found is not None
    return found


def whole(item: Json) -> tuple[ObjectKind, Json]:
    """Give a resource as ``put`` takes it."""
    return BOOKIE_CLUSTERS, item
