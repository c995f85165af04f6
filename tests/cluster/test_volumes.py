"""Volumes on a real control plane: they grow around their pods, and a lost one is recovered.

One cluster has both, one after the other, because it takes long to build.

The lab has no volume driver. What a driver does, the test does: it says that a claim has grown.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest
from kazoo.client import KazooClient

from tests.cluster.installation import SYSTEM, ZONES, Clusters, acting_pod
from tests.cluster.lab import STORAGE_CLASS, Lab
from tests.cluster.test_roll import SOON, payload, uids
from zonekeeper.placement.base.ids import LedgerId

pytestmark = pytest.mark.cluster

_NAMES: Final = [f"data-log-{zone}-{n}" for zone in ZONES for n in range(3)]

SPEC: Final[dict[str, Any]] = {"policy": SOON, "heal": {"lostVolume": "Recover"}}
LOST: Final = "log-b-1"
LEDGERS, ENTRIES = 12, 20


async def write(clusters: Clusters) -> list[LedgerId]:
    """Write ledgers, so many that each bookie has entries."""
    written = []
    async with clusters.client() as client:
        for _ in range(LEDGERS):
            async with client.create() as writer:
                for entry in range(ENTRIES):
                    await writer.append_and_wait(payload(writer.ledger_id, entry))
            written.append(writer.ledger_id)
    return written


async def members(clusters: Clusters, ledgers: list[LedgerId]) -> set[str]:
    """Read every entry, and name the bookies that the ledgers name."""
    found = set[str]()
    async with clusters.client() as client:
        for ledger in ledgers:
            reader = await client.open(ledger)
            entries = [bytes(entry.payload) async for entry in reader.read_entries()]
            assert entries == [payload(ledger, one) for one in range(ENTRIES)]
            found |= set(reader.metadata.bookies)
    return found


def allow_growth(lab: Lab) -> None:
    said = json.dumps({"allowVolumeExpansion": True})
    lab.kubectl("patch", "storageclass", STORAGE_CLASS, "--type=merge", f"--patch={said}")


def sets(clusters: Clusters) -> Mapping[str, tuple[str, str]]:
    """Give uid and volume size of each StatefulSet."""
    return {
        item["metadata"]["name"]: (
            item["metadata"]["uid"],
            item["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"],
        )
        for item in clusters.lab.list("statefulsets", namespace=clusters.space)
    }


def asked(clusters: Clusters) -> Mapping[str, str]:
    """Give what each claim asks for."""
    return {
        item["metadata"]["name"]: item["spec"]["resources"]["requests"]["storage"]
        for item in clusters.lab.list("pvc", namespace=clusters.space)
    }


def expand(clusters: Clusters) -> None:
    """Do what a driver does: say of each claim that it has what it asks for."""
    for name, size in asked(clusters).items():
        capacity = {"capacity": {"storage": size}}
        claim = clusters.lab.get("pvc", name, namespace=clusters.space)
        volume = claim["spec"]["volumeName"]
        for kind, which, space, patch, part in (
            ("pv", volume, "default", {"spec": capacity}, ()),
            ("pvc", name, clusters.space, {"status": capacity}, ("--subresource=status",)),
        ):
            clusters.lab.kubectl(
                *("patch", kind, which, "-n", space, "--type=merge", *part),
                f"--patch={json.dumps(patch)}",
            )


def finalize(clusters: Clusters, name: str, *finalizers: str) -> None:
    """Let a StatefulSet have these finalizers of others."""
    said = json.dumps({"metadata": {"finalizers": [*finalizers]}})
    clusters.lab.kubectl(
        "patch", "statefulset", name, "-n", clusters.space, "--type=merge", f"--patch={said}"
    )


def is_leaving(clusters: Clusters, name: str) -> bool:
    """Is a StatefulSet deleted, and its pods are its no more?"""
    found = clusters.lab.get("statefulset", name, namespace=clusters.space)
    meta = found.get("metadata", {})
    return bool(meta.get("deletionTimestamp")) and "orphan" not in meta["finalizers"]


@pytest.mark.needs_lab
def test_nine_volumes_grow_around_their_pods_and_a_lost_one_is_recovered(
    new_clusters: Callable[[], Clusters], store: KazooClient
) -> None:
    clusters = new_clusters()
    lab = clusters.lab
    clusters.apply("log", **SPEC)
    clusters.wait_for_ready("log")
    before, pods = sets(clusters), uids(clusters)
    with pytest.raises(OSError, match=r"kubectl"):
        clusters.apply("log", **SPEC, storage={"size": "512Mi"})
    clusters.apply("log", **SPEC, storage={"size": "2Gi"})
    refused = clusters.wait("log", "Legal", "False", "Blocked")
    assert f"storage class {STORAGE_CLASS} does not let its volumes grow" in refused["message"]

    # A finalizer of somebody else keeps one StatefulSet in the midst of its deletion.
    finalize(clusters, "log-a", "lab.zonekeeper.io/held")
    allow_growth(lab)
    clusters.until("log", lambda: is_leaving(clusters, "log-a"), what="log-a is deleted alone")
    lab.kubectl("delete", "pod", acting_pod(lab), "-n", SYSTEM, "--grace-period=0", "--force")
    finalize(clusters, "log-a")
    clusters.until(
        "log",
        lambda: [size for _, size in sets(clusters).values()] == ["2Gi"] * len(ZONES),
        what="every StatefulSet made again",
    )
    assert asked(clusters) == dict.fromkeys(_NAMES, "2Gi")
    clusters.wait("log", "VolumesReady", "False", "VolumesGrowing")
    expand(clusters)

    clusters.wait("log", "VolumesReady", "True")
    clusters.wait("log", "UpToDate", "True")
    clusters.wait_for_ready("log")
    assert uids(clusters) == pods, "no pod was deleted"
    assert not {uid for uid, _ in before.values()} & {uid for uid, _ in sets(clusters).values()}
    kept = lab.list("controllerrevisions", namespace=clusters.space)
    assert not [one for one in kept if "statefulSet" in (one.get("data") or {})]

    # A claim is deleted under a running bookie, and then its pod.
    written = asyncio.run(write(clusters))
    assert LOST in asyncio.run(members(clusters, written))
    cookie = f"/{clusters.space}/ledgers/cookies/{LOST}"
    first = store.exists(cookie).czxid
    for kind, name in (("pvc", f"data-{LOST}"), ("pod", LOST)):
        lab.kubectl("delete", kind, name, "-n", clusters.space, "--wait=false")
    said = clusters.wait("log", "VolumesReady", "False", "VolumeLost")
    assert said["message"].startswith(f"{LOST}: its disk is empty")

    clusters.wait("log", "VolumesReady", "True")
    clusters.wait_for_ready("log")
    assert store.exists(cookie).czxid != first, "it is a new bookie"
    assert LOST not in asyncio.run(members(clusters, written))
    assert [name for name, uid in uids(clusters).items() if uid != pods[name]] == [LOST]
    clusters.delete("log")
