"""The objects that a cluster consists of in Kubernetes, as the operator applies them. Pure.

- One StatefulSet for each zone, so that the zone is known before a pod starts, and planned work
  stays in one zone.
- A headless Service, which names pods before they are ready.
- A ServiceAccount without rights and without a token.
- One PodDisruptionBudget over all bookies. With one budget for each zone, two drains in the same
  second could take a bookie from two zones.

The resource controls all of them, so Kubernetes removes them with the resource. It does not control
volumes: ``onDelete`` says whether they go.
"""

import hashlib
import json
from typing import Final

from zonekeeper.operator.cluster.desired import Desired, Zone
from zonekeeper.operator.kubernetes.api import (
    BOOKIE_CLUSTERS,
    BUDGETS,
    CLUSTER_LABEL,
    GROUP,
    INSTANCE_LABEL,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    ZONE_LABEL,
    Json,
    ObjectKind,
)
from zonekeeper.wire.running import seam

DATA_FOLDER: Final = "/data"
VOLUME: Final = "data"
CONTAINER: Final = "bookie"
#: A bookie ends in less time than this after SIGTERM.
TERMINATION_SECONDS: Final = 60
#: The user and group of a bookie's process: any but root. Its volume is given to the group.
USER: Final = 65_532

#: A hash of the object that was applied last. When a field is dropped, only this differs.
APPLIED: Final = f"{GROUP}/applied"


def set_name(cluster: str, zone: str) -> str:
    """Give the name of a zone's StatefulSet; a pod's name adds ``-`` and the ordinal."""
    return f"{cluster}-{zone}"


def claim_name(bookie: str) -> str:
    """Give the name of the claim that a StatefulSet makes for a pod."""
    return f"{VOLUME}-{bookie}"


def all_of(
    desired: Desired, resource: Json, instance: str | None
) -> tuple[tuple[ObjectKind, Json], ...]:
    """Give every object of a cluster, in the order in which they are made.

    ``instance`` is None: the instance is not known yet. Then only the names may be used, and
    nothing may be applied.
    """
    bare = [
        (SERVICE_ACCOUNTS, {**_named(desired, f"{desired.name}-bookie"), **_NO_TOKEN}),
        (SERVICES, _service(desired)),
        (BUDGETS, _budget(desired)),
        *((STATEFUL_SETS, _stateful_set(desired, zone, instance)) for zone in desired.zones),
    ]
    return tuple((kind, _owned(body, resource)) for kind, body in bare)


def with_standing_claims(body: Json, found: Json) -> Json:
    """Give ``body`` with the claim labels of the standing object, because they cannot change."""
    standing = found.get("spec", {}).get("volumeClaimTemplates")
    if not standing:
        return body
    templates = [
        {**ours, "metadata": {**ours["metadata"], "labels": theirs["metadata"].get("labels", {})}}
        for ours, theirs in zip(body["spec"]["volumeClaimTemplates"], standing, strict=True)
    ]
    return {**body, "spec": {**body["spec"], "volumeClaimTemplates": templates}}


_NO_TOKEN: Final = {"automountServiceAccountToken": False}


def _owned(body: Json, resource: Json) -> Json:
    owner = {
        "apiVersion": BOOKIE_CLUSTERS.api_version,
        "kind": BOOKIE_CLUSTERS.name,
        "name": resource["metadata"]["name"],
        "uid": resource["metadata"]["uid"],
        "controller": True,
    }
    meta = {**body["metadata"], "ownerReferences": [owner]}
    text = json.dumps({**body, "metadata": meta}, sort_keys=True)
    meta["annotations"] = {APPLIED: hashlib.sha256(text.encode()).hexdigest()[:16]}
    return {**body, "metadata": meta}


def _labels(desired: Desired) -> Json:
    return {
        "app.kubernetes.io/name": "zonekeeper-bookie",
        "app.kubernetes.io/instance": desired.name,
        "app.kubernetes.io/managed-by": "zonekeeper-operator",
        CLUSTER_LABEL: desired.name,
    }


def _named(desired: Desired, name: str) -> Json:
    labels = _labels(desired)
    return {"metadata": {"name": name, "namespace": desired.namespace, "labels": labels}}


