"""The objects that a cluster consists of in Kubernetes, as the operator applies them. Pure.

- One StatefulSet for each zone, so that the zone is known before a pod starts, and planned work
  stays in one zone.
- A headless Service, which names pods before they are ready.
- A ServiceAccount without rights and without a token.
- What repairs the cluster (``repair_objects``).
- NetworkPolicies, unless the resource does without (``network_objects``).
- At rest one PodDisruptionBudget over all bookies. With one budget for each zone, two drains in the
  same second could take a bookie from two zones. While one zone is open to a drain, each other zone
  has a budget of its own that allows no eviction, and the common one is gone (``plan.draining``).

The resource controls all of them, so Kubernetes removes them with the resource. It does not control
volumes: ``onDelete`` says whether they go.
"""

import hashlib
import json
from dataclasses import replace
from typing import Final

from zonekeeper.operator.cluster import (
    network_objects,
    pod_parts,
    repair_objects,
    store_access,
    tls_parts,
)
from zonekeeper.operator.cluster.desired import Desired, Zone
from zonekeeper.operator.kubernetes.api import (
    BOOKIE_CLUSTERS,
    BUDGETS,
    CLUSTER_LABEL,
    GROUP,
    INSTANCE_LABEL,
    RESTART,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    ZONE_LABEL,
    Json,
    ObjectKind,
)
from zonekeeper.operator.shapes import config, quantities
from zonekeeper.operator.shapes.volumes import Volume
from zonekeeper.wire.running import seam

DATA_FOLDER: Final = "/data"
JOURNAL_FOLDER: Final = "/journal"
VOLUME: Final = "data"
JOURNAL_VOLUME: Final = "journal"
PROGRAM: Final = "bookie"
CONTAINER: Final = PROGRAM
#: What of a claim template says what a volume is like.
_OF_VOLUMES: Final = ("resources", "storageClassName")
_FOLDERS: Final = {VOLUME: DATA_FOLDER, JOURNAL_VOLUME: JOURNAL_FOLDER}
#: A bookie ends in less time than this after SIGTERM.
TERMINATION_SECONDS: Final = 60

#: A hash of the object that was applied last, without its template. When a field is dropped, only
#: this differs.
APPLIED: Final = f"{GROUP}/applied"
#: A hash of the template of pods that was applied last. It changes only when the roll reaches it.
TEMPLATE: Final = f"{GROUP}/template"


def set_name(cluster: str, zone: str) -> str:
    """Give the name of a zone's StatefulSet; a pod's name adds ``-`` and the ordinal."""
    return f"{cluster}-{zone}"


def service_name(cluster: str) -> str:
    """Give the name of the Service of the bookies."""
    return f"{cluster}-bookies"


def budget_name(cluster: str, zone: str | None = None) -> str:
    """Give the name of the budget of all bookies, or of that which closes a zone."""
    return f"{cluster}-bookies" if zone is None else f"{cluster}-{zone}-closed"


def claim_name(bookie: str) -> str:
    """Give the name of the claim that a StatefulSet makes for a pod's data."""
    return f"{VOLUME}-{bookie}"


def claim_names(bookie: str) -> tuple[str, ...]:
    """Give the names of all claims that a pod may have."""
    return tuple(f"{volume}-{bookie}" for volume in (VOLUME, JOURNAL_VOLUME))


def names(desired: Desired) -> tuple[tuple[ObjectKind, str], ...]:
    """Name what ``all_of`` gives, in its order: the objects themselves cost much more to make."""
    return (
        (SERVICE_ACCOUNTS, _account(desired)),
        (SERVICES, service_name(desired.name)),
        (BUDGETS, budget_name(desired.name)),
        *((STATEFUL_SETS, set_name(desired.name, zone.name)) for zone in desired.zones),
        *repair_objects.names(desired),
        *network_objects.names(desired),
    )


def all_of(
    desired: Desired, resource: Json, instance: str | None
) -> tuple[tuple[ObjectKind, Json], ...]:
    """Give every object of a cluster, in the order in which they are made.

    ``instance`` is None: the instance is not known yet. Then nothing may be applied.
    """
    bare = [
        (SERVICE_ACCOUNTS, {**_named(desired, _account(desired)), **pod_parts.NO_TOKEN}),
        (SERVICES, _service(desired)),
        (BUDGETS, _budget(desired)),
        *((STATEFUL_SETS, _stateful_set(desired, zone, instance)) for zone in desired.zones),
        *repair_objects.all_of(desired),
        *network_objects.all_of(desired),
    ]
    return tuple((kind, _owned(body, resource)) for kind, body in bare)


def budget(desired: Desired, resource: Json) -> Json:
    """Give the budget of all bookies, as it stands at rest."""
    return _owned(_budget(desired), resource)


