"""Bookies that outlive their resource, and a resource that outlives its metadata store."""

import json
import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.cluster import namespaces
from tests.cluster.installation import Clusters
from tests.cluster.kubelet.api import Json
from tests.cluster.processes import until
from tests.support import zookeeper
from tests.support.checkout_root import ROOT

pytestmark = [pytest.mark.cluster, pytest.mark.long]

BOOKIES = 9
#: A person is told within this time.
TOLD_SECONDS = 30


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


def owners(clusters: Clusters) -> set[str]:
    """Give the uids of what controls the StatefulSets; "": nothing does."""
    return {
        next((one["uid"] for one in item["metadata"].get("ownerReferences", ())), "")
        for item in clusters.lab.list("statefulsets", namespace=clusters.space)
    }


def test_nine_bookies_whose_resource_was_deleted_are_taken_over_without_a_restart(
    new_clusters: Callable[[], Clusters],
) -> None:
    clusters = new_clusters()
    clusters.apply("log", bookiesPerZone=3)
    clusters.wait_for_ready("log")
    clusters.wait("log", "LocationsVerified", "True")

    before, instance = pods(clusters), clusters.get("log")["status"]["instance"]
    assert len(before) == BOOKIES
    delete = ("delete", "bookiecluster", "log", "-n", clusters.space, "--cascade=orphan")
    clusters.lab.kubectl(*delete, "--timeout=60s")
    resource, plan = adopted(clusters)
    assert resource["metadata"]["annotations"] == {"zonekeeper.io/adopt": instance}
    assert plan["steps"] == []
    clusters.lab.apply([resource])
    clusters.wait_for_ready("log")
    clusters.wait("log", "UpToDate", "True")

    uid = clusters.get("log")["metadata"]["uid"]
    # The status is written before the acts, so the pods may be said to be as asked for before that.
    clusters.until("log", lambda: owners(clusters) == {uid}, what="all sets taken over")
    assert pods(clusters) == before, "no pod was made anew, and no bookie restarted"
    assert clusters.get("log")["status"]["instance"] == instance


@pytest.mark.needs_lab
def test_a_deletion_without_its_store_is_told_at_once_and_forced_by_one_command(
    new_clusters: Callable[[], Clusters],
) -> None:
    clusters, lab = new_clusters(), new_clusters().lab
    with zookeeper.single(host=namespaces.HOST_ADDRESS) as ensemble:
        uri = f"zk://{ensemble.addresses}/{clusters.space}/ledgers"
        clusters.apply("log", uri=uri, bookiesPerZone=1, onDelete="Delete")
        clusters.wait_for_ready("log")
        instance = clusters.get("log")["status"]["instance"]
    word = f"zonekeeper.io/force-delete={instance}"

    lab.kubectl("delete", "bookiecluster", "log", "-n", clusters.space, "--wait=false")
    until(
        lambda: word in clusters.condition("log", "Released").get("message", ""),
        what="the word that lets go",
        seconds=TOLD_SECONDS,
    )
    lab.kubectl("annotate", "bookiecluster", "log", "-n", clusters.space, word)
    clusters.until("log", lambda: not clusters.get("log"), what="a resource that is gone")

    left = clusters.left("statefulset", "pod", "persistentvolumeclaim", "deployment")
    assert [one for one in left if "log-" in one] == []
    told = [one["message"] for one in clusters.events("log") if one["reason"] == "RootKept"]
    assert len(told) == 1
    assert uri in told[0]