def _service_name(desired: Desired) -> str:
    return f"{desired.name}-bookies"


def _service(desired: Desired) -> Json:
    return {
        **_named(desired, _service_name(desired)),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {CLUSTER_LABEL: desired.name},
            "ports": [
                {"name": "grpc", "port": seam.GRPC_PORT, "targetPort": "grpc", "protocol": "TCP"},
                {"name": "http", "port": seam.HTTP_PORT, "targetPort": "http", "protocol": "TCP"},
            ],
        },
    }


def _budget(desired: Desired) -> Json:
    return {
        **_named(desired, f"{desired.name}-bookies"),
        "spec": {
            "maxUnavailable": 1,
            "selector": {"matchLabels": {CLUSTER_LABEL: desired.name}},
            # A bookie that never becomes ready must not keep its node from being drained.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }


def _stateful_set(desired: Desired, zone: Zone, instance: str | None) -> Json:
    own = {CLUSTER_LABEL: desired.name, ZONE_LABEL: str(zone.name)}
    body = _named(desired, set_name(desired.name, zone.name))
    body["metadata"]["labels"] |= own
    body["spec"] = {
        "serviceName": _service_name(desired),
        "replicas": desired.bookies_per_zone,
        "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "OnDelete"},
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        "selector": {"matchLabels": own},
        "template": {
            "metadata": {"labels": {**_labels(desired), **own}},
            "spec": _pod(desired, zone, own),
        },
        "volumeClaimTemplates": [_claim(desired, own, instance)],
    }
    return body


def _claim(desired: Desired, zone: Json, instance: str | None) -> Json:
    labels = zone if instance is None else {**zone, INSTANCE_LABEL: instance}
    spec: Json = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": desired.storage_size}},
    }
    if desired.storage_class is not None:
        spec["storageClassName"] = desired.storage_class
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": VOLUME, "labels": labels},
        "spec": spec,
    }


def _pod(desired: Desired, zone: Zone, labels: Json) -> Json:
    return {
        "serviceAccountName": f"{desired.name}-bookie",
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": TERMINATION_SECONDS,
        "nodeSelector": dict(zone.node_labels),
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": labels},
            }
        ],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(desired, zone)],
    }


def _container(desired: Desired, zone: Zone) -> Json:
    container: Json = {
        "name": CONTAINER,
        "image": desired.image,
        "command": list(seam.COMMAND),
        "env": _environment(desired, zone),
        "ports": [
            {"name": "grpc", "containerPort": seam.GRPC_PORT, "protocol": "TCP"},
            {"name": "http", "containerPort": seam.HTTP_PORT, "protocol": "TCP"},
        ],
        "readinessProbe": _probe(seam.READY_PATH, period_seconds=2, failures=3),
        "livenessProbe": _probe(seam.ALIVE_PATH, period_seconds=10, failures=6),
        "volumeMounts": [{"name": VOLUME, "mountPath": DATA_FOLDER}],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
    }
    if desired.resources:
        container["resources"] = desired.resources
    return container


def _environment(desired: Desired, zone: Zone) -> list[Json]:
    from_pod = {
        seam.BOOKIE_ID: "metadata.name",
        seam.ADVERTISE: "status.podIP",
    }
    said = {
        seam.METADATA: desired.metadata_uri,
        seam.ZONE: str(zone.name),
        seam.UPGRADE_DOMAINS: str(desired.policy.placement.upgrade_domains),
        seam.DATA: DATA_FOLDER,
        seam.LISTEN: f"0.0.0.0:{seam.GRPC_PORT}",
        seam.HTTP: f"0.0.0.0:{seam.HTTP_PORT}",
    }
    return [
        *(
            {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}
            for name, path in from_pod.items()
        ),
        *({"name": name, "value": value} for name, value in said.items()),
    ]


def _probe(path: str, *, period_seconds: int, failures: int) -> Json:
    return {
        "httpGet": {"path": path, "port": "http"},
        "periodSeconds": period_seconds,
        "timeoutSeconds": 2,
        "failureThreshold": failures,
    }
