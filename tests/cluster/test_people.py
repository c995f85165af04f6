"""A person with rights on the resource alone, and bookies that outlive their resource."""

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.cluster.installation import Clusters
from tests.cluster.kubelet.api import Json
from tests.support.checkout_root import ROOT

pytestmark = pytest.mark.cluster

PERSON = "on-call"
CANARY = "canary-7f3a9c"
ROLE = "zonekeeper-operator-person"
#: Production looks for longer before it says that a zone is up; a test has no time for that.
SOON = {
    "zoneWatch": {
        "evaluateEvery": "1s",
        "startGrace": "2s",
        "suspectFor": "10s",
        "betweenMarksFor": "10s",
        "holdUp": "2s",
        "holdUpMax": "30s",
    },
    "repair": {"bookieRecoveryDelay": "30s"},
}


def config_of_person(clusters: Clusters, folder: Path) -> Path:
    """Let there be a person who has the role, and give their kubeconfig."""
    lab, space = clusters.lab, clusters.space
    lab.kubectl("create", "serviceaccount", PERSON, "-n", space)
    lab.kubectl(
        *("create", "rolebinding", PERSON, "-n", space, f"--clusterrole={ROLE}"),
        f"--serviceaccount={space}:{PERSON}",
    )
    token = lab.kubectl("create", "token", PERSON, "-n", space).strip()
    config = yaml.safe_load(lab.kubeconfig.read_text())
    config["users"] = [{"name": PERSON, "user": {"token": token}}]
    for one in config["contexts"]:
        one["context"] |= {"user": PERSON, "namespace": space}
    path = folder / "person.yaml"
    path.write_text(yaml.safe_dump(config))
    path.chmod(0o600)
    return path


def plugin(config: Path, *words: str, code: int = 0) -> str:
    """Run ``kubectl zonekeeper`` as that person."""
    program = Path(sys.executable).with_name("kubectl-zonekeeper")
    started = (
        [str(program)]
        if program.exists()
        else [sys.executable, "-c", "from zonekeeper.operator.plugin.program import main; main()"]
    )
    done = subprocess.run(
        [*started, *words, "--kubeconfig", str(config)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def order(config: Path, *words: str, code: int = 0) -> Json:
    """Give an order as that person; give its answer."""
    said = ("--reason", "a drill", "--by", "anna", "--yes", "-o", "json")
    answer: Json = json.loads(plugin(config, *words, *said, code=code))
    return answer


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


def gates(clusters: Clusters) -> Json | None:
    """Give what the status shows of repair once each zone was evaluated; None: it was not yet."""
    space = clusters.get("log").get("status", {})
    shown: Json | None = space.get("repair")
    is_read = clusters.condition("log", "RepairReady").get("reason") in ("Held", "Watched")
    return shown if is_read else None


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
    clusters.apply("log", bookiesPerZone=1, policy=SOON, env=licence)
    clusters.wait_for_ready("log")
    clusters.until("log", lambda: gates(clusters) is not None, what="records of the zone watch")
    config = config_of_person(clusters, tmp_path)

    assert "zone  ud-0" in plugin(config, "status", "log")
    assert order(config, "autorecovery", "hold", "log", "--zone", "b")["phase"] == "Done"
    held = json.loads(plugin(config, "status", "log", "-o", "json"))["repair"]["held"]
    assert "anna: a drill" in [one.get("heldBy") for one in held if one["gate"] == "zones/b"]
    release = ("autorecovery", "release", "log", "--zone", "b")
    assert order(config, *release, code=2)["phase"] == "Refused"
    assert order(config, *release, "--force")["phase"] == "Done"
    assert "no new ensemble" in order(config, "drain", "log", "log-b-0", code=2)["message"]
    plugin(config, "roll", "pause", "log")
    assert clusters.get("log")["spec"]["update"]["paused"] is True
    plugin(config, "roll", "resume", "log")
    archive = tmp_path / "report.tar.gz"
    plugin(config, "report", "log", "--file", str(archive))
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