def closing_budget(desired: Desired, resource: Json, zone: str) -> Json:
    """Give the budget that lets no bookie of a zone be evicted, also none that is not ready."""
    chosen = {CLUSTER_LABEL: desired.name, ZONE_LABEL: zone}
    body = _named(desired, budget_name(desired.name, zone))
    spec = {
        "maxUnavailable": 0,
        "selector": {"matchLabels": chosen},
        "unhealthyPodEvictionPolicy": "IfHealthyBudget",
    }
    return _owned({**body, "spec": spec}, resource)


def stateful_sets(desired: Desired, resource: Json) -> tuple[Json, ...]:
    """Give the StatefulSets of all zones, in order, to compare and not to apply."""
    made = (_stateful_set(desired, zone, None) for zone in desired.zones)
    return tuple(_owned(body, resource) for body in made)


def with_standing_claims(body: Json, found: Json) -> Json:
    """Give ``body`` with the claim templates of the standing object, because they cannot change.

    Labels, sizes and classes are those that stand. Other volumes need a StatefulSet that is made
    again (``plan.volumes``).
    """
    standing = {
        one["metadata"]["name"]: one
        for one in found.get("spec", {}).get("volumeClaimTemplates") or ()
    }
    if not standing:
        return body
    templates = [
        _as_standing(ours, standing[ours["metadata"]["name"]])
        for ours in body["spec"]["volumeClaimTemplates"]
        if ours["metadata"]["name"] in standing
    ]
    return with_claims(body, templates)


def _as_standing(ours: Json, standing: Json) -> Json:
    found = standing.get("spec", {})
    spec = {name: given for name, given in ours["spec"].items() if name not in _OF_VOLUMES}
    return {
        **ours,
        "metadata": {**ours["metadata"], "labels": standing["metadata"].get("labels", {})},
        "spec": spec | {name: found[name] for name in _OF_VOLUMES if name in found},
    }


def with_claims(body: Json, templates: list[Json]) -> Json:
    """Give a StatefulSet with these claim templates."""
    return {**body, "spec": {**body["spec"], "volumeClaimTemplates": templates}}


def claim_volumes(found: Json) -> dict[str, Volume]:
    """Give the volumes that a StatefulSet makes, by name."""
    return {
        one["metadata"]["name"]: Volume(
            size=str(one["spec"]["resources"]["requests"]["storage"]),
            storage_class=one["spec"].get("storageClassName"),
        )
        for one in found.get("spec", {}).get("volumeClaimTemplates") or ()
    }


def image_of(pod: Json) -> str:
    """Give the image of the bookie of a pod, by the pod's spec; empty: it has no bookie."""
    containers = pod.get("containers") or ()
    return next((str(one["image"]) for one in containers if one["name"] == CONTAINER), "")


def with_replicas(body: Json, count: int) -> Json:
    """Give a StatefulSet with so many replicas."""
    return {**body, "spec": {**body["spec"], "replicas": count}}


def owner_reference(resource: Json) -> Json:
    """Give the reference by which an object says that the resource controls it."""
    return {
        "apiVersion": BOOKIE_CLUSTERS.api_version,
        "kind": BOOKIE_CLUSTERS.name,
        "name": resource["metadata"]["name"],
        "uid": resource["metadata"]["uid"],
        "controller": True,
    }


def taken_over(item: Json, resource: Json) -> list[Json]:
    """Give the owners of an object that the resource controls from now on; nobody controls it."""
    return [*(item["metadata"].get("ownerReferences") or ()), owner_reference(resource)]


