"""Two replicas of the operator on a real API server: the one that acts is killed, and frozen."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cluster.installation import (
    SYSTEM,
    Clusters,
    acting_pod,
    holder,
    pod_of,
    settled_holder,
)
from tests.cluster.lab import Lab
from tests.cluster.processes import until

pytestmark = [pytest.mark.cluster, pytest.mark.needs_lab]


def process_of(pod: str) -> int:
    """Give the process of the operator in a pod."""
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        with suppress(OSError):  # it has ended meanwhile
            command = (folder / "cmdline").read_bytes().split(b"\0")
            variables = (folder / "environ").read_bytes().split(b"\0")
            if f"ZONEKEEPER_NAME={pod}".encode() in variables and b"operator" in command:
                return int(folder.name)
    raise AssertionError(f"no process of {pod}")


def restarts(lab: Lab, pod: str) -> int:
    status = lab.get("pod", pod, namespace=SYSTEM)["status"]
    return int(status["containerStatuses"][0]["restartCount"])


def log_of(lab: Lab, pod: str) -> str:
    uid = lab.get("pod", pod, namespace=SYSTEM)["metadata"]["uid"]
    (log,) = lab.folder.glob(f"nodes/*/pods/{uid}/operator.log")
    return log.read_text()


def test_a_frozen_process_is_followed_and_writes_nothing_when_it_comes_back(
    new_clusters: Callable[[], Clusters],
) -> None:
    clusters = new_clusters()
    lab = clusters.lab
    clusters.apply("log", bookiesPerZone=1, autoReplication={"perZone": 0})
    clusters.wait_for_ready("log")
    before = settled_holder(lab)
    frozen = pod_of(before)
    pid, count = process_of(frozen), restarts(lab, frozen)

    os.kill(pid, signal.SIGSTOP)
    try:
        until(lambda: holder(lab) not in ("", before), what="another process holds the Lease")
        after = holder(lab)
        assert pod_of(after) != frozen
        lab.kubectl("delete", "service", "log-bookies", "-n", clusters.space)
        clusters.until(
            "log",
            lambda: clusters.left("services") == ["services/log-bookies"],
            what="the other process acts",
        )
    finally:
        os.kill(pid, signal.SIGCONT)
    until(lambda: restarts(lab, frozen) > count, what="the frozen process has ended")

    assert "is lost" in log_of(lab, frozen)
    assert holder(lab) == after, "it took nothing back"
    clusters.wait_for_ready("log")


def test_the_other_acts_at_once_when_the_one_that_acts_is_deleted(
    new_clusters: Callable[[], Clusters],
) -> None:
    clusters = new_clusters()
    lab = clusters.lab
    gone = acting_pod(lab)

    lab.kubectl("delete", "pod", gone, "-n", SYSTEM, "--wait=false")
    until(lambda: acting_pod(lab) != gone, what="another process holds the Lease")

    clusters.apply("log", bookiesPerZone=1, autoReplication={"perZone": 0})
    clusters.wait_for_ready("log")
