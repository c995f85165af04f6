"""Nodes are read by name, only those that bookies stand on, and no act is decided from them."""

from dataclasses import replace

from tests.operator.resources import NOW, SPACE
from tests.operator.worlds import World
from zonekeeper.operator.kubernetes.api import NODES, PODS, NotPermittedError, ObjectKind
from zonekeeper.operator.plan import planning
from zonekeeper.operator.sight import node_sight
from zonekeeper.operator.sight.node_sight import FRESH_MS, NodeSight


def read_in(world: World) -> list[str]:
    """Note the calls about nodes from now on."""
    calls: list[str] = []

    def note(verb: str, kind: ObjectKind) -> None:
        if kind == NODES:
            calls.append(verb)

    world.fate = note
    return calls


async def test_nodes_are_read_by_name_and_again_when_what_was_read_is_old() -> None:
    world = World()
    calls = read_in(world)
    await world.settle()
    assert calls == ["get"] * 3, "one of each zone, though many turns came"

    world.now_ms += FRESH_MS
    await world.turn()
    await world.turn()
    assert calls == ["get"] * 6


async def test_a_node_that_no_bookie_stands_on_is_not_read() -> None:
    world = World()
    for number in range(50):
        world.kubernetes.put(NODES, {"metadata": {"name": f"other-{number}", "labels": {}}})
    calls = read_in(world)
    await world.settle()
    assert calls == ["get"] * 3


async def test_a_label_that_changes_is_seen_when_the_node_is_read_again() -> None:
    world = World()
    await world.settle()
    world.kubernetes.put(
        NODES, {"metadata": {"name": "node-a", "labels": {"topology.kubernetes.io/zone": "b"}}}
    )
    await world.turn()
    assert (await world.conditions())["LocationsVerified"] == ("True", "Verified")

    world.now_ms += FRESH_MS
    await world.turn()
    assert (await world.conditions())["LocationsVerified"] == ("False", "Misplaced")


async def test_a_pod_on_another_node_is_judged_by_that_node_at_once() -> None:
    world = World()
    await world.settle()
    pod = await world.kubernetes.get(PODS, SPACE, "log-a-0")
    assert pod is not None
    world.kubernetes.put(NODES, {"metadata": {"name": "new", "labels": {}}})
    pod["spec"]["nodeName"] = "new"
    world.kubernetes.put(PODS, pod)
    await world.turn()
    assert (await world.conditions())["LocationsVerified"] == ("False", "Misplaced")


async def test_a_right_that_is_given_later_is_used() -> None:
    world = World()

    def forbidden(verb: str, kind: ObjectKind) -> None:
        if kind == NODES:
            raise NotPermittedError(403, "nodes is forbidden")

    world.fate = forbidden
    await world.settle()
    told = (await world.conditions())["LocationsVerified"]
    assert told == ("Unknown", "NodesNotPermitted")

    world.fate = lambda verb, kind: None
    await world.turn()
    assert (await world.conditions())["LocationsVerified"] == ("True", "Verified")


async def test_no_act_is_decided_from_nodes() -> None:
    world = World()
    await world.settle()
    await world.change(image="zonekeeper:0.1.1")
    item = await world.get()
    for turns in range(6):
        seen, wanted = await world.look()
        plans = [
            planning.decide(wanted, replace(seen, nodes=nodes), NOW)
            for nodes in (seen.nodes, NodeSight(), NodeSight(permitted=False), wrong(seen.nodes))
        ]
        assert [plan.actions for plan in plans[1:]] == [plans[0].actions] * 3, turns
        await world.turn()
        await world.controllers()
    assert item["metadata"]["generation"] == 2


def wrong(sight: NodeSight) -> NodeSight:
    """Give the same nodes, with labels of no zone."""
    unlabelled = {name: replace(one, labels={}) for name, one in sight.seen.items()}
    return replace(sight, seen=unlabelled)


def test_a_node_that_is_gone_is_known_to_be_gone_until_it_is_read_again() -> None:
    found = {"x": {"metadata": {"labels": {"a": "b"}}}, "y": None}
    sight = node_sight.joined(NodeSight(), ["x", "y"], found, now_ms=5)

    assert sight.labels == {"x": {"a": "b"}}
    assert node_sight.unread(sight, ["x", "y", "z"], now_ms=5 + FRESH_MS - 1) == ["z"]
    assert node_sight.unread(sight, ["x", "y"], now_ms=5 + FRESH_MS) == ["x", "y"]
    assert node_sight.joined(sight, ["y"], {}, now_ms=9).seen.keys() == {"y"}
