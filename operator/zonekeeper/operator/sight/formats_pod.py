"""The pod that asks an image which formats it reads, before a bookie gets the image. Pure.

It runs ``zonekeeper bookie formats`` once, has no volume and no token, and touches nothing. Its
last words are the answer. The pod has the labels of no bookie, so no Service and no budget counts
it. The resource controls it.

A finished pod is the operator's memory: while the roll to its image goes on it stays, so that an
operator that was started anew finds the answer.
"""

import hashlib
from dataclasses import dataclass
from typing import Final

from zonekeeper.operator.cluster import owned_objects, pod_parts
from zonekeeper.operator.cluster.desired import Desired, Zone
from zonekeeper.operator.kubernetes.api import FORMATS_LABEL, Json
from zonekeeper.operator.sight import pod_trouble
from zonekeeper.operator.sight.pod_trouble import PodTrouble
from zonekeeper.wire.running import seam

PROGRAM: Final = "formats"
CONTAINER: Final = PROGRAM
#: In place of an exit code: Kubernetes ended the pod, and its container never ran.
NEVER_RAN: Final = -1
_HASH_CHARS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatsPod:
    """Such a pod, as it stands."""

    name: str
    uid: str
    #: None: its container has not ended, or will be started again.
    exit_code: int | None
    #: What the container wrote before it ended.
    words: str
    trouble: PodTrouble | None
    leaving: bool
    #: Its container says that it is at work.
    ready: bool = False
    #: Of a pod that gives an empty disk: the uid of the bookie's pod that refused the disk.
    refused_by: str = ""


def name_of(cluster: str, image: str) -> str:
    """Give the name of the pod for an image: another image has another pod."""
    return f"{cluster}-{PROGRAM}-{hashlib.sha256(image.encode()).hexdigest()[:_HASH_CHARS]}"


def made(desired: Desired, zone: Zone, resource: Json) -> Json:
    """Give the pod for the image that is asked for; it runs in this zone."""
    body = pod_parts.named(desired, name_of(desired.name, desired.image), program=PROGRAM)
    meta = body["metadata"]
    labels = {**pod_parts.labels(desired, program=PROGRAM), FORMATS_LABEL: desired.name}
    reference = owned_objects.owner_reference(resource)
    return {
        "metadata": {**meta, "labels": labels, "ownerReferences": [reference]},
        "spec": {
            "restartPolicy": "Never",
            **pod_parts.NO_TOKEN,
            "nodeSelector": dict(zone.node_labels),
            "securityContext": pod_parts.confinement(desired),
            "containers": [_container(desired)],
        },
    }


def read(item: Json) -> FormatsPod:
    """Read a pod."""
    meta, status = item["metadata"], item.get("status") or {}
    ended = _ended(status)
    return FormatsPod(
        name=meta["name"],
        uid=meta["uid"],
        exit_code=None if ended is None else int(ended.get("exitCode", NEVER_RAN)),
        words="" if ended is None else str(ended.get("message") or ""),
        trouble=pod_trouble.of_pod(item) if ended is None else None,
        leaving=bool(meta.get("deletionTimestamp")),
        ready=any(
            one["type"] == "Ready" and one["status"] == "True"
            for one in status.get("conditions") or ()
        ),
    )


def _ended(status: Json) -> Json | None:
    for container in status.get("containerStatuses") or ():
        ended: Json | None = (container.get("state") or {}).get("terminated")
        if ended:
            return ended
    # Kubernetes may end a pod without its container ever having run: evicted, or its node lost.
    failed = status.get("phase") == "Failed"
    return {"exitCode": NEVER_RAN, "message": status.get("message") or ""} if failed else None


def _container(desired: Desired) -> Json:
    container: Json = {
        "name": CONTAINER,
        "image": desired.image,
        "command": list(seam.FORMATS_COMMAND),
        "env": pod_parts.environment({seam.TERMINATION_LOG: seam.TERMINATION_LOG_PATH}, {}),
        **pod_parts.LAST_WORDS,
        "securityContext": dict(pod_parts.RESTRICTED_CONTAINER),
    }
    if desired.resources:
        container["resources"] = desired.resources
    return container
