"""Pods run from the image: from what the Dockerfile makes, made in a folder.

The lab has no base image: the host's Python and libraries stand in the place of it.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.installation import CHART, RELEASE, SYSTEM, Clusters, acting_pod, helm_flags
from tests.cluster.processes import until
from tests.cluster.test_operator_lease import process_of

pytestmark = [pytest.mark.cluster, pytest.mark.needs_lab, pytest.mark.long]

TAG = "built-here"


def test_an_operator_from_the_image_makes_bookies_from_the_image(
    image: Path, new_clusters: Callable[[], Clusters]
) -> None:
    clusters = new_clusters()
    lab = clusters.lab
    lab.images.put(f"zonekeeper:{TAG}", image)
    chart = [str(CHART), *helm_flags(lab)]

    lab.helm("upgrade", RELEASE, *chart, "--set", f"image.tag={TAG}")
    try:
        until(
            lambda: runs_from(process_of(acting_pod(lab)), image),
            what="an operator from the image acts",
        )
        clusters.apply("log", bookiesPerZone=1, image=f"zonekeeper:{TAG}")
        clusters.wait_for_ready("log")
        clusters.wait("log", "RepairReady", "True")
    finally:
        lab.helm("rollback", RELEASE, "--namespace", SYSTEM, "--wait")
    until(
        lambda: not runs_from(process_of(acting_pod(lab)), image),
        what="the operator of the checkout acts again",
    )
    clusters.delete("log")


def runs_from(pid: int, root: Path) -> bool:
    """Is the program of a process one of this installation?"""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    return any(word.startswith(str(root)) for word in words)
