"""``zonekeeper operator plan`` says what the operator would do, and changes nothing."""

import json
from typing import Any

import pytest

from tests.operator.resources import NAME, SPACE, resource
from tests.operator.roll import rolling_world
from tests.operator.worlds import World
from zonekeeper.operator.cluster import drift
from zonekeeper.operator.kubernetes.api import (
    BOOKIE_CLUSTERS,
    DEPLOYMENTS,
    STATEFUL_SETS,
    Json,
    ObjectKind,
)
from zonekeeper.operator.plan import preflight_text
from zonekeeper.operator.plan.preflight import ResourcePreflight
from zonekeeper.operator.run import preflighting


def refuse_writes(verb: str, kind: ObjectKind) -> None:
    assert verb in ("get", "list"), f"a preflight wrote: {verb} {kind.plural}"


async def look(world: World, item: Json | None = None, **spec: object) -> ResourcePreflight:
    """Look at a change of the spec that stands, with a store and a Kubernetes that stay the same.

    ``item``: look at this resource instead.
    """
    live = world.kubernetes.peek(BOOKIE_CLUSTERS, SPACE, NAME)
    given = item or resource(**((live or resource())["spec"] | spec))
    before = await world.picture(), world.server.last_change_id
    world.kubernetes.disturb = refuse_writes
    try:
        found = await preflighting.look(world.kubernetes, world.open_for_operator, given)
    finally:
        world.kubernetes.disturb = lambda verb, kind: None
    assert (await world.picture(), world.server.last_change_id) == before
    return found


async def settled(**spec: object) -> World:
    world = World(None, **spec)
    await world.settle()
    return world


def text(found: ResourcePreflight) -> str:
    return "\n".join(preflight_text.lines(found))


async def test_a_resource_that_stands_as_it_is_changes_nothing() -> None:
    found = await look(await settled())

    assert (found.refused, found.changes, found.steps, found.unseen) == ((), (), (), ())
    assert "objects: none would change\nroll: no bookie is made anew\n" in text(found)
    assert text(found).endswith("nothing was changed")


async def test_a_new_image_changes_templates_and_rolls_each_unit_with_a_canary_first() -> None:
    world = await settled(bookiesPerZone=3)
    await world.write_ledger("log-a-0", "log-b-0", "log-c-0")

    found = await look(world, image="zonekeeper:0.2.0", update={"bake": "2m", "deadline": "5m"})

    changed = {(one.kind, one.name): {f[0]: f[1:] for f in one.fields} for one in found.changes}
    path = "spec.template.spec.containers[bookie].image"
    assert changed["StatefulSet", "log-a"] == {path: ("zonekeeper:0.1.0", "zonekeeper:0.2.0")}
    assert {one.what for one in found.changes} == {"changed"}
    assert len(changed) == 6, "three StatefulSets and three Deployments"
    assert [str(one.step) for one in found.steps[:3]] == [
        "/a/ud-0: log-a-0, the canary",
        "/a/ud-1: log-a-1",
        "/a/ud-2: log-a-2",
    ]
    assert len(found.steps) == 9
    assert found.least_ms == 9 * 120_000
    assert found.most_ms == 9 * (120_000 + 300_000)
    said = text(found)
    assert f'    {path}: "zonekeeper:0.1.0" -> "zonekeeper:0.2.0"' in said
    canary = "  1. /a/ud-0: log-a-0, the canary\n     ledgers with a copy there: 1; each keeps two"
    assert canary in said
    assert "  2. /a/ud-1: log-a-1\n     no ledger has a copy there" in said
    assert "the roll takes 18m of rest" in said
    assert "done, or has halted, within 63m" in said


async def test_the_lane_changes_the_service_and_the_bookies_and_nothing_else() -> None:
    found = await look(await settled(), socketLane=True)

    changed = {(one.kind, one.name) for one in found.changes}
    sets = {("StatefulSet", f"log-{zone}") for zone in "abc"}
    assert changed == {("Service", "log-bookies"), *sets}
    assert "spec.ports[socket]" in text(found)
    assert found.refused == ()


@pytest.mark.parametrize("lane", [True, False])
async def test_turning_the_lane_on_or_off_rolls_all_bookies_the_canary_first(lane: bool) -> None:
    found = await look(await settled(socketLane=not lane), socketLane=lane)

    assert str(found.steps[0].step) == "/a/ud-0: log-a-0, the canary"
    assert sum(len(one.step.bookies) for one in found.steps) == 6


