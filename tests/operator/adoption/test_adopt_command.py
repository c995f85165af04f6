"""``zonekeeper operator adopt`` prints a resource under which no pod is made anew."""

import asyncio
import json
from collections.abc import Callable

import pytest
import yaml
from click.testing import CliRunner, Result

from tests.operator.adoption import orphans
from tests.operator.resources import NAME, SPACE
from tests.operator.worlds import World
from zonekeeper.operator import commands
from zonekeeper.operator.adoption import reading, rebuilt
from zonekeeper.operator.adoption.reading import AdoptionPreflight
from zonekeeper.operator.adoption.rebuilt import NotRebuiltError
from zonekeeper.operator.kubernetes.api import (
    ADOPT,
    BOOKIE_CLUSTERS,
    CONTROLLER_REVISIONS,
    STATEFUL_SETS,
    Json,
)
from zonekeeper.operator.kubernetes.api_server import ApiServer

SECURE: Json = {"tls": {"mode": "Operator"}, "network": {"policies": True}}


async def look(world: World, name: str = "log-a") -> AdoptionPreflight:
    return await reading.look(world.kubernetes, world.open_for_operator, SPACE, name)


async def without_kept_specs(world: World) -> None:
    for one in await world.kubernetes.list(CONTROLLER_REVISIONS, SPACE):
        world.kubernetes.mark_deleted(CONTROLLER_REVISIONS, SPACE, one["metadata"]["name"])


@pytest.mark.parametrize("has_kept", [True, False])
@pytest.mark.parametrize(
    "spec",
    [
        {},
        SECURE,
        {**SECURE, "network": {"policies": True, "pages": "Certificate"}},
        {"bookiesPerZone": 3, "autoReplication": {"perZone": 2}, "socketLane": True},
        {"storage": {"size": "2Gi", "className": "fast", "journal": {"size": "1Gi"}}},
        {"policy": {"placement": {"upgradeDomains": 4}, "repair": {"after": "7h"}}},
        {"config": {"gc-interval": "10m"}, "podUser": "Platform"},
        {"env": [{"name": "LICENCE", "value": "x"}], "resources": {"limits": {"cpu": "1"}}},
        {
            "zones": [
                {"name": "c", "nodeSelector": {"rack": "c"}},
                {"name": "a", "nodeSelector": {"rack": "a"}},
                {"name": "b", "nodeSelector": {"rack": "b"}},
            ],
            "tolerations": [{"key": "x", "operator": "Exists"}],
            "priorityClassName": "high",
            "imagePullPolicy": "Always",
            "imagePullSecrets": [{"name": "pull"}],
        },
    ],
)
async def test_no_pod_would_be_made_anew_and_no_policy_changed(
    spec: dict[str, object], has_kept: bool
) -> None:
    world, instance = await orphans.orphaned(**spec)
    if not has_kept:
        await without_kept_specs(world)

    read = await look(world)

    assert read.found.refused == ()
    assert read.found.steps == ()
    assert "policy" not in {one.kind for one in read.found.changes}
    assert not [one for one in read.found.changes if one.kind == "StatefulSet"]
    assert read.resource["metadata"]["annotations"] == {ADOPT: instance}


async def test_what_it_prints_is_taken_over_as_it_stands() -> None:
    world, instance = await orphans.orphaned(**SECURE)
    await without_kept_specs(world)
    before = await orphans.uids(world)
    read = await look(world)
    meta = {**read.resource["metadata"], "uid": "uid-again"}
    world.kubernetes.put(BOOKIE_CLUSTERS, read.resource | {"metadata": meta})
    world.reconciler = world.new_operator()

    await world.settle()

    assert await orphans.uids(world) == before
    assert await orphans.controllers_of(world) == {"uid-again"}
    assert (await world.get())["status"]["instance"] == instance
    assert (await world.conditions())["Secure"][0] == "True"


