"""A person with rights on the resource alone orders about a cluster, and collects a report."""

import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster import persons
from tests.cluster.installation import Clusters

pytestmark = pytest.mark.cluster

CANARY = "canary-7f3a9c"


def test_a_person_orders_rolls_and_reports_and_has_no_other_rights(
    new_clusters: Callable[[], Clusters], tmp_path: Path
) -> None:
    clusters = new_clusters()
    licence = [{"name": "LICENCE", "value": CANARY}]
    clusters.apply("log", bookiesPerZone=1, policy=persons.SOON, env=licence)
    clusters.wait_for_ready("log")
    config = persons.config_of_person(clusters, tmp_path)

    assert "zone  ud-0" in persons.plugin(config, "status", "log")
    assert persons.order(config, "autorecovery", "disable", "log")["phase"] == "Done"
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
    for right in ("get secrets", "patch pods"):
        verb, kind = right.split()
        asked = ("auth", "can-i", verb, kind, "-n", clusters.space, f"--kubeconfig={config}")
        assert clusters.lab.kubectl(*asked, check=False).split()[0] == "no", right


@pytest.mark.long
def test_a_person_holds_and_releases_what_the_status_shows(
    new_clusters: Callable[[], Clusters], tmp_path: Path
) -> None:
    """A zone watch stands in a minute after its process has started: until then nothing is held."""
    clusters = new_clusters()
    clusters.apply("log", bookiesPerZone=1, policy=persons.SOON)
    clusters.wait_for_ready("log")
    clusters.until(
        "log", lambda: persons.gates(clusters) is not None, what="records of the zone watch"
    )
    config = persons.config_of_person(clusters, tmp_path)

    assert persons.order(config, "autorecovery", "hold", "log", "--zone", "b")["phase"] == "Done"
    held = json.loads(persons.plugin(config, "status", "log", "-o", "json"))["repair"]["held"]
    assert "anna: a drill" in [one.get("heldBy") for one in held if one["gate"] == "zones/b"]
    release = ("autorecovery", "release", "log", "--zone", "b")
    assert persons.order(config, *release, code=2)["phase"] == "Refused"
    assert persons.order(config, *release, "--force")["phase"] == "Done"