def controller_of(item: Json) -> str | None:
    """Give the uid of the object that controls this one; None: no object does."""
    for owner in item["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return str(owner["uid"])
    return None


def _owned(body: Json, resource: Json) -> Json:
    meta = {**body["metadata"], "ownerReferences": [owner_reference(resource)]}
    bare = {**body, "metadata": meta}
    template = body.get("spec", {}).get("template")
    if template is None:
        return {**bare, "metadata": meta | {"annotations": {APPLIED: _hash(bare)}}}
    restart = resource["metadata"].get("annotations", {}).get(RESTART)
    if restart is not None:
        template = restarted(template, restart)
    rest = {name: value for name, value in body["spec"].items() if name != "template"}
    said = {APPLIED: _hash({**bare, "spec": rest}), TEMPLATE: template_hash(template)}
    spec = {**body["spec"], "template": template}
    return {**bare, "metadata": meta | {"annotations": said}, "spec": spec}


def restarted(template: Json, restart: str) -> Json:
    """Give a template whose pods were asked to start anew under this word."""
    meta = template["metadata"]
    return {**template, "metadata": {**meta, "annotations": {RESTART: restart}}}


def template_hash(template: Json) -> str:
    """Name a template: the same template has the same name again."""
    return _hash(template)


def _hash(value: Json) -> str:
    text = json.dumps(value, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _named(desired: Desired, name: str) -> Json:
    return pod_parts.named(desired, name, program=PROGRAM)


def _account(desired: Desired) -> str:
    return f"{desired.name}-bookie"


def _service(desired: Desired) -> Json:
    return {
        **_named(desired, service_name(desired.name)),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {CLUSTER_LABEL: desired.name},
            "ports": [
                {"name": name, "port": port, "targetPort": name, "protocol": "TCP"}
                for name, port in _ports(desired).items()
            ],
        },
    }


def _ports(desired: Desired) -> dict[str, int]:
    """Give the ports of a bookie, by name."""
    lane = {"socket": seam.SOCKET_PORT} if desired.socket_lane else {}
    return {"grpc": seam.GRPC_PORT, "http": seam.HTTP_PORT, **lane}


def _budget(desired: Desired) -> Json:
    return {
        **_named(desired, budget_name(desired.name)),
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
        "serviceName": service_name(desired.name),
        "replicas": desired.bookies_per_zone,
        "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "OnDelete"},
        "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        "selector": {"matchLabels": own},
        "template": {
            "metadata": pod_parts.metadata(
                zone.pods, {**pod_parts.labels(desired, program=PROGRAM), **own}
            ),
            "spec": _pod(desired, zone, own),
        },
        "volumeClaimTemplates": [
            _claim(name, volume, own, instance) for name, volume in new_volumes(desired).items()
        ],
    }
    return body


def volumes(desired: Desired) -> dict[str, Volume]:
    """Give the volumes of each bookie, by name; each has at least this size.

    A volume that stands may be one of the new ones. So none grows while those are smaller.
    """
    size, new = desired.volume.size, desired.new_volume.size
    least = new if quantities.is_larger(size, new) else size
    return _with_journal(desired, replace(desired.volume, size=least))


def new_volumes(desired: Desired) -> dict[str, Volume]:
    """Give the volumes that are made from now on, by name."""
    return _with_journal(desired, desired.new_volume)


def _with_journal(desired: Desired, data: Volume) -> dict[str, Volume]:
    journal = {} if desired.journal is None else {JOURNAL_VOLUME: desired.journal}
    return {VOLUME: data, **journal}


def _claim(name: str, volume: Volume, zone: Json, instance: str | None) -> Json:
    labels = zone if instance is None else {**zone, INSTANCE_LABEL: instance}
    spec: Json = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": volume.size}},
    }
    if volume.storage_class is not None:
        spec["storageClassName"] = volume.storage_class
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
    }


def _pod(desired: Desired, zone: Zone, labels: Json) -> Json:
    return {
        "serviceAccountName": _account(desired),
        **pod_parts.NO_TOKEN,
        "terminationGracePeriodSeconds": TERMINATION_SECONDS,
        "nodeSelector": dict(zone.node_labels),
        "topologySpreadConstraints": pod_parts.spread_over_nodes(labels),
        "securityContext": pod_parts.confinement(desired, has_volumes=True),
        "containers": [_container(desired, zone)],
        **pod_parts.scheduling(zone.pods),
        **({"affinity": zone.pods.affinity} if zone.pods.affinity else {}),
        **store_access.with_volume(
            tls_parts.volumes(tls_parts.of_bookies(desired, zone.name)),
            store_access.of_bookies(desired.store),
        ),
    }


def _container(desired: Desired, zone: Zone) -> Json:
    container: Json = {
        "name": CONTAINER,
        "image": desired.image,
        "command": list(seam.COMMAND),
        "env": _environment(desired, zone),
        "ports": [
            {"name": name, "containerPort": port, "protocol": "TCP"}
            for name, port in _ports(desired).items()
        ],
        **pod_parts.probes(over_tls=desired.network.by_certificate),
        **pod_parts.LAST_WORDS,
        "volumeMounts": [
            *({"name": name, "mountPath": _FOLDERS[name]} for name in volumes(desired)),
            *tls_parts.mounts(tls_parts.of_bookies(desired, zone.name)),
            *store_access.mounts(desired.store),
        ],
        "securityContext": dict(pod_parts.RESTRICTED_CONTAINER),
        **pod_parts.pulling(zone.pods),
    }
    if desired.resources:
        container["resources"] = desired.resources
    return container


def _environment(desired: Desired, zone: Zone) -> list[Json]:
    said = {
        seam.METADATA: store_access.address(desired.metadata_uri, desired.store),
        seam.ZONE: str(zone.name),
        seam.UPGRADE_DOMAINS: str(desired.policy.placement.upgrade_domains),
        seam.DATA: DATA_FOLDER,
        seam.LISTEN: f"0.0.0.0:{seam.GRPC_PORT}",
        **pod_parts.pages(desired),
        seam.TERMINATION_LOG: seam.TERMINATION_LOG_PATH,
    }
    if desired.journal is not None:
        said[seam.JOURNAL] = JOURNAL_FOLDER
    if desired.socket_lane:
        said[seam.LISTEN_SOCKET] = f"0.0.0.0:{seam.SOCKET_PORT}"
    said |= tls_parts.variables(tls_parts.of_bookies(desired, zone.name))
    said |= config.variables(desired.config)
    from_pod = {seam.BOOKIE_ID: "metadata.name", seam.ADVERTISE: "status.podIP"}
    return [*pod_parts.environment(said, from_pod), *zone.pods.variables]
