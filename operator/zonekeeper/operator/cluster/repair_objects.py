"""The objects that repair a cluster: one Deployment of autorecovery processes a zone. Pure.

A Deployment stands in one zone, so that its processes know their zone and read the nearest copy.
They need no rights to read nodes. Every process watches all zones and may repair any copy: the
Deployments of the zones that are left go on when a zone is lost.

The pods do not carry the label of the cluster. The Service and the disruption budget choose bookies
by it.
"""

from collections.abc import Sequence
from typing import Final

from zonekeeper.operator.cluster import pod_parts, store_access, tls_parts
from zonekeeper.operator.cluster.desired import Desired, Zone
from zonekeeper.operator.kubernetes.api import (
    DEPLOYMENTS,
    REPAIRS_LABEL,
    SERVICE_ACCOUNTS,
    ZONE_LABEL,
    Json,
    ObjectKind,
)
from zonekeeper.wire.running import seam

PROGRAM: Final = "autorecovery"
#: An autorecovery process ends within 20 s of SIGTERM.
TERMINATION_SECONDS: Final = 30
#: A pod on a node that is away is replaced after this time, and not after five minutes.
TOLERATION_SECONDS: Final = 15

_TOLERATIONS: Final[Sequence[Json]] = [
    {
        "key": key,
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": TOLERATION_SECONDS,
    }
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
]


def deployment_name(cluster: str, zone: str) -> str:
    """Give the name of a zone's Deployment."""
    return f"{cluster}-{zone}-{PROGRAM}"


def all_of(desired: Desired) -> tuple[tuple[ObjectKind, Json], ...]:
    """Give the ServiceAccount, and the Deployment of each zone."""
    account = {
        **pod_parts.named(desired, _account(desired), program=PROGRAM),
        **pod_parts.NO_TOKEN,
    }
    deployments = ((DEPLOYMENTS, _deployment(desired, zone)) for zone in desired.zones)
    return ((SERVICE_ACCOUNTS, account), *deployments)


def names(desired: Desired) -> tuple[tuple[ObjectKind, str], ...]:
    """Name what ``all_of`` gives, in its order."""
    deployments = ((DEPLOYMENTS, deployment_name(desired.name, z.name)) for z in desired.zones)
    return ((SERVICE_ACCOUNTS, _account(desired)), *deployments)


def _account(desired: Desired) -> str:
    return f"{desired.name}-{PROGRAM}"


def _deployment(desired: Desired, zone: Zone) -> Json:
    own = {REPAIRS_LABEL: desired.name, ZONE_LABEL: str(zone.name)}
    name = deployment_name(desired.name, zone.name)
    body = pod_parts.named(desired, name, program=PROGRAM)
    body["metadata"]["labels"] |= {ZONE_LABEL: str(zone.name)}
    body["spec"] = {
        "replicas": desired.repairers_per_zone,
        # The new process is ready before the old one ends: a zone is watched all the time.
        "strategy": {
            "type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
        },
        "selector": {"matchLabels": own},
        "template": {
            "metadata": pod_parts.metadata(
                zone.pods, {**pod_parts.labels(desired, program=PROGRAM), **own}
            ),
            "spec": _pod(desired, zone, own),
        },
    }
    return body


def _pod(desired: Desired, zone: Zone, own: Json) -> Json:
    return {
        "serviceAccountName": _account(desired),
        **pod_parts.NO_TOKEN,
        "terminationGracePeriodSeconds": TERMINATION_SECONDS,
        "nodeSelector": dict(zone.node_labels),
        "topologySpreadConstraints": pod_parts.spread_over_nodes(own),
        "securityContext": pod_parts.confinement(desired),
        "containers": [_container(desired, zone)],
        **pod_parts.scheduling(zone.pods, _TOLERATIONS),
        **store_access.with_volume(
            tls_parts.volumes(tls_parts.of_autorecovery(desired)),
            store_access.of_autorecovery(desired.store),
        ),
    }


def _container(desired: Desired, zone: Zone) -> Json:
    secret = tls_parts.of_autorecovery(desired)
    mounts = [*tls_parts.mounts(secret), *store_access.mounts(desired.store)]
    said = {
        seam.METADATA: store_access.address(desired.metadata_uri, desired.store),
        seam.ZONE: str(zone.name),
        **pod_parts.pages(desired),
        **tls_parts.variables(secret),
    }
    from_pod = {seam.NAME: "metadata.name", seam.ADVERTISE: "status.podIP"}
    container: Json = {
        "name": PROGRAM,
        "image": desired.image,
        "command": list(seam.REPAIR_COMMAND),
        "env": [*pod_parts.environment(said, from_pod), *zone.pods.variables],
        "ports": [dict(pod_parts.HTTP)],
        **pod_parts.probes(over_tls=desired.network.by_certificate),
        **pod_parts.LAST_WORDS,
        "securityContext": dict(pod_parts.RESTRICTED_CONTAINER),
        **({"volumeMounts": mounts} if mounts else {}),
        **pod_parts.pulling(zone.pods),
    }
    if desired.repair_resources:
        container["resources"] = desired.repair_resources
    return container
