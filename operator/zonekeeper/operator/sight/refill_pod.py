"""The pod that gives a bookie an empty disk under its name, in place of one that is lost. Pure.

It has the image, the user, the place and the volumes of the bookie, and runs ``zonekeeper bookie
cookie replace-disk`` until that succeeds. The command refuses a disk that is not empty and a bookie
that is registered. The lock of the data folder keeps the bookie from starting meanwhile. The pod
has the labels of no bookie, so no Service and no budget counts it. The resource controls it.
"""

from typing import Final

from zonekeeper.operator.cluster import owned_objects
from zonekeeper.operator.kubernetes.api import REFILLS_LABEL, Json
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


def made(of_set: Json, bookie: str, resource: Json) -> Json:
    """Give the pod for a bookie of this StatefulSet, which stands."""
    meta, template = resource["metadata"], of_set["spec"]["template"]["spec"]
    bare = next(one for one in template["containers"] if one["name"] == owned_objects.CONTAINER)
    container = {name: bare[name] for name in _OF_CONTAINER if name in bare}
    claims = [
        {"name": volume, "persistentVolumeClaim": {"claimName": f"{volume}-{bookie}"}}
        for volume in owned_objects.claim_sizes(of_set)
    ]
    return {
        "metadata": {
            "name": name_of(bookie),
            "namespace": meta["namespace"],
            "labels": {REFILLS_LABEL: meta["name"]},
            "ownerReferences": [owned_objects.owner_reference(resource)],
        },
        "spec": {
            **{name: template[name] for name in _OF_POD if name in template},
            "restartPolicy": "OnFailure",
            "containers": [container | {"command": [*seam.REFILL_COMMAND, bookie]}],
            "volumes": [*template.get("volumes", ()), *claims],
        },
    }
