"""Bookies whose resource was deleted and left its objects, in the operator's world."""

from dataclasses import replace

from tests.operator.resources import NAME, SPACE, URI, resource
from tests.operator.worlds import World
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import policy_store
from zonekeeper.operator.kubernetes.api import (
    ADOPT,
    BOOKIE_CLUSTERS,
    CONTROLLER_REVISIONS,
    OWNED,
    PODS,
    SECRETS,
)


async def orphaned(**spec: object) -> tuple[World, str]:
    """Build a cluster, and delete its resource with all objects orphaned; give the instance."""
    world = World(None, **spec)
    return world, await orphan(world)


async def orphan(world: World) -> str:
    """Build the cluster of a world, and delete its resource alone; give the instance."""
    await world.settle()
    instance = str((await world.get())["status"]["instance"])
    for kind in (*OWNED, CONTROLLER_REVISIONS, SECRETS):
        for item in await world.kubernetes.list(kind, SPACE):
            meta = {**item["metadata"], "ownerReferences": []}
            world.kubernetes.put(kind, item | {"metadata": meta})
    world.kubernetes.mark_deleted(BOOKIE_CLUSTERS, SPACE, NAME)
    return instance


async def again(world: World, word: str | None, **spec: object) -> None:
    """Apply a resource of the same name, with an operator that knows of none."""
    item = resource(**spec)
    item["metadata"] |= {"uid": "uid-again"}
    if word is not None:
        item["metadata"]["annotations"] = {ADOPT: word}
    world.kubernetes.put(BOOKIE_CLUSTERS, item)
    world.reconciler = world.new_operator()


async def uids(world: World) -> dict[str, str]:
    pods = await world.kubernetes.list(PODS, SPACE)
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in pods}


async def controllers_of(world: World) -> set[object]:
    return {
        owner["uid"]
        for kind in OWNED
        for item in await world.kubernetes.list(kind, SPACE)
        for owner in [*item["metadata"].get("ownerReferences", ()), {"uid": "nobody"}][:1]
    }


async def own(world: World, owner: str) -> None:
    """Let another owner have set the policy."""
    store = await world.open(URI)
    cluster = await clusters.open_cluster(store)
    policy = await policy_store.read(cluster)
    assert policy is not None
    await policy_store.write(cluster, replace(policy, owner=owner), replaces=policy.version)
    await store.close()
