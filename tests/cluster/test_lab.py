"""The lab behaves as a cluster does, or what is proved on it is worth nothing."""

import urllib.request

import pytest

from tests.cluster.kubelet.api import Json
from tests.cluster.lab import Lab
from tests.cluster.processes import until

pytestmark = pytest.mark.cluster

SERVER = """
import http.server, os, pathlib
marks = pathlib.Path("/data/starts")
marks.write_text((marks.read_text() if marks.exists() else "") + "x")
http.server.test(lambda *a, **k: http.server.SimpleHTTPRequestHandler(*a, directory="/data", **k),
                 port=8000)
"""


def stateful_set(replicas: int) -> list[Json]:
    zone = {"fieldRef": {"fieldPath": "metadata.labels['topology.kubernetes.io/zone']"}}
    container = {
        "name": "server",
        "image": "none",
        "command": ["python3", "-c", SERVER],
        "env": [{"name": "ZONE", "valueFrom": zone}],
        "ports": [{"name": "http", "containerPort": 8000}],
        "readinessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 1},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    labels = {"app": "probe"}
    spread = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": labels},
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "probe"},
            "spec": {"clusterIP": "None", "selector": labels, "ports": [{"port": 8000}]},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {"name": "probe"},
            "spec": {
                "serviceName": "probe",
                "replicas": replicas,
                "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {
                        "containers": [container],
                        "topologySpreadConstraints": [spread],
                        "terminationGracePeriodSeconds": 1,
                    },
                },
                "volumeClaimTemplates": [claim],
                "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete"},
            },
        },
    ]


def ready(lab: Lab) -> int:
    return int(lab.get("statefulset", "probe").get("status", {}).get("readyReplicas", 0))


def starts(lab: Lab, pod: str) -> str:
    address = lab.get("pod", pod)["status"]["podIP"]
    with urllib.request.urlopen(f"http://{address}:8000/starts", timeout=60) as answer:
        return str(answer.read().decode())


def test_pods_run_in_their_zones_and_their_data_survives_the_zone(lab: Lab) -> None:
    lab.apply(stateful_set(3))
    until(lambda: ready(lab) == 3, what="three pods ready")
    pods = {p["metadata"]["name"]: p for p in lab.list("pods")}
    assert sorted(p["spec"]["nodeName"] for p in pods.values()) == ["a-0", "b-0", "c-0"]
    victim = next(name for name, p in pods.items() if p["spec"]["nodeName"] == "b-0")
    assert starts(lab, victim) == "x"

    lab.stop_zone("b")
    until(lambda: ready(lab) == 2, what="two pods ready once the zone is gone")

    lab.start_zone("b")
    until(lambda: ready(lab) == 3, what="three pods ready once the zone is back")
    assert starts(lab, victim) == "xx"

    lab.kubectl("delete", "statefulset", "probe", "--wait=true")
    until(lambda: not lab.list("pods"), what="no pod left")
    until(lambda: not lab.list("pv"), what="no volume left")
