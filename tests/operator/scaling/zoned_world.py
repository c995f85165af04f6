"""Worlds with a fourth zone, which comes or leaves, and what is looked at there."""

from tests.operator.resources import NAME, SPACE
from tests.operator.roll.rolling_world import cluster_of
from tests.operator.scaling.removing_world import RemovingWorld
from zonekeeper.metadata.cluster import policy_store, zone_store
from zonekeeper.operator.kubernetes.api import (
    DEPLOYMENTS,
    NODES,
    STATEFUL_SETS,
)

THREE = [{"name": zone} for zone in "abc"]
FOUR = [*THREE, {"name": "d"}]
DELETE = {"size": "1Gi", "onScaleDown": "Delete"}
#: What is left once zone d has left.
REST = {f"{NAME}-{zone}-{number}" for zone in "abc" for number in range(2)}
WHOLE = REST | {f"{NAME}-d-{number}" for number in range(2)}


def put_node(world: RemovingWorld, *, labelled: bool = True) -> None:
    """Let the node of zone d be there, with the label of its zone or without."""
    labels = {"topology.kubernetes.io/zone": "d"} if labelled else {}
    world.kubernetes.put(NODES, {"metadata": {"name": "node-d", "labels": labels}})


async def fill(world: RemovingWorld) -> None:
    """Let a ledger be on each bookie of zone d, and one on each of the others."""
    for number in range(2):
        await world.write_ledger(*(f"{NAME}-{zone}-{number}" for zone in "abd"))
        await world.write_ledger(*(f"{NAME}-{zone}-{number}" for zone in "abc"))


async def four(**spec: object) -> RemovingWorld:
    """Give a cluster of two bookies in each of four zones, with a ledger on each bookie."""
    world = RemovingWorld(**{"bookiesPerZone": 2, "zones": FOUR, "storage": DELETE, **spec})
    put_node(world)
    await world.settle()
    await fill(world)
    return world


async def named_zones(world: RemovingWorld) -> str:
    """Give the zones that the policy names."""
    async with cluster_of(world) as cluster:
        policy = await policy_store.read(cluster)
    assert policy is not None
    return "".join(policy.placement.zones)


async def recorded_zones(world: RemovingWorld) -> str:
    """Give the zones of which the zone watch has a record."""
    async with cluster_of(world) as cluster:
        return "".join(await zone_store.zone_names(cluster))


async def zone_objects(world: RemovingWorld) -> set[str]:
    """Name the StatefulSets and Deployments of zones."""
    return {
        item["metadata"]["name"]
        for kind in (STATEFUL_SETS, DEPLOYMENTS)
        for item in await world.kubernetes.list(kind, SPACE)
    }


OBJECTS_OF_D = {f"{NAME}-d", f"{NAME}-d-autorecovery"}
