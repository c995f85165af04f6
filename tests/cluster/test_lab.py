"""The lab behaves as a cluster does, or what is proved on it is worth nothing."""

import urllib.request
from pathlib import Path

import pytest

from tests.cluster.kubelet.api import Json
from tests.cluster.lab import Lab
from tests.cluster.processes import until

pytestmark = [pytest.mark.cluster, pytest.mark.needs_lab]

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


def own_volumes(lab: Lab) -> list[Json]:
    """Give the volumes of this module's namespace: clusters of other tests leave theirs."""
    return [one for one in lab.list("pv") if one["spec"]["claimRef"]["namespace"] == "default"]


def test_pods_run_in_their_zones_and_their_data_survives_the_zone(lab: Lab) -> None:
    lab.apply(stateful_set(3))
    until(lambda: ready(lab) == 3, what="three pods ready")
    pods = {p["metadata"]["name"]: p for p in lab.list("pods")}
    on = {pod["spec"]["nodeName"]: name for name, pod in pods.items()}
    for zone in "abc":
        assert len(on.keys() & set(lab.nodes_of(zone))) == 1, "zone a has two nodes, either serves"
    victim = on["b-0"]
    assert starts(lab, victim) == "x"

    lab.stop_zone("b")
    until(lambda: ready(lab) == 2, what="two pods ready once the zone is gone")

    lab.start_zone("b")
    until(lambda: ready(lab) == 3, what="three pods ready once the zone is back")
    assert starts(lab, victim) == "xx"

    lab.kubectl("delete", "statefulset", "probe", "--wait=true")
    until(lambda: not lab.list("pods"), what="no pod left")
    until(lambda: not own_volumes(lab), what="no volume left")


def pod(name: str, image: str, script: str, **spec: object) -> Json:
    container = {"name": "main", "image": image, "command": ["sh", "-c", script]}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 1, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def container_of(lab: Lab, name: str) -> Json:
    found: list[Json] = lab.get("pod", name).get("status", {}).get("containerStatuses", [])
    return found[0] if found else {"state": {}, "lastState": {}}


def test_an_image_is_what_the_lab_says_and_a_container_leaves_its_last_words(
    lab: Lab, tmp_path: Path
) -> None:
    program = tmp_path / "bin" / "which-image"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nprintf '%s' other >/dev/termination-log\nexit $1\n")
    program.chmod(0o755)
    lab.images.put("other:1", tmp_path)
    lab.apply(
        [
            pod("once", "other:1", "which-image 0", restartPolicy="Never"),
            pod("again", "other:1", "which-image 3"),
            pod("pulled", "missing:1", "which-image 0"),
        ]
    )

    until(lambda: lab.get("pod", "once")["status"]["phase"] == "Succeeded", what="once has ended")
    ended = container_of(lab, "once")["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"], ended["message"]) == (0, "Completed", "other")

    def waiting(name: str, reason: str) -> bool:
        return bool(container_of(lab, name)["state"].get("waiting", {}).get("reason") == reason)

    until(lambda: waiting("again", "CrashLoopBackOff"), what="again waits to be started again")
    until(lambda: container_of(lab, "again")["restartCount"] > 1, what="again is started again")
    last = container_of(lab, "again")["lastState"]["terminated"]
    assert (last["exitCode"], last["reason"], last["message"]) == (3, "Error", "other")

    until(lambda: waiting("pulled", "ImagePullBackOff"), what="a pull fails")
    lab.images.put("missing:1", tmp_path)
    until(lambda: container_of(lab, "pulled")["restartCount"] > 0, what="the pull goes well")
    lab.kubectl("delete", "pod", "once", "again", "pulled", "--wait=true")


#: A plain server of files: Python's own command asks the DNS for a name first.
SHOWING = """
import http.server, os, socketserver
os.chdir('/shown')
socketserver.TCPServer(('', 8000), http.server.SimpleHTTPRequestHandler).serve_forever()
"""


def secret(name: str, **texts: str) -> Json:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": texts}


def test_a_changed_secret_reaches_a_pod_that_runs_and_a_part_of_one_does_not(lab: Lab) -> None:
    told = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "told"}}
    lab.apply([secret("own", key="one"), {**told, "data": {"word": "one"}}])
    sources = [{"secret": {"name": "own"}}, {"configMap": {"name": "told"}}]
    shown = pod("shown", "none", f'exec python3 -c "{SHOWING}"')
    shown["spec"]["volumes"] = [
        {"name": "own", "secret": {"secretName": "own"}},
        {"name": "all", "projected": {"sources": sources}},
    ]
    shown["spec"]["containers"][0]["volumeMounts"] = [
        {"name": "own", "mountPath": "/shown/own", "readOnly": True},
        {"name": "all", "mountPath": "/shown/all", "readOnly": True},
        {"name": "own", "mountPath": "/shown/part", "subPath": "key", "readOnly": True},
    ]
    lab.apply([shown])

    def read(path: str) -> str:
        address = lab.get("pod", "shown")["status"]["podIP"]
        with urllib.request.urlopen(f"http://{address}:8000/{path}", timeout=60) as answer:
            return str(answer.read().decode())

    until(lambda: read("own/key") == read("all/key") == "one", what="a pod shows a secret")

    lab.apply([secret("own", key="two"), {**told, "data": {"word": "two"}}])
    until(lambda: read("own/key") == read("all/key") == "two", what="the secret has changed")
    until(lambda: read("all/word") == "two", what="the config map has changed")
    assert read("part") == "one"
    assert container_of(lab, "shown")["restartCount"] == 0
    lab.kubectl("delete", "pod", "shown", "--wait=true")
