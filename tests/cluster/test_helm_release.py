"""A release of the chart from install to uninstall, by helm itself; clusters run on throughout.

Nothing is released yet, so there is no chart of an earlier version. The release before is this
chart under a lower version, with one replica and a definition that lacks a field.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.cluster import installation
from tests.cluster.installation import CHART, RELEASE, SYSTEM, Clusters, helm_flags
from tests.cluster.kubelet.api import Json
from tests.cluster.lab import Lab
from tests.cluster.processes import until

pytestmark = pytest.mark.cluster

DEFINITION = "crd/bookieclusters.zonekeeper.io"
#: The field that the definition of the release before lacks.
NEW = "onDelete"


@pytest.fixture
def released(operator: Lab) -> Iterator[Lab]:
    """Leave the release as it was found, whatever a test did with it."""
    yield operator
    operator.helm("upgrade", "--install", RELEASE, str(CHART), *helm_flags(operator))


def chart_before(folder: Path) -> Path:
    """Give the chart of the release before."""
    chart = folder / "zonekeeper"
    shutil.copytree(CHART, chart)
    about = yaml.safe_load((chart / "Chart.yaml").read_text())
    (chart / "Chart.yaml").write_text(yaml.safe_dump(about | {"version": "0.0.9"}))
    values = yaml.safe_load((chart / "values.yaml").read_text())
    (chart / "values.yaml").write_text(yaml.safe_dump(values | {"replicas": 1}))
    path = chart / "definitions" / "bookieclusters.yaml"
    definition = yaml.safe_load(path.read_text())
    del spec_of(definition)[NEW]
    path.write_text(yaml.safe_dump(definition))
    return chart


def spec_of(definition: Json) -> Json:
    """Give the fields of a resource's spec."""
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    fields: Json = schema["properties"]["spec"]["properties"]
    return fields


def served(lab: Lab) -> bool:
    """Does the definition that is served know the new field?"""
    return NEW in spec_of(json.loads(lab.kubectl("get", DEFINITION, "-o", "json")))


def replicas(lab: Lab) -> int:
    return int(lab.get("deployment", "zonekeeper-operator", namespace=SYSTEM)["spec"]["replicas"])


def test_a_release_is_installed_upgraded_tested_rolled_back_and_removed(
    released: Lab, new_clusters: Callable[[], Clusters], tmp_path: Path
) -> None:
    lab, clusters = released, new_clusters()
    clusters.apply("log", bookiesPerZone=1, autoReplication={"perZone": 0})
    clusters.wait_for_ready("log")
    pods = {item["metadata"]["uid"] for item in lab.list("pods", namespace=clusters.space)}

    lab.helm("uninstall", RELEASE, "--namespace", SYSTEM, "--wait")
    assert lab.get("deployment", "zonekeeper-operator", namespace=SYSTEM) == {}
    assert served(lab), "without its definition every resource would be gone"

    lab.helm("install", RELEASE, str(chart_before(tmp_path)), *helm_flags(lab))
    assert (served(lab), replicas(lab)) == (False, 1)

    lab.helm("upgrade", RELEASE, str(CHART), *helm_flags(lab))
    assert (served(lab), replicas(lab)) == (True, 2)
    tested = lab.helm("test", RELEASE, "--namespace", SYSTEM)
    assert "Phase:          Succeeded" in tested

    lab.helm("rollback", RELEASE, "--namespace", SYSTEM, "--wait")
    assert (served(lab), replicas(lab)) == (False, 1)
    clusters.lab.kubectl("delete", "service", "log-bookies", "-n", clusters.space)
    clusters.until(
        "log",
        lambda: clusters.left("services") == ["services/log-bookies"],
        what="the operator of the release before acts",
    )
    now = {item["metadata"]["uid"] for item in lab.list("pods", namespace=clusters.space)}
    assert now == pods, "no bookie was restarted"


def test_a_second_installation_stands_by_and_says_so(released: Lab) -> None:
    lab = released
    before = installation.settled_holder(lab)
    assert before.startswith(f"{SYSTEM}.zonekeeper-operator_")
    lab.apply([installation.namespace("second")])

    flags = ["--set", "definitions=false,replicas=1", *helm_flags(lab, "second")]
    lab.helm("install", "second", str(CHART), *flags)

    until(
        lambda: [
            item["message"]
            for item in lab.list("events")
            if item["reason"] == "StandsBy" and item["involvedObject"]["kind"] == "Lease"
        ],
        what="an event that a second installation stands by",
    )
    with pytest.raises(OSError, match="test"):
        lab.helm("test", "second", "--namespace", "second")
    assert installation.holder(lab) == before
    lab.helm("uninstall", "second", "--namespace", "second", "--wait")
