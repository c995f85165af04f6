"""zonekeeper in the lab, as a user installs it: the chart, applied; and resources of its kind.

A resource is the sample with a few fields changed. So clusters have TLS, from the operator's own
authority, unless a test asks for another mode; and a test's client has a certificate as people get
one.
"""

import asyncio
import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import yaml

from tests.cluster.kubelet.api import Json
from tests.cluster.lab import Lab
from tests.cluster.processes import until
from tests.support.checkout_root import ROOT
from zonekeeper.client.api import client as clients
from zonekeeper.client.api.client import Client
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.operator.cluster import tls_parts
from zonekeeper.operator.lead import lease_objects
from zonekeeper.wire.grpc.tls import TlsFiles

CHART = ROOT / "charts" / "zonekeeper"
SYSTEM = "zonekeeper-system"
RELEASE = "zonekeeper"
ZONES = ("a", "b", "c")
SAMPLE: Final = ROOT / "manifests" / "samples" / "bookiecluster.yaml"
#: What a resource says that is to have no certificates.
PLAINTEXT: Final = {"mode": "Plaintext"}

#: On a machine under load; a cluster that comes up at all does so in a fraction of it.
READY_SECONDS_MAX = 600.0


def namespace(name: str) -> Json:
    """Give a namespace whose pods keep to the strictest security standard."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def install(lab: Lab, chart: Path = CHART) -> None:
    """Install the operator as the documentation says; returns when it is available."""
    lab.apply([namespace(SYSTEM)])
    lab.helm("install", RELEASE, str(chart), *helm_flags(lab))
    lab.kubectl(
        *("wait", "--for=condition=Established", "crd/bookieclusters.zonekeeper.io"),
        "--timeout=600s",
    )


def helm_flags(lab: Lab, space: str = SYSTEM) -> list[str]:
    """Give the flags with which helm waits until the operator's replicas are available."""
    image = [] if lab.image is None else ["--set", f"image.repository={lab.image}"]
    return ["--namespace", space, "--wait", "--timeout", f"{READY_SECONDS_MAX:.0f}s", *image]


def holder(lab: Lab) -> str:
    """Name the holder of the operators' Lease; "": nobody."""
    found = lab.get("lease", lease_objects.LEASE_NAME).get("spec", {})
    return str(found.get("holderIdentity", ""))


def settled_holder(lab: Lab) -> str:
    """Wait until a pod that stays holds the operators' Lease, and name that holder.

    While an installation is made anew, the Lease is held by a pod that is about to leave, and for a
    moment by nobody.
    """
    seen: list[str] = []

    def held() -> bool:
        seen.append(holder(lab))
        return seen[-1] != "" and _stays(lab, pod_of(seen[-1]))

    until(held, what="a pod that stays holds the operators' Lease")
    return seen[-1]


def pod_of(holder_name: str) -> str:
    """Name the pod of a holder of the Lease."""
    return holder_name.split("_")[1]


def acting_pod(lab: Lab) -> str:
    """Wait until a pod of the operator that stays acts, and name it."""
    return pod_of(settled_holder(lab))


def _stays(lab: Lab, pod: str) -> bool:
    about = lab.get("pod", pod, namespace=SYSTEM).get("metadata")
    return about is not None and "deletionTimestamp" not in about


def resource(name: str, space: str, uri: str, **spec: object) -> Json:
    """Give the sample under another name and root; ``spec`` changes it."""
    item: Json = yaml.safe_load(SAMPLE.read_text())
    item["metadata"] = {"name": name, "namespace": space}
    # The lab's nodes have no room of gigabytes to give away.
    item["spec"] |= {"metadata": {"uri": uri}, "storage": {"size": "1Gi"}, **spec}
    return item