async def test_a_step_says_which_ledgers_it_leaves_at_their_last_copy() -> None:
    world = await settled()
    safe = await world.write_ledger("log-a-0", "log-b-0", "log-c-0")
    thin = await world.write_ledger("log-a-0", "log-b-1")
    lone = await world.write_ledger("log-b-1")
    assert safe < thin < lone

    found = await look(world, image="zonekeeper:0.2.0")

    prices = {" ".join(one.step.bookies): one.price for one in found.steps}
    first = prices["log-a-0"]
    assert first is not None
    assert (first.ledgers, first.last_copy, first.first) == (2, 1, thin)
    second = prices["log-b-1"]
    assert second is not None
    assert (second.ledgers, second.last_copy, second.unreadable) == (2, 2, 1)
    assert second.first == thin
    said = text(found)
    assert "a copy there: 2; at their last copy: 2 (the first: 1); perhaps not readable: 1" in said
    quiet = prices["log-c-1"]
    assert quiet is not None
    assert quiet.ledgers == 0


async def test_a_bookie_that_is_away_counts_as_a_copy_less() -> None:
    world = await settled()
    ledger = await world.write_ledger("log-a-0", "log-b-0", "log-c-0")
    await world.end_sessions({"log-b-0"})

    found = await look(world, image="zonekeeper:0.2.0")

    (first,) = (one.price for one in found.steps if "log-a-0" in one.step.bookies)
    assert first is not None
    assert (first.last_copy, first.first) == (1, ledger)


async def test_a_cluster_that_is_not_there_is_made() -> None:
    world = World()
    world.kubernetes.mark_deleted(BOOKIE_CLUSTERS, SPACE, NAME)

    found = await look(world, resource())

    assert {one.what for one in found.changes} == {"created"}
    names = [one.name for one in found.changes]
    assert names[0] == "record"
    assert "log-c-autorecovery" in names
    assert found.steps == ()


async def test_what_is_refused_is_said_and_nothing_else() -> None:
    world = await settled()

    found = await look(world, policy={"quorums": {"ack": 4}}, bookiesPerZoen=3)

    assert any(
        one.startswith("spec.bookiesPerZoen: there is no such field") for one in found.refused
    )
    assert any("quorums.ack: 4" in one for one in found.refused)
    assert (found.changes, found.steps) == ((), ())
    assert text(found).startswith("refused:\n")
    assert "objects:" not in text(found)
    assert preflight_text.plain(found)["legal"] is False


async def test_bookies_that_hold_something_are_removed_in_order_and_a_slip_is_taken_back() -> None:
    world = await settled(bookiesPerZone=3)
    ledger = await world.write_ledger("log-a-2", "log-b-0")

    found = await look(world, bookiesPerZone=2)
    assert found.refused == ()
    assert [one.fields for one in found.changes] == [], "no bookie is stopped before it is emptied"
    assert [one.bookie for one in found.removals] == ["log-a-2", "log-b-2", "log-c-2"]
    said = text(found)
    assert (
        "scale-down: 3 bookies are emptied and removed, one after the other; their volumes" in said
    )
    assert "  1. log-a-2: 1 ledgers name it; of the closed ones it holds 0 bytes" in said
    assert preflight_text.plain(found)["removals"][1] == {
        "bookie": "log-b-2",
        "ledgers": 0,
        "bytes": 0,
    }

    await world.delete_ledger(ledger)
    found = await look(world, bookiesPerZone=2)
    assert found.refused == ()
    assert [one.fields for one in found.changes] == [(("spec.replicas", 3, 2),)] * 3


async def test_a_zone_that_is_taken_back_loses_its_objects_and_the_policy_changes() -> None:
    world = await settled(zones=[{"name": zone} for zone in "abcd"])

    found = await look(world, zones=[{"name": zone} for zone in "abc"])

    told = [(one.what, one.kind, one.name) for one in found.changes]
    assert told == [
        ("changed", "policy", "record"),
        ("removed", STATEFUL_SETS.name, "log-d"),
        ("removed", DEPLOYMENTS.name, "log-d-autorecovery"),
    ]
    assert found.changes[0].fields[0] == ("placement.zones", ["a", "b", "c", "d"], ["a", "b", "c"])


async def test_without_the_store_it_says_what_it_could_not_see() -> None:
    world = await settled()
    world.is_cut_off = True

    found = await look(world, image="zonekeeper:0.2.0")

    assert found.refused == ()
    assert "the metadata store was not reached from here" in found.unseen[0]
    assert len(found.steps) == 6
    assert all(one.price is None for one in found.steps)
    assert "what it leaves of ledgers is not known" in text(found)


