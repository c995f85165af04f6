"""A cluster comes to be, is kept up and goes, whatever is interrupted on the way."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.operator import resources
from tests.operator.resources import NAME, SPACE, URI
from tests.operator.worlds import World
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import policy_store
from zonekeeper.operator.kubernetes.api import (
    BOOKIE_CLUSTERS,
    BUDGETS,
    CLAIMS,
    DEPLOYMENTS,
    EVENTS,
    FINALIZER,
    NODES,
    PODS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    KubernetesError,
    NotPermittedError,
    ObjectKind,
)
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.policy.rules import PlacementRules, Policy

MADE = (SERVICE_ACCOUNTS, SERVICES, BUDGETS, STATEFUL_SETS, DEPLOYMENTS, PODS)
READY = ("True", "AllReady")


async def names(world: World, *kinds: ObjectKind) -> list[str]:
    return [
        f"{kind.plural}/{item['metadata']['name']}"
        for kind in kinds
        for item in await world.kubernetes.list(kind, SPACE)
    ]


async def policy_owner(world: World) -> str:
    store = await world.open(URI)
    record = await policy_store.read(await clusters.open_cluster(store))
    await store.close()
    assert record is not None
    return record.owner


async def test_a_resource_becomes_a_ready_cluster_in_a_root_of_its_own() -> None:
    world = World()

    await world.settle()

    assert await names(world, STATEFUL_SETS, DEPLOYMENTS, SERVICES, SERVICE_ACCOUNTS, BUDGETS) == [
        "statefulsets/log-a",
        "statefulsets/log-b",
        "statefulsets/log-c",
        "deployments/log-a-autorecovery",
        "deployments/log-b-autorecovery",
        "deployments/log-c-autorecovery",
        "services/log-bookies",
        "serviceaccounts/log-autorecovery",
        "serviceaccounts/log-bookie",
        "poddisruptionbudgets/log-bookies",
    ]
    conditions = await world.conditions()
    assert resources.statuses(conditions) == {"True"}
    assert conditions["Ready"] == READY
    assert await policy_owner(world) == f"operator/{SPACE}/{NAME}"
    status = (await world.get())["status"]
    assert (status["bookies"], status["readyBookies"], status["observedGeneration"]) == (6, 6, 1)


async def test_a_settled_cluster_is_left_alone() -> None:
    world = World()
    await world.settle()
    written: list[str] = []
    world.fate = lambda verb, kind: (
        None if verb in ("get", "list") else written.append(f"{verb} {kind.plural}")
    )

    for _ in range(3):
        await world.turn()

    assert written == []


async def test_what_is_refused_makes_nothing_and_is_told_once() -> None:
    world = World(policy={"quorums": {"ensemble": 3, "write": 2}})

    await world.settle()
    await world.settle()

    assert (await world.conditions())["Legal"] == ("False", "Refused")
    assert "quorums.write: 2: must be above placement.minZones (2)" in await world.message("Legal")
    assert await names(world, *MADE, CLAIMS) == []
    assert await world.nodes_in_store() == []
    told = [item["message"] for item in await world.kubernetes.list(EVENTS, SPACE)]
    assert len([message for message in told if message.startswith("Legal")]) == 1
    assert any("must be above placement.minZones (2)" in message for message in told)


async def test_a_cluster_that_is_edited_into_illegality_goes_on_as_it_was() -> None:
    world = World()
    await world.settle()
    before = await names(world, *MADE)

    await world.change(policy={"quorums": {"ack": 4}})
    await world.settle()

    assert await names(world, *MADE) == before
    conditions = await world.conditions()
    assert conditions["Legal"] == ("False", "Refused")
    assert conditions["PolicyPublished"] == ("False", "Outdated")
    assert (await world.get())["status"]["readyBookies"] == 6


async def test_a_changed_policy_is_published_as_the_next_version() -> None:
    world = World()
    await world.settle()

    await world.change(policy={"repair": {"after": "3h"}})
    await world.settle()

    assert await world.message("PolicyPublished") == "version 2"


async def test_fewer_bookies_are_refused_and_the_others_stay() -> None:
    world = World()
    await world.settle()
    await world.write_ledger()

    await world.change(bookiesPerZone=1)
    await world.settle()

    assert (await world.conditions())["Legal"] == ("False", "Blocked")
    assert "set it to 2 or more" in await world.message("Legal")
    assert len(await names(world, PODS)) == 6 + len(await world.repairers())


async def test_a_zone_that_is_not_named_any_more_is_not_removed() -> None:
    world = World()
    await world.settle()
    await world.write_ledger()

    await world.change(zones=[{"name": "a"}, {"name": "b"}, {"name": "d"}])
    await world.settle()

    # Zone d is not in place, and a and b alone would not be legal: so c stays in the policy.
    assert (await world.conditions())["Scaled"] == ("False", "RemovalWaits")
    assert "the policy names zone c still" in await world.message("Scaled")
    assert {f"pods/log-c-{number}" for number in range(2)} <= {*await names(world, PODS)}


async def test_an_object_of_somebody_else_is_not_taken_over() -> None:
    world = World()
    other = {"name": "log-bookies", "namespace": SPACE}
    world.kubernetes.put(SERVICES, {"metadata": other, "spec": {"theirs": True}})

    await world.settle()

    assert "Service log-bookies is there already, and is not controlled by this resource" in (
        await world.message("Legal")
    )
    assert await names(world, STATEFUL_SETS) == []
    found = await world.kubernetes.get(SERVICES, SPACE, "log-bookies")
    assert found is not None
    assert found["spec"] == {"theirs": True}


async def test_a_root_whose_policy_another_owns_is_not_touched() -> None:
    world = World(onDelete="Delete")
    store = await world.open(URI)
    theirs = await clusters.initialise(store, "0d6e3a1e-0000-4000-8000-000000000001")
    await policy_store.write(theirs, _policy_of("operator/logs/first"), replaces=0)
    before = await world.nodes_in_store()

    await world.settle()

    assert (await world.conditions())["PolicyPublished"] == ("False", "OwnedByAnother")
    assert await names(world, *MADE) == []
    world.delete()
    await world.settle()
    assert await names(world, BOOKIE_CLUSTERS) == []
    assert await world.nodes_in_store() == before
    assert await policy_owner(world) == "operator/logs/first"
    reasons = [item["reason"] for item in await world.kubernetes.list(EVENTS, SPACE)]
    assert "RootKept" in reasons


async def test_a_root_that_was_lost_is_not_made_again_over_its_data() -> None:
    world = World()
    await world.settle()
    store = await world.open(URI)
    for path in reversed(await world.nodes_in_store()):
        await store.delete(path, version=None)

    await world.settle()

    assert (await world.conditions())["MetadataReady"] == ("False", "RootLost")
    assert await world.nodes_in_store() == []


async def test_a_root_that_was_wiped_without_its_own_tree_can_be_built_anew() -> None:
    world = World()
    await world.settle()
    old = (await world.get())["status"]["instance"]
    store = await world.open(URI)
    for path in reversed(await world.nodes_in_store()):
        if path == store.root or path.startswith(f"{store.root}/"):
            await store.delete(path, version=None)
    await world.settle()
    assert "delete the resource and its volumes" in await world.message("MetadataReady")

    world.delete()
    await world.controllers()
    for claim in await world.kubernetes.list(CLAIMS, SPACE):
        world.kubernetes.mark_deleted(CLAIMS, SPACE, claim["metadata"]["name"])
    await world.make_again()
    await world.settle()

    assert (await world.conditions())["Ready"] == READY
    assert (await world.get())["status"]["instance"] != old
    assert await policy_owner(world) == f"operator/{SPACE}/{NAME}"


async def test_a_bookie_on_a_node_of_another_zone_is_told() -> None:
    world = World()
    await world.settle()
    pod = await world.kubernetes.get(PODS, SPACE, "log-b-1")
    assert pod is not None
    world.kubernetes.put(PODS, {**pod, "spec": {**pod["spec"], "nodeName": "node-a"}})

    await world.settle()

    assert (await world.conditions())["LocationsVerified"] == ("False", "Misplaced")
    assert "log-b-1 of zone b stands on node node-a without topology.kubernetes.io/zone=b" in (
        await world.message("LocationsVerified")
    )


async def test_nodes_that_may_not_be_read_make_locations_unknown_and_not_wrong() -> None:
    world = World()

    def refuse(verb: str, kind: ObjectKind) -> None:
        if kind is NODES:
            raise NotPermittedError(403, "nodes is forbidden")

    world.fate = refuse
    await world.settle()

    conditions = await world.conditions()
    assert conditions["LocationsVerified"] == ("Unknown", "NodesNotPermitted")
    assert conditions["Ready"] == READY


async def test_what_could_not_be_applied_is_told_and_tried_again() -> None:
    world = World()

    def refuse(verb: str, kind: ObjectKind) -> None:
        if (verb, kind) == ("apply", BUDGETS):
            raise KubernetesError(403, "poddisruptionbudgets is forbidden: quota")

    world.fate = refuse
    await world.settle()
    await world.turn()  # it tells what failed in the one before
    assert (await world.conditions())["Applied"] == ("False", "Failed")
    assert "forbidden: quota" in await world.message("Applied")

    world.fate = lambda verb, kind: None
    await world.settle()
    assert (await world.conditions())["Ready"] == READY


async def test_retain_leaves_volumes_and_root_and_needs_no_operator() -> None:
    world = World()
    await world.settle()
    root = await world.nodes_in_store()

    world.delete()
    await world.controllers()

    assert await names(world, BOOKIE_CLUSTERS, *MADE) == []
    assert len(await names(world, CLAIMS)) == 6
    assert await world.nodes_in_store() == [path for path in root if "/available/log" not in path]


async def test_delete_leaves_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, onDelete="Delete")
    await world.settle()
    assert (await world.get())["metadata"]["finalizers"] == [FINALIZER]

    world.delete()
    await world.settle()

    assert await names(world, BOOKIE_CLUSTERS, *MADE, CLAIMS) == []
    assert await world.nodes_in_store() == []


async def test_a_deletion_that_waits_says_for_what_and_can_be_let_go() -> None:
    world = World(onDelete="Delete")
    await world.settle()
    pod = await world.kubernetes.get(PODS, SPACE, "log-c-0")
    assert pod is not None
    pod["metadata"]["finalizers"] = ["a/node-that-is-away"]
    world.kubernetes.put(PODS, pod)

    world.delete()
    await world.settle()

    assert (await world.conditions())["Released"] == ("False", "Waiting")
    assert "log-c-0 (node node-c)" in await world.message("Released")
    assert len(await names(world, CLAIMS)) == 6, "volumes stay while a pod may use one"

    await world.change(onDelete="Retain")
    await world.settle()
    assert await names(world, BOOKIE_CLUSTERS) == []
    assert len(await names(world, CLAIMS)) == 6


async def test_the_root_stays_until_the_last_session_has_ended() -> None:
    world = World(onDelete="Delete")
    await world.settle()
    world.sessions_linger = True

    world.delete()
    await world.settle()
    assert "bookies are still registered, until their sessions end: log-a-0" in (
        await world.message("Released")
    )
    assert await names(world, STATEFUL_SETS, PODS, CLAIMS) == []
    assert await policy_owner(world) == f"operator/{SPACE}/{NAME}"

    world.sessions_linger = False
    await world.settle()
    assert await names(world, BOOKIE_CLUSTERS) == []
    assert await world.nodes_in_store() == []


async def _deaths_of_a_life() -> list[int]:
    """Give the calls to Kubernetes, of a cluster that is built and grows, at which to die.

    An operator leaves nothing behind but what it has written. So of the calls of a turn between two
    writes, to Kubernetes or to the store, one is enough: all leave the same world.
    """
    world = World()
    calls, writes, deaths = 0, 0, dict[tuple[int, int, int], int]()

    def note(verb: str, kind: ObjectKind) -> None:
        nonlocal calls, writes
        deaths.setdefault((world.now_ms, writes, world.server.last_change_id), calls)
        calls += 1
        writes += verb not in ("get", "list")

    world.fate = note
    await world.settle()
    await world.change(bookiesPerZone=3, onDelete="Delete")
    await world.settle()
    assert len(deaths) > writes, "each write is died before, and after"
    return list(deaths.values())


@pytest.mark.parametrize("part", range(4))
async def test_an_operator_that_dies_at_any_call_is_continued_by_the_next(part: int) -> None:
    for fatal in (await _deaths_of_a_life())[part::4]:
        world = World()
        world.fate = _deadly(fatal)

        await _surviving(world)
        await world.change(bookiesPerZone=3, onDelete="Delete")
        await _surviving(world)

        assert (await world.conditions())["Ready"] == READY, f"died at call {fatal}"
        assert (await world.get())["status"]["bookies"] == 9
        assert (await world.get())["metadata"]["finalizers"] == [FINALIZER]


async def test_a_removal_that_is_interrupted_is_finished_by_the_next_operator(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, onDelete="Delete")
    await world.settle()
    world.delete()

    for fatal in range(0, 60, 7):
        world.fate = _deadly(fatal)
        await _surviving(world, again=False)

    world.fate = _deadly(1_000_000)
    await world.settle()
    assert await names(world, BOOKIE_CLUSTERS, *MADE, CLAIMS) == []
    assert await world.nodes_in_store() == []


def _deadly(at: int) -> Callable[[str, ObjectKind], None]:
    """Let the operator die at one of its calls."""
    left = itertools.count(at, -1)

    def die(verb: str, kind: ObjectKind) -> None:
        if next(left) == 0:
            raise OperatorDiedError

    return die


class OperatorDiedError(Exception):
    """The process ended here."""


async def _surviving(world: World, *, again: bool = True) -> None:
    try:
        await world.settle()
    except OperatorDiedError:
        await world.reconciler.close()
        world.reconciler = world.new_operator()
        if again:
            await world.settle()


def _policy_of(owner: str) -> Policy:
    return Policy(placement=PlacementRules(zones=(ZoneName("a"), ZoneName("b"))), owner=owner)


@pytest.mark.parametrize(
    "change",
    [
        {"storage": {"size": "9Gi"}},
        {"metadata": {"uri": "zk://zookeeper:2181/elsewhere/ledgers"}},
        {"bookiesPerZone": 1},
    ],
)
async def test_what_is_built_is_what_stood_when_the_rules_of_a_built_cluster_began(
    change: dict[str, object],
) -> None:
    """They begin with the instance in the status, so a change may come in up to that write."""
    world = World()
    await world.turn()
    writes = 0

    def edit(verb: str, kind: ObjectKind) -> None:
        nonlocal writes
        if (verb, kind) == ("apply", BOOKIE_CLUSTERS):
            writes += 1
            if writes == 1:
                world.edit(**change)

    world.fate = edit
    await world.turn()
    assert "instance" not in (await world.get()).get("status", {})
    assert await names(world, STATEFUL_SETS) == []
    await world.settle()

    assert (await world.conditions())["Ready"] == READY
    spec = (await world.get())["spec"]
    for item in await world.kubernetes.list(STATEFUL_SETS, SPACE):
        volume = item["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]
        environment = item["spec"]["template"]["spec"]["containers"][0]["env"]
        assert volume == {"storage": spec["storage"]["size"]}
        assert {"name": "ZONEKEEPER_METADATA", "value": spec["metadata"]["uri"]} in environment
        assert item["spec"]["replicas"] == spec["bookiesPerZone"]


async def test_a_resource_that_always_changes_under_the_operator_is_looked_at_less_often() -> None:
    world = World()
    world.fate = lambda verb, kind: (
        world.edit() if (verb, kind) == ("apply", BOOKIE_CLUSTERS) else None
    )

    waits = [await world.turn() for _ in range(3)]

    assert waits == [1_000, 2_000, 4_000]


async def test_a_cluster_that_is_edited_into_illegality_can_still_be_removed_whole() -> None:
    world = World()
    await world.settle()
    await world.change(policy={"quorums": {"ack": 4}}, onDelete="Delete")
    await world.settle()
    assert (await world.conditions())["Legal"] == ("False", "Refused")

    world.delete()
    await world.settle()

    assert await names(world, BOOKIE_CLUSTERS, *MADE, CLAIMS) == []
    assert await world.nodes_in_store() == []


async def test_a_cluster_that_is_edited_into_illegality_can_still_be_let_go() -> None:
    world = World(onDelete="Delete")
    await world.settle()

    await world.change(policy={"quorums": {"ack": 4}}, onDelete="Retain")
    await world.settle()

    assert (await world.get())["metadata"]["finalizers"] == []