async def test_without_the_store_a_kept_spec_is_enough_and_nothing_else_is() -> None:
    world, instance = await orphans.orphaned()
    world.is_cut_off = True
    read = await look(world)
    assert read.resource["metadata"]["annotations"] == {ADOPT: instance}, "the claims say it"
    assert "the root was not read" in read.found.refused[0]

    await without_kept_specs(world)
    with pytest.raises(NotRebuiltError, match="would set another policy"):
        await look(world)


async def test_a_stranger_in_the_root_is_told_before_anything_is_applied() -> None:
    world, _ = await orphans.orphaned()
    await world.end_sessions({"log-c-0"})
    world.kubernetes.mark_deleted(STATEFUL_SETS, SPACE, "log-c")

    read = await look(world)

    assert "log-c-1" in read.found.refused[0]


async def test_what_is_controlled_missing_or_of_others_is_no_source() -> None:
    world = World()
    await world.settle()
    with pytest.raises(NotRebuiltError, match="is controlled by BookieCluster log already"):
        await look(world)
    with pytest.raises(NotRebuiltError, match="there is no StatefulSet nothing"):
        await look(world, "nothing")
    meta = {"name": "web", "namespace": SPACE, "labels": {"app": "web"}}
    world.kubernetes.put(STATEFUL_SETS, {"metadata": meta, "spec": {}})
    with pytest.raises(NotRebuiltError, match="not one of zonekeeper's"):
        await look(world, "web")


async def test_zones_of_different_sizes_and_certificates_of_others_are_told() -> None:
    world, _ = await orphans.orphaned()
    await without_kept_specs(world)
    item = await world.kubernetes.get(STATEFUL_SETS, SPACE, "log-b")
    assert item is not None
    changed = {**item, "spec": {**item["spec"], "replicas": 1}}
    world.kubernetes.put(STATEFUL_SETS, changed)
    with pytest.raises(NotRebuiltError, match="different numbers of bookies"):
        await look(world)
    world.kubernetes.put(STATEFUL_SETS, item)
    volume = {"name": "tls", "secret": {"secretName": "log-bookie-a-tls"}}
    first = await world.kubernetes.get(STATEFUL_SETS, SPACE, "log-a")
    assert first is not None
    first["spec"]["template"]["spec"]["volumes"] = [volume]
    world.kubernetes.put(STATEFUL_SETS, first)
    with pytest.raises(NotRebuiltError, match="annotate it with"):
        await look(world)


def test_of_several_kept_specs_the_newest_counts() -> None:
    def kept(number: int) -> Json:
        return {"revision": number, "data": {"spec": {"number": number}}}

    meta = {
        "name": "log-a",
        "namespace": SPACE,
        "labels": {"zonekeeper.io/cluster": NAME},
    }
    standing = rebuilt.StandingObjects(
        sets=({"metadata": meta, "spec": {}},),
        revisions=(kept(2), kept(10), {"revision": 11, "data": "broken"}),
        instance="i",
    )

    assert rebuilt.resource(standing)["spec"] == {"number": 10}


Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    world, _ = asyncio.run(orphans.orphaned())
    monkeypatch.setattr(ApiServer, "from_surroundings", lambda: world.kubernetes)
    monkeypatch.setattr(commands, "open_store", lambda at, _: world.open_for_operator(at))

    def call(*words: str) -> Result:
        return CliRunner().invoke(commands.commands, ["adopt", *words])

    return call


def test_the_text_is_a_manifest_with_comments_and_the_data_is_both(run: Run) -> None:
    text = run("--from", "statefulset/log-a", "-n", SPACE)
    data = run("--from", "sts/log-b", "-n", SPACE, "-o", "json")

    assert (text.exit_code, data.exit_code) == (0, 0), text.output
    assert text.stdout.startswith("# ")
    found = yaml.safe_load(text.stdout)
    assert found["kind"] == "BookieCluster"
    assert json.loads(data.stdout)["resource"] == found
    assert json.loads(data.stdout)["plan"]["steps"] == []


@pytest.mark.parametrize("source", ["log-a", "deployment/log-a", "statefulset/", "statefulset/x"])
def test_a_source_that_is_none_ends_with_two(run: Run, source: str) -> None:
    assert run("--from", source, "-n", SPACE).exit_code == 2
