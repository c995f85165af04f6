"""A person with rights on the resource alone, and bookies that outlive their resource."""

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster import persons
from tests.cluster.installation import Clusters
from tests.cluster.kubelet.api import Json
from tests.support.checkout_root import ROOT

pytestmark = pytest.mark.cluster

CANARY = "canary-7f3a9c"


def adopted(clusters: Clusters) -> tuple[Json, Json]:
    """Ask ``zonekeeper operator adopt`` as the administrator."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "zonekeeper.shell", "operator", "adopt"),
            *("--from", "statefulset/log-a", "-n", clusters.space, "-o", "json"),
        ],
        env={**os.environ, "KUBECONFIG": str(clusters.lab.kubeconfig)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    answer = json.loads(done.stdout)
    return answer["resource"], answer["plan"]


def pods(clusters: Clusters) -> dict[str, tuple[str, int]]:
    """Give uid and restarts of each bookie's pod."""
    found = clusters.lab.list("pods", namespace=clusters.space)
    return {
        one["metadata"]["name"]: (
            one["metadata"]["uid"],
            one["status"]["containerStatuses"][0]["restartCount"],
        )
        for one in found
        if one["metadata"].get("labels", {}).get("zonekeeper.io/cluster") == "log"
    }


def test_a_person_orders_by_the_resource_and_bookies_are_taken_over_without_a_restart(
    new_clusters: Callable[[], Clusters], tmp_path: Path
) -> None:
    clusters = new_clusters()
    licence = [{"name": "LICENCE", "value": CANARY}]
    clusters.apply("log", bookiesPerZone=1, policy=persons.SOON, env=licence)
    clusters.wait_for_ready("log")
    clusters.until(
        "log", lambda: persons.gates(clusters) is not None, what="records of the zone watch"
    )
    config = persons.config_of_person(clusters, tmp_path)

    assert "zone  ud-0" in persons.plugin(config, "status", "log")
    assert persons.order(config, "autorecovery", "hold", "log", "--zone", "b")["phase"] == "Done"
    held = json.loads(persons.plugin(config, "status", "log", "-o", "json"))["repair"]["held"]
    assert "anna: a drill" in [one.get("heldBy") for one in held if one["gate"] == "zones/b"]
    release = ("autorecovery", "release", "log", "--zone", "b")
    assert persons.order(config, *release, code=2)["phase"] == "Refused"
    assert persons.order(config, *release, "--force")["phase"] == "Done"
    assert "no new ensemble" in persons.order(config, "drain", "log", "log-b-0", code=2)["message"]
    persons.plugin(config, "roll", "pause", "log")
    assert clusters.get("log")["spec"]["update"]["paused"] is True
    persons.plugin(config, "roll", "resume", "log")
    archive = tmp_path / "report.tar.gz"
    persons.plugin(config, "report", "log", "--file", str(archive))
    with tarfile.open(archive) as found:
        texts = [found.extractfile(one) for one in found.getmembers()]
        assert len(texts) > 4, "resource, status, events, pods; this kubelet serves no logs"
        assert not [one for one in texts if one is not None and CANARY in one.read().decode()]
    for right in ("get secrets", "create pods/exec", "delete bookieclusters", "patch pods"):
        verb, kind = right.split()
        asked = ("auth", "can-i", verb, kind, "-n", clusters.space, f"--kubeconfig={config}")
        assert clusters.lab.kubectl(*asked, check=False).split()[0] == "no", right

    before, instance = pods(clusters), clusters.get("log")["status"]["instance"]
    delete = ("delete", "bookiecluster", "log", "-n", clusters.space, "--cascade=orphan")
    clusters.lab.kubectl(*delete, "--timeout=60s")
    resource, plan = adopted(clusters)
    assert resource["metadata"]["annotations"] == {"zonekeeper.io/adopt": instance}
    assert plan["steps"] == []
    clusters.lab.apply([resource])
    clusters.wait_for_ready("log")
    clusters.wait("log", "UpToDate", "True")

    assert pods(clusters) == before, "no pod was made anew, and no bookie restarted"
    found_set = clusters.lab.get("statefulset", "log-a", namespace=clusters.space)
    owner = found_set["metadata"]["ownerReferences"][0]
    assert owner["uid"] == clusters.get("log")["metadata"]["uid"]
    assert clusters.get("log")["status"]["instance"] == instance
