"""The parts that the pods of bookies and of autorecovery processes have in common. Pure.

Every pod keeps to the ``restricted`` pod security standard, has a read-only root filesystem and no
token. Labels, probes and variables are written in one way.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from zonekeeper.operator.cluster.choices import PodUser
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.kubernetes.api import CLUSTER_LABEL, Json
from zonekeeper.operator.shapes.pods import PodFields
from zonekeeper.wire.running import seam

#: The user and group of a process: any but root. A bookie's volume is given to the group.
USER: Final = 65_532

#: Of a ServiceAccount and of a pod: no process needs a token.
NO_TOKEN: Final[Mapping[str, bool]] = {"automountServiceAccountToken": False}

#: The security context of a pod, but for its user.
_RESTRICTED_POD: Final[Mapping[str, object]] = {
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
#: The security context of a container.
RESTRICTED_CONTAINER: Final[Mapping[str, object]] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}

#: Where a container's last words are read. A process that leaves none has the end of its log there.
LAST_WORDS: Final[Mapping[str, str]] = {
    "terminationMessagePath": seam.TERMINATION_LOG_PATH,
    "terminationMessagePolicy": "FallbackToLogsOnError",
}

#: The port at which every process answers probes.
HTTP: Final[Mapping[str, object]] = {
    "name": "http",
    "containerPort": seam.HTTP_PORT,
    "protocol": "TCP",
}


def named(desired: Desired, name: str, *, program: str) -> Json:
    """Give the metadata of an object of this cluster; ``program`` is what it is for."""
    return {
        "metadata": {
            "name": name,
            "namespace": desired.namespace,
            "labels": {**labels(desired, program=program), CLUSTER_LABEL: desired.name},
        }
    }


def labels(desired: Desired, *, program: str) -> Json:
    """Give the labels that Kubernetes recommends."""
    return {
        "app.kubernetes.io/name": f"zonekeeper-{program}",
        "app.kubernetes.io/instance": desired.name,
        "app.kubernetes.io/managed-by": "zonekeeper-operator",
    }


def confinement(desired: Desired, *, has_volumes: bool = False) -> Json:
    """Give the security context of a pod.

    A platform that chooses the user gives it the volumes, too, and refuses a pod that names a user
    or a group which is not of its namespace.
    """
    if desired.pod_user is PodUser.PLATFORM:
        return dict(_RESTRICTED_POD)
    volumes = {"fsGroup": USER, "fsGroupChangePolicy": "OnRootMismatch"} if has_volumes else {}
    return {**_RESTRICTED_POD, "runAsUser": USER, "runAsGroup": USER, **volumes}


def metadata(said: PodFields, own: Json) -> Json:
    """Give the metadata of a pod: what the resource says, and over it what the operator needs."""
    annotations = {"annotations": dict(said.annotations)} if said.annotations else {}
    return {"labels": {**said.labels, **own}, **annotations}


def scheduling(said: PodFields, own_tolerations: Sequence[Json] = ()) -> Json:
    """Give what a pod's fields say of the nodes that take it, and of pulling its image.

    A toleration of the operator's own gives way to one that names the same taint.
    """
    named = {one.get("key") for one in said.tolerations}
    tolerations = [one for one in own_tolerations if one["key"] not in named]
    tolerations += said.tolerations
    secrets = [{"name": name} for name in said.pull_secrets]
    found = {
        "tolerations": tolerations,
        "priorityClassName": said.priority_class,
        "imagePullSecrets": secrets,
    }
    return {name: value for name, value in found.items() if value}


def pulling(said: PodFields) -> Json:
    """Give when a container's image is pulled, if the resource says it."""
    return {"imagePullPolicy": said.pull_policy} if said.pull_policy else {}


def environment(said: Mapping[str, str], from_pod: Mapping[str, str]) -> list[Json]:
    """Give variables: those that are filled in from fields of the pod, then those with values."""
    filled = (
        {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}
        for name, path in from_pod.items()
    )
    return [*filled, *({"name": name, "value": value} for name, value in said.items())]


def pages(desired: Desired) -> dict[str, str]:
    """Give the environment that says where a process serves its pages, and how."""
    by_certificate = {seam.HTTP_TLS: "on"} if desired.network.by_certificate else {}
    return {seam.HTTP: f"0.0.0.0:{seam.HTTP_PORT}", **by_certificate}


def probes(*, over_tls: bool = False) -> Json:
    """Give the probes of a container: is the process ready, and is it alive?

    ``over_tls``: its pages are by certificate. The kubelet shows none, and checks none.
    """
    scheme = {"scheme": "HTTPS"} if over_tls else {}
    return {
        "readinessProbe": _probe(seam.READY_PATH, scheme, period_seconds=2, failures=3),
        "livenessProbe": _probe(seam.ALIVE_PATH, scheme, period_seconds=10, failures=6),
    }


def spread_over_nodes(selector: Mapping[str, str]) -> list[Json]:
    """Let the pods that have these labels stand on different nodes, where that is possible."""
    return [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": dict(selector)},
        }
    ]


def _probe(path: str, scheme: Json, *, period_seconds: int, failures: int) -> Json:
    return {
        "httpGet": {"path": path, "port": "http", **scheme},
        "periodSeconds": period_seconds,
        "timeoutSeconds": 2,
        "failureThreshold": failures,
    }
