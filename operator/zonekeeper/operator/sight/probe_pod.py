"""The pod that writes to the cluster while one of its zones is away for a drill. Pure.

It runs ``zonekeeper operator probe`` in another zone, once. It is ready when its first entries were
acknowledged. It ends by itself when the zone is back and everything was read back, or at once when
an acknowledged entry is lost. Its last words are its figures. It has the labels of no bookie, so no
Service and no budget counts it. The resource controls it.
"""

import hashlib
from typing import Final

from zonekeeper.operator.cluster import owned_objects, pod_parts, store_access, tls_parts
from zonekeeper.operator.cluster.desired import Desired, Zone
from zonekeeper.operator.kubernetes.api import CLIENT_LABEL, CLUSTER_LABEL, PROBES_LABEL, Json
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.wire.running import seam

PROGRAM: Final = "probe"
CONTAINER: Final = PROGRAM
#: The client of ``spec.tls.clients`` whose certificate it shows, if no Secret is named.
CLIENT: Final = "drill"
_HASH_CHARS: Final = 10


def name_of(cluster: str, token: str) -> str:
    """Give the name of the pod of a drill: another drill has another pod."""
    return f"{cluster}-{PROGRAM}-{hashlib.sha256(token.encode()).hexdigest()[:_HASH_CHARS]}"


def made(
    desired: Desired, resource: Json, drilled: ZoneName, name: str, secret: str | None
) -> Json:
    """Give the pod; ``secret`` has what it shows in place of what autorecovery shows."""
    zone = next(one for one in desired.zones if one.name != drilled)
    body = pod_parts.named(desired, name, program=PROGRAM)
    labels = {
        **pod_parts.labels(desired, program=PROGRAM),
        PROBES_LABEL: desired.name,
        CLIENT_LABEL: desired.name,
    }
    assert CLUSTER_LABEL not in labels, "no budget may count it"
    files = _certificate(desired, secret)
    shown = None if store_access.of_autorecovery(desired.store) is None else secret
    return {
        "metadata": {
            **body["metadata"],
            "labels": labels,
            "ownerReferences": [owned_objects.owner_reference(resource)],
        },
        "spec": {
            "restartPolicy": "Never",
            **pod_parts.NO_TOKEN,
            "nodeSelector": dict(zone.node_labels),
            "securityContext": pod_parts.confinement(desired),
            "containers": [_container(desired, zone, drilled, files)],
            **pod_parts.scheduling(zone.pods),
            **store_access.with_volume(tls_parts.volumes(files), shown),
        },
    }


def lacks(desired: Desired, secret: str | None) -> str | None:
    """Say what it cannot show, so that it could not write; None: it may be able to.

    Bookies take appends of clients alone, and so does a store with ACLs.
    """
    if secret is None and store_access.of_autorecovery(desired.store) is not None:
        return (
            "the probe needs what a client shows to the metadata store: order it with --secret and "
            "a Secret that has that, and tls.crt, tls.key and ca.crt"
        )
    if desired.tls.is_on and _certificate(desired, secret) is None:
        return (
            f"the probe needs the certificate of a client: add {CLIENT} to spec.tls.clients, or "
            "order it with --secret and a Secret that has tls.crt, tls.key and ca.crt"
        )
    return None


def _certificate(desired: Desired, secret: str | None) -> str | None:
    if not desired.tls.is_on or secret is not None:
        return secret if desired.tls.is_on else None
    is_issued = CLIENT in desired.tls.clients
    return tls_parts.client_name(desired.name, CLIENT) if is_issued else None


def _container(desired: Desired, zone: Zone, drilled: ZoneName, files: str | None) -> Json:
    said = {
        seam.METADATA: store_access.address(desired.metadata_uri, desired.store),
        seam.ZONE: str(zone.name),
        seam.HTTP: f"0.0.0.0:{seam.HTTP_PORT}",
        seam.TERMINATION_LOG: seam.TERMINATION_LOG_PATH,
        **tls_parts.variables(files),
    }
    mounts = [*tls_parts.mounts(files), *store_access.mounts(desired.store)]
    container: Json = {
        "name": CONTAINER,
        "image": desired.image,
        "command": [*seam.PROBE_COMMAND, str(drilled)],
        "env": pod_parts.environment(said, {}),
        "ports": [dict(pod_parts.HTTP)],
        **pod_parts.probes(),
        **pod_parts.LAST_WORDS,
        "securityContext": dict(pod_parts.RESTRICTED_CONTAINER),
        **({"volumeMounts": mounts} if mounts else {}),
        **pod_parts.pulling(zone.pods),
    }
    if desired.repair_resources:
        container["resources"] = desired.repair_resources
    return container
