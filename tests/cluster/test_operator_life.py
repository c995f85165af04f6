"""A BookieCluster from its resource to its end, on a real control plane and a real ZooKeeper."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from kazoo.client import KazooClient
from kazoo.protocol.states import ZnodeStat

from tests.cluster.installation import SYSTEM, ZONES, Clusters, acting_pod
from tests.cluster.lab import Lab
from zonekeeper.metadata.formats import cookies

pytestmark = pytest.mark.cluster

#: All that the operator and the controllers make for a cluster, but volumes.
MADE = (
    "statefulsets",
    "deployments",
    "pods",
    "services",
    "serviceaccounts",
    "poddisruptionbudgets",
)


def names(cluster: str) -> list[str]:
    return [f"{cluster}-{zone}-{n}" for zone in ZONES for n in range(3)]


def volumes(cluster: str) -> list[str]:
    return [f"persistentvolumeclaims/data-{name}" for name in names(cluster)]


def registration(clusters: Clusters, store: KazooClient, name: str) -> ZnodeStat:
    """Wait until a bookie is registered: one that lost its session is so again a little later."""
    found = None

    def is_there() -> bool:
        nonlocal found
        found = store.exists(f"/{clusters.space}/ledgers/available/{name}")
        return found is not None

    clusters.until("log", is_there, what=f"{name} registered")
    return found


@contextmanager
def without_zone(lab: Lab, zone: str) -> Iterator[None]:
    """Take a zone's power, and give it back."""
    lab.stop_zone(zone)
    try:
        yield
    finally:
        lab.start_zone(zone)


@pytest.mark.needs_lab
def test_a_resource_becomes_nine_bookies_that_outlive_a_zone_and_leave_their_data(
    new_clusters: Callable[[], Clusters],
    store: KazooClient,
    record_testsuite_property: Callable[[str, object], None],
) -> None:
    clusters = new_clusters()
    root = f"/{clusters.space}/ledgers"

    started = time.monotonic()  # noqa: TID251 measured for the documentation, not asserted
    clusters.apply("log")
    clusters.wait_for_ready("log")
    taken = time.monotonic() - started  # noqa: TID251 as above
    record_testsuite_property("seconds from apply to Ready", round(taken, 1))

    clusters.wait_for_counts("log", {"a": 3, "b": 3, "c": 3})
    assert sorted(store.get_children(f"{root}/cookies")) == names("log")
    for name in names("log"):
        raw, cookie = store.get(f"{root}/cookies/{name}")
        _, zone, ordinal = name.split("-")
        assert str(cookies.parse(raw).location) == f"/{zone}/ud-{ordinal}"
        registered = registration(clusters, store, name)
        assert cookie.czxid < registered.czxid, "the location stood before the registration"
    clusters.wait("log", "LocationsVerified", "True")
    clusters.wait("log", "PolicyPublished", "True")

    with without_zone(clusters.lab, "b"):
        clusters.wait_for_counts("log", {"a": 3, "b": 0, "c": 3})
        ready = clusters.condition("log", "Ready")
        assert ready["status"] == "False"
        assert ready["reason"] in ("BookiesNotReady", "ZoneDown"), "the zone watch may know by now"
        assert "zone b: 0 of 3" in ready["message"]
    clusters.wait_for_ready("log")
    clusters.wait_for_counts("log", {"a": 3, "b": 3, "c": 3})

    clusters.delete("log")
    clusters.until("log", lambda: clusters.left(*MADE) == [], what="nothing left")
    assert clusters.left("persistentvolumeclaims") == volumes("log")
    assert len(store.get_children(f"{root}/cookies")) == 9


@pytest.mark.needs_lab
def test_the_operator_outlives_its_own_zone(new_clusters: Callable[[], Clusters]) -> None:
    clusters = new_clusters()
    clusters.apply("log", bookiesPerZone=1)
    clusters.wait_for_ready("log")
    zone = clusters.lab.get("pod", acting_pod(clusters.lab), namespace=SYSTEM)["spec"][
        "nodeName"
    ].partition("-")[0]

    with without_zone(clusters.lab, zone):
        clusters.until(
            "log", lambda: clusters.ready_in("log").get(zone) == 0, what=f"zone {zone} counted out"
        )
    clusters.wait_for_ready("log")


def test_onDelete_Delete_leaves_nothing(  # noqa: N802 spelled as the field
    new_clusters: Callable[[], Clusters], store: KazooClient
) -> None:
    clusters = new_clusters()
    clusters.apply("gone", onDelete="Delete", bookiesPerZone=1)
    clusters.wait_for_ready("gone")

    clusters.delete("gone")

    assert store.exists(f"/{clusters.space}/ledgers") is None
    assert store.exists(f"/{clusters.space}/ledgers.zonekeeper") is None
    clusters.until(
        "gone",
        lambda: clusters.left(*MADE, "persistentvolumeclaims") == [],
        what="nothing left",
    )


def test_a_cluster_made_again_over_its_volumes_is_the_same_cluster(
    new_clusters: Callable[[], Clusters], store: KazooClient
) -> None:
    clusters = new_clusters()
    clusters.apply("again", bookiesPerZone=1)
    clusters.wait_for_ready("again")
    instance = clusters.get("again")["status"]["instance"]
    cookie = store.get(f"/{clusters.space}/ledgers/cookies/again-a-0")

    clusters.delete("again")
    clusters.apply("again", bookiesPerZone=1)
    clusters.wait_for_ready("again")

    assert clusters.get("again")["status"]["instance"] == instance
    assert store.get(f"/{clusters.space}/ledgers/cookies/again-a-0") == cookie


def test_what_is_changed_or_deleted_by_hand_is_restored(
    new_clusters: Callable[[], Clusters],
) -> None:
    clusters = new_clusters()
    clusters.apply("log", bookiesPerZone=1)
    clusters.wait_for_ready("log")
    pods = [item["metadata"]["uid"] for item in clusters.lab.list("pods", namespace=clusters.space)]

    clusters.lab.kubectl("delete", "service", "log-bookies", "-n", clusters.space)
    clusters.lab.kubectl("delete", "pdb", "log-bookies", "-n", clusters.space)
    clusters.lab.kubectl(
        *("patch", "statefulset", "log-a", "-n", clusters.space, "--type=merge"),
        "--patch=" + '{"metadata":{"labels":{"ours":"kept"}},"spec":{"minReadySeconds":1}}',
    )
    clusters.lab.kubectl("annotate", "sa", "log-bookie", "-n", clusters.space, "theirs=kept")

    clusters.until(
        "log",
        lambda: (
            clusters.left("services", "poddisruptionbudgets")
            == ["poddisruptionbudgets/log-bookies", "services/log-bookies"]
        ),
        what="service and budget restored",
    )
    account = clusters.lab.get("sa", "log-bookie", namespace=clusters.space)
    assert account["metadata"]["annotations"]["theirs"] == "kept"
    now = [item["metadata"]["uid"] for item in clusters.lab.list("pods", namespace=clusters.space)]
    assert now == pods, "no pod was restarted"
