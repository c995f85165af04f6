"""A zone is taken away for a drill, on the real control plane, with real bookies and their data."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster import persons
from tests.cluster.installation import Clusters
from tests.cluster.kubelet.api import Json

pytestmark = [pytest.mark.cluster, pytest.mark.long]


def claims(clusters: Clusters) -> dict[str, str]:
    found = clusters.lab.list("persistentvolumeclaims", namespace=clusters.space)
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in found}


def begun(clusters: Clusters, config: Path, lasts: str) -> None:
    """Order a drill as the person, again for as long as a hold of the start lingers."""

    def is_begun() -> bool:
        said = ("--reason", "an exercise", "--by", "anna", "--yes", "-o", "json", "--no-wait")
        told = persons.tried(config, "drill", "log", "--zone", "b", "--for", lasts, *said)
        return told.returncode == 0

    clusters.until("log", is_begun, what="a drill that begins")


def until_ended(clusters: Clusters) -> Json:
    def is_over() -> bool:
        return bool(clusters.get("log")["status"]["drill"]["phase"] == "Ended")

    clusters.until("log", is_over, what="the end of the drill")
    found: Json = clusters.get("log")["status"]["drill"]
    return found


def test_a_drill_ends_with_its_report_and_one_that_loses_a_second_bookie_ends_itself(
    new_clusters: Callable[[], Clusters], tmp_path: Path
) -> None:
    clusters = new_clusters()
    clusters.apply("log", bookiesPerZone=2, policy=persons.SOON, tls={"clients": ["drill"]})
    clusters.wait_for_ready("log")
    config = persons.config_of_person(clusters, tmp_path)
    volumes, cookies = claims(clusters), 6

    begun(clusters, config, "15s")
    found = until_ended(clusters)

    assert found["outcome"] == "Completed", found
    figures = json.loads(found["probe"])
    assert figures["lost"] == 0 < figures["acknowledged"]
    assert figures["gone_after"] <= figures["held_after"] < figures["back_after"]
    assert figures["back_after"] <= figures["open_after"]
    assert found["backMs"] - found["awayMs"] >= 15_000
    assert claims(clusters) == volumes
    assert len(volumes) == cookies
    clusters.wait_for_ready("log")

    begun(clusters, config, "10m")
    clusters.until(
        "log",
        lambda: "heldMs" in clusters.get("log")["status"]["drill"],
        what="a zone that is held",
    )
    clusters.lab.kubectl("delete", "pod", "log-a-0", "-n", clusters.space, "--wait=false")
    found = until_ended(clusters)

    assert found["outcome"] == "Aborted"
    assert "log-a-0" in found["why"]
    assert found["backMs"] - found["awayMs"] < 300_000
    clusters.wait_for_ready("log")
    assert claims(clusters) == volumes
    budgets = clusters.lab.list("poddisruptionbudgets", namespace=clusters.space)
    assert [one["spec"]["maxUnavailable"] for one in budgets] == [1]
