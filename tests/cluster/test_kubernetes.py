"""The suite of ``Kubernetes``, against an API server."""

import itertools
import json
from collections.abc import AsyncIterator

import kubernetes
import pytest

from tests.cluster.kubelet.api import Json
from tests.cluster.lab import Lab
from tests.cluster.processes import until
from tests.operator.kubernetes.test_kubernetes import PROBES, Contract, Place
from zonekeeper.operator.kubernetes.api import ObjectKind
from zonekeeper.operator.kubernetes.api_server import ApiServer

pytestmark = pytest.mark.cluster

_numbers = itertools.count(1)


def definition() -> Json:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": PROBES.version, "served": True, "storage": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PROBES.plural}.{PROBES.group}"},
        "spec": {
            "group": PROBES.group,
            "scope": "Namespaced",
            "names": {"plural": PROBES.plural, "kind": PROBES.name},
            "versions": [
                {**version, "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}}
            ],
        },
    }


class LabPlace(Place):
    """Two namespaces of the lab; the other manager is kubectl."""

    def __init__(self, lab: Lab, api: ApiServer) -> None:
        super().__init__(api, f"contract-{next(_numbers)}")
        self._lab = lab
        lab.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            for name in (self.space, self.other_space)
        )

    def put(self, kind: ObjectKind, body: Json) -> None:
        known = self._lab.get(kind.plural, body["metadata"]["name"], namespace=self.space)
        verb = "replace" if known else "create"
        self._lab.kubectl(verb, "-f", "-", stdin=json.dumps(body))

    def delete(self, kind: ObjectKind, name: str) -> None:
        self._lab.kubectl("delete", kind.plural, name, "-n", self.space, "--wait=false")


@pytest.fixture(scope="module")
def with_probes(lab: Lab) -> Lab:
    lab.apply([definition()])
    until(lambda: lab.list(PROBES.plural) == [], what="probes served")
    return lab


@pytest.fixture
async def place(with_probes: Lab, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Place]:
    # A machine that is a pod itself has an API server of its own.
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    # The client read KUBECONFIG when it was imported.
    monkeypatch.setattr(
        kubernetes.config.kube_config,
        "KUBE_CONFIG_DEFAULT_LOCATION",
        str(with_probes.kubeconfig),
    )
    api = ApiServer.from_surroundings()
    yield LabPlace(with_probes, api)
    await api.close()


class TestApiServer(Contract):
    """Against a real one."""
