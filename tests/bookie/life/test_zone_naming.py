"""A bookie says that its zone is not named, for exactly as long as the policy does not name it."""

import asyncio
from dataclasses import replace

from tests.bookie.life.test_life import IDLE_TURNS, INSTANCE, WHERE, turns
from tests.support.stores import MemoryPlace
from zonekeeper.bookie.life.life import Conditions
from zonekeeper.bookie.life.zone_naming import ZONE, ZoneNaming
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import policy_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.store.background import alongside
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.policy.rules import PlacementRules, Policy

NAMED = Policy(placement=PlacementRules(zones=(ZoneName("a"), ZoneName("b"))))
NOT_NAMED = replace(NAMED, placement=PlacementRules(zones=(ZoneName("b"), ZoneName("c"))))


async def test_the_remark_follows_the_policy_and_unknown_is_not_no() -> None:
    place = MemoryPlace()
    cluster = await clusters.initialise(await place.open(), INSTANCE)
    conditions = Conditions()
    naming = ZoneNaming(cluster, WHERE, conditions)
    async with asyncio.timeout(30), alongside(naming.follow()):
        await naming.begun.wait()
        assert conditions.remarks == {}, "there is no policy yet"
        await changes(cluster, conditions, naming)
    await place.close()


async def changes(cluster: Cluster, conditions: Conditions, naming: ZoneNaming) -> None:
    for replaces, policy in enumerate([NOT_NAMED, NAMED, NOT_NAMED]):
        await policy_store.write(cluster, policy, replaces=replaces)
        await turns(IDLE_TURNS)
        assert conditions.unmet == {}, "the bookie is ready all the time"
        if policy is NAMED:
            assert (conditions.remarks, naming.trouble) == ({}, None)
        else:
            assert conditions.remarks == {ZONE: naming.trouble}
            assert "the policy does not name zone a, only b, c" in str(naming.trouble)

    # What cannot be read, and what is gone, changes nothing.
    path = cluster.root.beside("policy")
    for value in (b"garbage", None):
        node = await cluster.store.get(path, sync=True)
        assert node is not None
        if value is None:
            await cluster.store.delete(path, version=node.version)
        else:
            await cluster.store.put(path, value, version=node.version)
        await turns(IDLE_TURNS)
        assert conditions.remarks.keys() == {ZONE}
