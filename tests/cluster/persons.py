"""A person who has rights on the resource alone, and the commands that they give."""

import json
import subprocess
import sys
import time
from pathlib import Path

import yaml

from tests.cluster.installation import Clusters
from tests.cluster.kubelet.api import Json
from tests.support.checkout_root import ROOT

PERSON = "on-call"
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
    done = tried(config, *words)
    assert done.returncode == code, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def tried(config: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run it, however it ends."""
    program = Path(sys.executable).with_name("kubectl-zonekeeper")
    started = (
        [str(program)]
        if program.exists()
        else [sys.executable, "-c", "from zonekeeper.operator.plugin.program import main; main()"]
    )
    return subprocess.run(
        [*started, *words, "--kubeconfig", str(config)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def order(config: Path, *words: str, code: int = 0) -> Json:
    """Give an order as that person; give its answer."""
    said = ("--reason", "a drill", "--by", "anna", "--yes", "-o", "json")
    answer: Json = json.loads(plugin(config, *words, *said, code=code))
    return answer


def gates(clusters: Clusters) -> Json | None:
    """Give what the status shows of repair once each zone was evaluated; None: it was not yet.

    At rest the operator looks at the records of the zone watch every 30 s only: an edit wakes it.
    """
    lab, now = clusters.lab, str(time.monotonic_ns())
    woken = ("annotate", "bookiecluster", "log", f"tests/look={now}", "--overwrite")
    lab.kubectl(*woken, "-n", clusters.space)
    space = clusters.get("log").get("status", {})
    shown: Json | None = space.get("repair")
    is_read = clusters.condition("log", "RepairReady").get("reason") in ("Held", "Watched")
    return shown if is_read else None
