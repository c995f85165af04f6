"""What a resource says of its pods is in them, and what it does not say changes nothing.

``golden/pods_v1.json`` has the pods of zone a as an operator without these fields made them. A
change of it means that an upgrade of the operator restarts every bookie.
"""

import json
from pathlib import Path
from typing import Final

import pytest

from tests.operator.refused import RIGHT
from tests.operator.resources import resource
from zonekeeper.operator.cluster import (
    desired,
    owned_objects,
    pod_parts,
)
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.definition import crd_rules
from zonekeeper.operator.kubernetes.api import DEPLOYMENTS, STATEFUL_SETS, Json
from zonekeeper.operator.plan import conditions
from zonekeeper.operator.shapes.pods import PodFields
from zonekeeper.operator.sight import formats_pod

GOLDEN: Final = Path(__file__).parent / "golden" / "pods_v1.json"
INSTANCE: Final = "0d6e3a1e-0000-4000-8000-000000000001"
EVERYTHING: Final = dict(RIGHT)["all that pods may have"]


def made(**spec: object) -> dict[str, Json]:
    """Give the StatefulSets and Deployments of a resource, by kind and name."""
    item = resource(**spec)
    wanted = desired.read(item)
    assert isinstance(wanted, Desired), wanted
    return {
        f"{kind.name}/{body['metadata']['name']}": body
        for kind, body in owned_objects.all_of(wanted, item, INSTANCE)
        if kind in (STATEFUL_SETS, DEPLOYMENTS)
    }


def template(of: Json) -> Json:
    found: Json = of["spec"]["template"]
    return found


def container(of: Json) -> Json:
    (only,) = template(of)["spec"]["containers"]
    found: Json = only
    return found


def test_where_the_platform_chooses_the_user_no_pod_names_a_user_or_a_group() -> None:
    """OpenShift refuses a user, and a group of volumes, that is not of the namespace."""
    item = resource(podUser="Platform")
    wanted = desired.read(item)
    assert isinstance(wanted, Desired)
    asking = formats_pod.made(wanted, wanted.zones[0], item)["spec"]
    pods = [template(one)["spec"] for one in made(podUser="Platform").values()]

    assert len(pods) == 6
    for pod in (*pods, asking):
        confined = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
        assert pod["securityContext"] == confined
        (only,) = pod["containers"]
        assert only["securityContext"] == dict(pod_parts.RESTRICTED_CONTAINER)


def test_otherwise_every_pod_runs_as_the_same_user_and_volumes_are_given_to_its_group() -> None:
    assert made() == made(podUser="Fixed")
    for name, one in made().items():
        said = template(one)["spec"]["securityContext"]
        assert said["runAsUser"] == said["runAsGroup"] == pod_parts.USER
        assert said.get("fsGroup") == (pod_parts.USER if name.startswith("Stateful") else None)


def test_another_user_is_refused_in_words() -> None:
    found = desired.read(resource(podUser="root"))

    assert isinstance(found, desired.RefusedResource)
    assert "spec.podUser" in found.reasons[0]
    assert "Fixed, Platform" in found.reasons[0]


def test_a_resource_that_says_nothing_of_its_pods_has_the_pods_that_it_had() -> None:
    golden = json.loads(GOLDEN.read_text())
    found = made()

    assert len(golden) == 2
    for name, parts in golden.items():
        for part, value in parts.items():
            assert found[name]["spec"][part] == value


def test_the_lane_changes_the_pods_of_bookies_alone_and_nothing_else_of_them() -> None:
    with_lane, without = made(socketLane=True), made()
    assert made(socketLane=False) == without
    for name, one in with_lane.items():
        if not name.startswith("StatefulSet"):
            assert one == without[name]
            continue
        only = container(one)
        assert only["ports"].pop() == {"name": "socket", "containerPort": 3182, "protocol": "TCP"}
        only["env"].remove({"name": "ZONEKEEPER_LISTEN_SOCKET", "value": "0.0.0.0:3182"})
        assert template(one) == template(without[name])