class Clusters:
    """BookieClusters of one namespace, as ``kubectl`` shows them."""

    def __init__(self, lab: Lab, space: str, uri: str) -> None:
        self.lab = lab
        self.space = space
        self.uri = uri
        self._files: dict[str, TlsFiles] = {}

    def apply(self, name: str, *, uri: str | None = None, **spec: object) -> None:
        """Apply a resource; ``spec`` changes it."""
        self.lab.apply([resource(name, self.space, self.uri if uri is None else uri, **spec)])

    @asynccontextmanager
    async def client(
        self, name: str = "log", config: ClientConfig | None = None
    ) -> AsyncIterator[Client]:
        """Give a client of a cluster with a certificate of its own."""
        files = await asyncio.to_thread(self.client_files, name)
        given = dataclasses.replace(config or ClientConfig(), tls=files)
        async with clients.connect(self.uri, given) as client:
            yield client

    def client_files(self, name: str = "log") -> TlsFiles:
        """Give the files of a client; they are made once for a cluster, as people make them."""
        if name not in self._files:
            self._files[name] = self.new_client_files(name, "tests")
        return self._files[name]

    def new_client_files(self, name: str, client: str) -> TlsFiles:
        """Ask ``zonekeeper operator client-cert`` for the files of a client."""
        folder = self.lab.folder / "clients" / self.space / name / client
        self.zonekeeper(
            *("operator", "client-cert", client, "--cluster", name),
            *("-n", self.space, "--to", str(folder)),
        )
        return tls_files(folder)

    def zonekeeper(self, *words: str, stdin: str | None = None) -> str:
        """Run a command with the administrator's rights, and give what it says."""
        done = subprocess.run(
            [sys.executable, "-m", "zonekeeper.shell", *words],
            input=stdin,
            env={**os.environ, "KUBECONFIG": str(self.lab.kubeconfig)},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def get(self, name: str) -> Json:
        """Read a resource; an empty object if it is gone."""
        return self.lab.get("bookiecluster", name, namespace=self.space)

    def condition(self, name: str, kind: str) -> Json:
        """Read one condition; an empty object until there is one."""
        found = self.get(name).get("status", {}).get("conditions", ())
        return next((dict(item) for item in found if item["type"] == kind), {})

    def ready_in(self, name: str) -> Mapping[str, int]:
        """Give the ready bookies by zone."""
        zones = self.get(name).get("status", {}).get("zones", ())
        return {zone["name"]: zone["ready"] for zone in zones}

    def wait(self, name: str, kind: str, status: str, reason: str = "") -> Json:
        """Wait for a condition, and give it as it was when it held: it may be another soon."""
        found: Json = {}

        def holds() -> bool:
            nonlocal found
            found = self.condition(name, kind)
            return found.get("status") == status and reason in ("", found.get("reason"))

        self.until(name, holds, what=f"{name}: {kind}={status} {reason}")
        return found

    def wait_for_ready(self, name: str) -> None:
        """Wait until all bookies of a cluster are ready."""
        self.wait(name, "Ready", "True")

    def wait_for_counts(self, name: str, ready: Mapping[str, int]) -> None:
        """Wait until so many bookies are ready in each zone: each may miss a probe meanwhile."""
        self.until(name, lambda: self.ready_in(name) == ready, what=f"{name}: ready {ready}")

    def until(self, name: str, condition: Callable[[], object], *, what: str) -> None:
        """Wait for a condition; what the resource says then is in the error."""
        try:
            until(condition, what=what, seconds=READY_SECONDS_MAX)
        except Exception as error:
            status = json.dumps(self.get(name).get("status", {}), indent=1)
            raise AssertionError(f"{error}\n{status}\n{self.logs()}") from error

    def delete(self, name: str) -> None:
        """Delete a resource and wait until it is gone."""
        self.lab.kubectl("delete", "bookiecluster", name, "-n", self.space, "--timeout=600s")
        self._files.pop(name, None)  # its authority goes with it

    def left(self, *kinds: str) -> list[str]:
        """Name what objects of these kinds are there, as ``kind/name``."""
        return sorted(
            f"{kind}/{item['metadata']['name']}"
            for kind in kinds
            for item in self.lab.list(kind, namespace=self.space)
            if item["metadata"]["name"] not in ("default", "kube-root-ca.crt")
        )

    def events(self, name: str) -> list[Json]:
        """Read the events about a resource."""
        return [
            item
            for item in self.lab.list("events", namespace=self.space)
            if item["involvedObject"]["name"] == name
            and item["involvedObject"]["kind"] == "BookieCluster"
        ]

    def logs(self) -> str:
        """Give the ends of the operator's and of a bookie's log, for an error."""
        logs = sorted(self.lab.folder.glob("nodes/*/pods/*/*.log"))
        kept = [log for log in logs if log.stem == "operator"][-1:]
        kept += [log for log in logs if log.stem == "bookie"][-2:]
        kept += [log for log in logs if log.stem == "autorecovery"][-3:]
        ends = [log.read_text(errors="replace").splitlines()[-25:] for log in kept]
        return "\n".join(
            "\n".join([f"--- {log}", *end]) for log, end in zip(kept, ends, strict=True)
        )


def tls_files(folder: Path) -> TlsFiles:
    """Name the files of a folder as a Secret names them."""
    return TlsFiles(
        authority=folder / tls_parts.AUTHORITIES,
        certificate=folder / tls_parts.CERTIFICATE,
        key=folder / tls_parts.KEY,
    )
