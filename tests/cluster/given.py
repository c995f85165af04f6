"""A Kubernetes cluster that is there already, in the place of the lab: the suite works in it.

Its nodes are not ours to stop, and its pods have addresses of a network that the tests are not in.
So a test that wants that is skipped here. Pods run real images: ``zonekeeper:0.1.0`` must be known
to the nodes (`make kind` loads it), or ``ZONEKEEPER_IMAGE`` names the repository of another.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster import toolchain
from tests.cluster.images import Images
from tests.cluster.kubelet.api import Json
from tests.cluster.lab import Lab
from tests.cluster.processes import Process, until
from tests.support.checkout_root import ROOT

NOT_HERE = "only the lab can stop nodes and reach pods by their addresses"
METADATA = ROOT / "manifests" / "zookeeper.yaml"
CLIENT_PORT = 2181
#: Where the suite's own ZooKeeper runs.
SPACE = "zonekeeper-suite"


def kubeconfig() -> Path | None:
    """Give the file that names the cluster; None: the lab is used."""
    named = os.environ.get("ZONEKEEPER_KUBECONFIG")
    return Path(named) if named else None


class GivenCluster(Lab):
    """The API of a cluster that is not ours."""

    def __init__(self, folder: Path, kubeconfig: Path) -> None:
        self.folder = folder
        self.kubeconfig = kubeconfig
        self.image = os.environ.get("ZONEKEEPER_IMAGE")
        self._binaries = toolchain.build(toolchain.KUBERNETES_PROGRAM)
        self.images = Images(folder / "images.json")
        self._nodes = {}
        self._kubelets = {}

    def start_node(self, name: str) -> None:
        """Skip the test."""
        pytest.skip(NOT_HERE)

    def stop_node(self, name: str) -> None:
        """Skip the test."""
        pytest.skip(NOT_HERE)

    def nodes_of(self, zone: str) -> list[str]:
        """Skip the test."""
        pytest.skip(NOT_HERE)

    def start_metadata(self) -> str:
        """Run a ZooKeeper in the cluster; give its address for pods."""
        space: Json = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}
        self.apply([space])
        self.kubectl("apply", "-n", SPACE, "-f", str(METADATA))
        self.kubectl("rollout", "status", "deployment/zookeeper", "-n", SPACE, "--timeout=600s")
        return f"zookeeper.{SPACE}.svc:{CLIENT_PORT}"

    @contextmanager
    def forwarded_metadata(self) -> Iterator[str]:
        """Forward that ZooKeeper to a port of this machine; give its address."""
        forwarding = Process(
            "port-forward",
            [
                *(self._binaries / "kubectl", "port-forward", "-n", SPACE),
                *("service/zookeeper", f":{CLIENT_PORT}"),
            ],
            log=self.folder / "logs" / "port-forward.log",
            env={"KUBECONFIG": str(self.kubeconfig)},
        )
        try:
            said = re.compile(r"Forwarding from (127\.0\.0\.1:[0-9]+)")
            until(lambda: said.search(forwarding.log.read_text()), what="the port forwarded")
            found = said.search(forwarding.log.read_text())
            assert found is not None
            yield found[1]
        finally:
            forwarding.stop()
