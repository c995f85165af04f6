"""The pod that gives a bookie an empty disk under its name, in place of one that is lost. Pure.

It has the image, the user, the place and the volumes of the bookie, and runs ``zonekeeper bookie
cookie replace-disk`` until that succeeds. The command refuses a disk that is not empty and a bookie
that is registered. The lock of the data folder keeps the bookie from starting meanwhile. The pod
has the labels of no bookie, so no Service and no budget counts it. The resource controls it.

It names the bookie's pod that refused the disk. A later pod that refuses one has lost another disk.
"""

from dataclasses import replace
from typing import Final

from zonekeeper.operator.cluster import owned_objects
from zonekeeper.operator.kubernetes.api import REFILLS_LABEL, REFUSED_BY, Json
from zonekeeper.operator.sight import formats_pod
from zonekeeper.operator.sight.formats_pod import FormatsPod
from zonekeeper.operator.sight.lost_disks import LostDisk
from zonekeeper.wire.running import seam

_OF_POD: Final = (
    *("serviceAccountName", "automountServiceAccountToken", "nodeSelector", "securityContext"),
    *("tolerations", "imagePullSecrets", "priorityClassName"),
)
_OF_CONTAINER: Final = (
    *("name", "image", "imagePullPolicy", "env", "volumeMounts", "securityContext", "resources"),
    *("terminationMessagePath", "terminationMessagePolicy"),
)


def name_of(bookie: str) -> str:
    """Give the name of the pod for a bookie."""
    return f"{bookie}-refill"


def read(item: Json) -> FormatsPod:
    """Read a pod."""
    told = item["metadata"].get("annotations") or {}
    return replace(formats_pod.read(item), refused_by=str(told.get(REFUSED_BY) or ""))


def made(of_set: Json, lost: LostDisk, resource: Json) -> Json:
    """Give the pod for a lost disk of a bookie of this StatefulSet, which stands."""
    bookie = lost.bookie
    meta, template = resource["metadata"], of_set["spec"]["template"]["spec"]
    bare = next(one for one in template["containers"] if one["name"] == owned_objects.CONTAINER)
    container = {name: bare[name] for name in _OF_CONTAINER if name in bare}
    claims = [
        {"name": volume, "persistentVolumeClaim": {"claimName": f"{volume}-{bookie}"}}
        for volume in owned_objects.claim_volumes(of_set)
    ]
    return {
        "metadata": {
            "name": name_of(bookie),
            "namespace": meta["namespace"],
            "labels": {REFILLS_LABEL: meta["name"]},
            "annotations": {REFUSED_BY: lost.uid},
            "ownerReferences": [owned_objects.owner_reference(resource)],
        },
        "spec": {
            **{name: template[name] for name in _OF_POD if name in template},
            "restartPolicy": "OnFailure",
            "containers": [container | {"command": [*seam.REFILL_COMMAND, bookie]}],
            "volumes": [*template.get("volumes", ()), *claims],
        },
    }
