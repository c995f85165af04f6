"""The lab: a control plane, nodes in zones, and the folder and network of one run.

Use it as a context manager inside ``namespaces.network()``. Nothing of it outlives the ``with``
but the build cache.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from tests.cluster import toolchain
from tests.cluster.controlplane import ControlPlane
from tests.cluster.images import Images
from tests.cluster.kubelet.api import Json
from tests.cluster.kubelet.volumes import PROVISIONER
from tests.cluster.processes import Process, until
from tests.support.checkout_root import ROOT

STORAGE_CLASS = "folders"
NODE_SECONDS_MAX = 300.0


class Lab:
    """Nodes by name, each in a zone; the API through ``kubectl``."""

    #: The image that the chart installs; None: the chart's own, and every command is the host's.
    image: str | None = None

    def __init__(self, folder: Path, zones: Mapping[str, int]) -> None:
        self.folder = folder
        self.images = Images(folder / "images.json")
        self._binaries = toolchain.build(toolchain.KUBERNETES_PROGRAM)
        self.control_plane = ControlPlane(self._binaries, folder / "control-plane")
        self.kubeconfig = self.control_plane.kubeconfig
        names = [(zone, f"{zone}-{n}") for zone, nodes in zones.items() for n in range(nodes)]
        self._nodes = {name: (zone, 1 + place) for place, (zone, name) in enumerate(names)}
        self._kubelets: dict[str, Process] = {}

    def __enter__(self) -> "Lab":
        try:
            self.control_plane.start()
            self.apply([_storage_class()])
            for name in self._nodes:
                self.start_node(name)
            self.wait_for_nodes(self._nodes)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every process of the lab."""
        for kubelet in self._kubelets.values():
            kubelet.stop(kill=True)
        self.control_plane.stop()

    # ── nodes and zones ──

    def start_node(self, name: str) -> None:
        """Switch a machine on: its kubelet starts what the API binds to it."""
        zone, number = self._nodes[name]
        self._kubelets[name] = Process(
            f"kubelet-{name}",
            [
                *(sys.executable, "-m", "tests.cluster.kubelet"),
                *("--kubeconfig", self.control_plane.kubeconfig),
                *("--name", name, "--zone", zone, "--number", str(number)),
                *("--folder", self.folder / "nodes" / name),
                *("--images", self.images.file),
            ],
            log=self.folder / "logs" / f"kubelet-{name}.log",
            cwd=ROOT,
        )

    @contextmanager
    def one_more(self, zone: str) -> Iterator[str]:
        """Add a machine to a zone, or in a zone of its own, while the block runs; give its name."""
        name = f"{zone}-{len(self.nodes_of(zone))}"
        self._nodes[name] = (zone, 1 + len(self._nodes))
        try:
            self.start_node(name)
            self.wait_for_nodes([name])
            yield name
        finally:
            self.lose_node(name)
            del self._nodes[name]

    def lose_node(self, name: str) -> None:
        """Let a machine be gone for good: it has no power, and Kubernetes forgets it."""
        self.stop_node(name)
        self.kubectl("delete", "node", name, "--ignore-not-found")

    def stop_node(self, name: str) -> None:
        """Take a machine's power: its kubelet and its pods are killed at once."""
        self._kubelets[name].stop(kill=True)

    @contextmanager
    def frozen_kubelet(self, name: str) -> Iterator[None]:
        """Cut a machine off from the API while the block runs: its pods go on as they are.

        The API server takes it for lost after some ten seconds.
        """
        os.kill(self._kubelets[name].pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._kubelets[name].pid, signal.SIGCONT)

    def stop_zone(self, zone: str) -> None:
        """Take the power of every machine of a zone."""
        for name in self.nodes_of(zone):
            self.stop_node(name)

    def start_zone(self, zone: str) -> None:
        """Switch every machine of a zone on again, and wait until they are Ready."""
        for name in self.nodes_of(zone):
            self.start_node(name)
        self.wait_for_nodes(self.nodes_of(zone))

    def nodes_of(self, zone: str) -> list[str]:
        """Give the names of a zone's nodes."""
        return [name for name, (its, _) in self._nodes.items() if its == zone]

    def wait_for_nodes(self, names: Iterable[str]) -> None:
        """Return when all of these nodes are Ready."""
        for name in names:
            until(
                lambda name=name: self._node_ready(name),  # type: ignore[misc] # bound per turn
                what=f"node {name} Ready",
                seconds=NODE_SECONDS_MAX,
            )

    def _node_ready(self, name: str) -> bool:
        node = self.get("node", name)
        conditions = node.get("status", {}).get("conditions", ())
        taints = node.get("spec", {}).get("taints")
        return not taints and any(
            c["type"] == "Ready" and c["status"] == "True" for c in conditions
        )

    # ── the API ──

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """Run kubectl as the administrator; its error text is in the exception."""
        return self._tool(self._binaries / "kubectl", arguments, stdin, check=check)

    def helm(self, *arguments: str) -> str:
        """Run helm as the administrator."""
        return self._tool(toolchain.build(toolchain.HELM_PROGRAM) / "helm", arguments, None)

    def _tool(
        self, tool: Path, arguments: tuple[str, ...], stdin: str | None, *, check: bool = True
    ) -> str:
        done = subprocess.run(
            [tool, *arguments],
            input=stdin,
            env={
                "KUBECONFIG": str(self.kubeconfig),
                "HOME": str(self.folder),
                "PATH": "/usr/bin:/bin",
            },
            check=False,
            capture_output=True,
            text=True,
        )
        if check and done.returncode != 0:
            raise OSError(f"{tool.name} {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout if check else done.stdout + done.stderr

    def apply(self, objects: Iterable[Json]) -> None:
        """Apply objects server-side."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        self.kubectl("apply", "--server-side", "-f", "-", stdin=text)

    def get(self, kind: str, name: str, *, namespace: str = "default") -> Json:
        """Read one object; an empty one if it is not there."""
        text = self.kubectl("get", kind, name, "-n", namespace, "-o", "json", "--ignore-not-found")
        found: Json = json.loads(text) if text else {}
        return found

    def list(self, kind: str, *, namespace: str = "default", selector: str = "") -> list[Json]:
        """Read all objects of a kind."""
        words = [
            "get",
            kind,
            "-n",
            namespace,
            "-o",
            "json",
            *(["-l", selector] if selector else []),
        ]
        items: list[Json] = json.loads(self.kubectl(*words))["items"]
        return items


def _storage_class() -> Json:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": STORAGE_CLASS,
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": PROVISIONER,
        "volumeBindingMode": "WaitForFirstConsumer",
        "reclaimPolicy": "Delete",
    }