async def test_a_root_of_another_is_refused() -> None:
    world = await settled()
    other = resource()
    other["metadata"]["name"] = "second"

    found = await look(world, other)

    assert len(found.refused) == 1
    assert "belongs to operator/logs/log" in found.refused[0]


async def test_the_plain_form_has_all_that_the_text_has() -> None:
    world = await settled()
    await world.write_ledger("log-a-0", "log-b-1")

    data = preflight_text.plain(
        await look(world, image="zonekeeper:0.2.0", update={"paused": True})
    )

    assert json.loads(json.dumps(data)) == data
    assert data["steps"][0]["bookies"] == ["log-a-0"]
    assert data["steps"][0]["copies"]["lastCopy"] == 1
    assert data["changes"][0]["fields"][0]["to"] == "zonekeeper:0.2.0"
    assert data["legal"] is True


async def test_a_zone_that_is_held_has_the_price_of_its_release() -> None:
    world = await settled()
    await rolling_world.write_ledger(world, 3, "log-a-0", "log-b-0", "log-c-0", ack=2)
    await rolling_world.write_ledger(world, 4, "log-a-0", "log-b-1", "log-c-0", ack=2)
    await rolling_world.write_ledger(world, 5, "log-a-0", "log-c-0", ack=2)
    assert (await look(world)).releases == (), "nothing is held"
    await world.hold("b")
    assert (await look(world)).releases == (), "nothing is lost"

    await world.end_sessions({"log-b-0", "log-b-1"})
    (found,) = (await look(world)).releases

    assert (found.gate, found.bookies) == ("zones/b", ("log-b-0", "log-b-1"))
    assert (found.work.ledgers, found.work.open_ledgers, found.work.beyond_repair) == (2, 2, 0)
    told = text(await look(world))
    assert "held: zones/b: held by" in told
    assert "a release copies what log-b-0, log-b-1 held: 2 ledgers" in told
    (plain,) = preflight_text.plain(await look(world))["releases"]
    assert (plain["gate"], plain["ledgers"], plain["bytes"]) == ("zones/b", 2, 0)


async def test_a_pause_is_said() -> None:
    found = await look(await settled(), image="zonekeeper:0.2.0", update={"paused": True})

    assert "update.paused: no step begins" in text(found)


GOOD = resource()


@pytest.mark.parametrize(
    ("data", "namespace", "words"),
    [
        ([], None, "must be one resource of kind BookieCluster"),
        ({"kind": "Pod"}, None, "must be one resource of kind BookieCluster"),
        (GOOD | {"apiVersion": "v1"}, None, "apiVersion: must be zonekeeper.io/v1alpha1"),
        (GOOD | {"metadata": {}}, None, "metadata.name: is required"),
        (GOOD | {"spec": None}, None, "spec: is required"),
        (GOOD, "other", "metadata.namespace: logs: is not other"),
    ],
)
def test_a_file_that_has_no_such_resource_is_refused(
    data: Any, namespace: str | None, words: str
) -> None:
    with pytest.raises(preflighting.NoResourceError, match=words):
        preflighting.resource_of(data, namespace, "a.yaml")


def test_the_namespace_is_that_of_the_file_or_the_flag_or_the_default_one() -> None:
    bare = GOOD | {"metadata": {"name": "log"}}

    found = [
        preflighting.resource_of(data, namespace, "a.yaml")["metadata"]["namespace"]
        for data, namespace in ((GOOD, None), (GOOD, SPACE), (bare, "other"), (bare, None))
    ]

    assert found == [SPACE, SPACE, "other", "default"]


@pytest.mark.parametrize(
    ("wanted", "found", "paths"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, []),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, ["a.b"]),
        ({"a": {"b": 1}}, {"a": 3}, ["a"]),
        ({"a": 1}, {}, ["a"]),
        ({"a": [1, 2]}, {"a": [1]}, ["a"]),
        ({"a": [{"name": "x", "v": 1}]}, {"a": [{"name": "y"}, {"name": "x", "v": 2}]}, ["a[x].v"]),
        ({"a": [{"name": "x"}]}, {"a": [{"name": "y"}]}, ["a[x]"]),
        ({"memory": "1Gi"}, {"memory": "1024Mi"}, []),
    ],
)
def test_a_field_is_named_if_and_only_if_it_would_be_changed(
    wanted: Json, found: Json, paths: list[str]
) -> None:
    assert [path for path, _, _ in drift.changes(wanted, found)] == paths
    assert drift.holds(wanted, found) is not bool(paths)