@pytest.mark.parametrize("name", ["StatefulSet/log-b", "Deployment/log-b-autorecovery"])
def test_what_the_cluster_says_is_in_the_pods_of_every_zone(name: str) -> None:
    found = made(**EVERYTHING)[name]
    pod = template(found)["spec"]

    assert pod["imagePullSecrets"] == [{"name": "login"}]
    assert pod["priorityClassName"] == "high"
    assert container(found)["imagePullPolicy"] == "Always"
    labels = template(found)["metadata"]["labels"]
    assert (labels["team"], labels["app.kubernetes.io/part-of"]) == ("logs", "x")
    assert template(found)["metadata"]["annotations"] == {"example.com/scrape": "true"}
    variables = {one["name"]: one for one in container(found)["env"]}
    assert variables["TZ"] == {"name": "TZ", "value": "UTC"}
    assert "secretKeyRef" in variables["TOKEN"]["valueFrom"]
    for toleration in EVERYTHING["tolerations"]:
        assert toleration in pod["tolerations"]


def test_affinity_is_of_bookies_alone() -> None:
    found = made(**EVERYTHING)

    assert template(found["StatefulSet/log-b"])["spec"]["affinity"] == EVERYTHING["affinity"]
    assert "affinity" not in template(found["Deployment/log-b-autorecovery"])["spec"]


def test_the_settings_of_bookies_are_not_those_of_autorecovery() -> None:
    found = made(**EVERYTHING)
    name = "ZONEKEEPER_GC_INTERVAL"

    assert name in {one["name"] for one in container(found["StatefulSet/log-a"])["env"]}
    repairer = container(found["Deployment/log-a-autorecovery"])["env"]
    assert name not in {one["name"] for one in repairer}


def test_a_zone_changes_its_own_pods_alone() -> None:
    found = made(**EVERYTHING)
    in_a, in_c = found["StatefulSet/log-a"], found["StatefulSet/log-c"]

    assert template(in_a)["metadata"]["labels"]["team"] == "a"
    assert template(in_c)["metadata"]["labels"]["team"] == "logs"
    assert {one["name"]: one.get("value") for one in container(in_a)["env"]}["TZ"] == "CET"
    assert set(template(in_a)["spec"]["affinity"]) == {"podAntiAffinity"}
    keys = [one.get("key") for one in template(in_c)["spec"]["tolerations"]]
    assert "gpu" in keys
    assert "gpu" not in [one.get("key") for one in template(in_a)["spec"]["tolerations"]]


def test_an_empty_affinity_of_a_zone_takes_away_that_of_the_cluster() -> None:
    zones = [{"name": "a", "affinity": {}}, {"name": "b"}, {"name": "c"}]
    found = made(affinity=EVERYTHING["affinity"], zones=zones)

    assert "affinity" not in template(found["StatefulSet/log-a"])["spec"]
    assert "affinity" in template(found["StatefulSet/log-b"])["spec"]


def test_the_operator_s_own_tolerations_give_way_to_one_of_the_same_taint() -> None:
    key = "node.kubernetes.io/unreachable"
    wanted = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 90}
    pod = template(made(tolerations=[wanted])["Deployment/log-a-autorecovery"])["spec"]

    assert [one for one in pod["tolerations"] if one["key"] == key] == [wanted]
    assert len(pod["tolerations"]) == 2
    assert pod["tolerations"][0]["key"] == "node.kubernetes.io/not-ready"


def test_the_labels_by_which_pods_are_found_stay() -> None:
    before, after = made(), made(podLabels={"team": "logs"})

    for name, body in before.items():
        own = template(body)["metadata"]["labels"]
        assert own.items() <= template(after[name])["metadata"]["labels"].items()
        assert after[name]["spec"]["selector"] == body["spec"]["selector"]


def test_the_condition_that_the_schema_asks_for_is_the_operator_s() -> None:
    assert conditions.Type.UP_TO_DATE.value == crd_rules.UP_TO_DATE


def test_a_label_that_was_not_refused_still_does_not_replace_the_operator_s() -> None:
    own = {"zonekeeper.io/zone": "a"}

    made = pod_parts.metadata(PodFields(labels={"zonekeeper.io/zone": "b", "team": "x"}), own)

    assert made == {"labels": {"zonekeeper.io/zone": "a", "team": "x"}}
