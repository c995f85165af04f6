"""A zone that is added: the policy names it once it is in place, and until then it may go again."""

from tests.operator.resources import NAME
from tests.operator.roll.rolling_world import cluster_of
from tests.operator.scaling import zoned_world
from tests.operator.scaling.removing_world import RemovingWorld
from tests.operator.scaling.zoned_world import FOUR, OBJECTS_OF_D, THREE
from zonekeeper.metadata.cluster import policy_store
from zonekeeper.operator.kubernetes.api import NODES, NotPermittedError, ObjectKind


async def three() -> RemovingWorld:
    world = RemovingWorld(bookiesPerZone=2)
    await world.settle()
    return world


async def test_the_policy_names_a_new_zone_once_a_bookie_there_is_registered() -> None:
    world = await three()
    zoned_world.put_node(world)
    seen: list[tuple[str, bool]] = []

    async def look() -> None:
        is_there = any(name.startswith("log-d-") for name in world.registered)
        seen.append((await zoned_world.named_zones(world), is_there))

    await world.change(zones=FOUR)
    await world.settle(after_turn=look)

    assert seen[0] == ("abc", False)
    assert all(is_there for zones, is_there in seen if zones == "abcd")
    assert await zoned_world.named_zones(world) == "abcd"
    assert await zoned_world.zone_objects(world) >= OBJECTS_OF_D
    assert (await world.conditions())["PolicyPublished"] == ("True", "Published")
    assert (await world.conditions())["Ready"] == ("True", "AllReady")


async def test_a_node_without_the_label_of_the_zone_holds_it_and_is_told() -> None:
    world = await three()
    zoned_world.put_node(world, labelled=False)
    await world.change(zones=FOUR)
    await world.settle()

    assert await zoned_world.named_zones(world) == "abc"
    assert (await world.conditions())["PolicyPublished"] == ("False", "ZoneNotNamed")
    said = await world.message("PolicyPublished")
    assert "log-d-0 stands on node node-d without topology.kubernetes.io/zone=d" in said

    zoned_world.put_node(world)
    world.now_ms += 60_000
    await world.settle()
    assert await zoned_world.named_zones(world) == "abcd"


async def test_a_node_that_is_not_seen_holds_the_zone() -> None:
    world = await three()
    await world.change(zones=FOUR)
    await world.settle()

    assert await zoned_world.named_zones(world) == "abc"
    assert "the nodes of log-d-0, log-d-1 were not seen" in await world.message("PolicyPublished")


async def test_without_the_right_to_read_nodes_a_new_zone_is_not_named() -> None:
    world = await three()
    zoned_world.put_node(world)

    def refuse(verb: str, kind: ObjectKind) -> None:
        if kind is NODES:
            raise NotPermittedError(403, f"{verb} of nodes is forbidden")

    world.fate = refuse
    await world.change(zones=FOUR)
    await world.settle()

    assert await zoned_world.named_zones(world) == "abc"
    assert "the operator may not read nodes" in await world.message("PolicyPublished")


async def test_until_it_is_named_a_zone_may_be_taken_back() -> None:
    world = await three()
    zoned_world.put_node(world, labelled=False)
    await world.change(zones=FOUR)
    await world.settle()

    await world.change(zones=THREE)
    await world.settle()

    assert not OBJECTS_OF_D & await zoned_world.zone_objects(world)
    assert await zoned_world.named_zones(world) == "abc"
    assert (await world.conditions())["Ready"] == ("True", "AllReady")
    assert await world.scaling() == {}


async def test_a_named_zone_whose_node_loses_its_label_stays_named() -> None:
    world = await zoned_world.four()
    zoned_world.put_node(world, labelled=False)
    world.now_ms += 60_000
    await world.settle()

    assert await zoned_world.named_zones(world) == "abcd"
    assert (await world.conditions())["LocationsVerified"] == ("False", "Misplaced")


async def test_other_changes_of_the_policy_do_not_wait_for_a_new_zone() -> None:
    world = await three()
    await world.change(zones=FOUR, policy={"repair": {"after": "3h"}})
    await world.settle()

    assert await zoned_world.named_zones(world) == "abc"
    assert (await world.conditions())["PolicyPublished"] == ("False", "ZoneNotNamed")
    async with cluster_of(world) as cluster:
        policy = await policy_store.read(cluster)
    assert policy is not None
    assert policy.repair.after_ms == 3 * 3_600_000


async def test_where_fewer_zones_would_not_be_legal_the_policy_that_stands_stays() -> None:
    world = await three()
    await world.change(zones=[{"name": zone} for zone in "abd"])  # c leaves, and d comes
    await world.settle()

    assert await zoned_world.named_zones(world) == "abc"
    assert "log-c-1" in await world.message("Scaled")
    zoned_world.put_node(world)
    world.now_ms += 60_000
    await world.settle()

    assert await zoned_world.named_zones(world) == "abd"
    assert await world.cookies() == {f"{NAME}-{zone}-{n}" for zone in "abd" for n in range(2)}


async def test_a_bookie_that_runs_and_is_not_registered_does_not_put_its_zone_in_place() -> None:
    world = await three()
    zoned_world.put_node(world)
    world.broken.add("zonekeeper:0.1.0")
    await world.change(zones=FOUR)
    await world.settle()

    assert await zoned_world.named_zones(world) == "abc"
    assert "zone d yet: no bookie of it is registered" in await world.message("PolicyPublished")
