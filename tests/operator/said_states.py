"""What Kubernetes may say of a pod or a claim, as changes of the object."""

from collections.abc import Callable

from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.operator.sight.pod_trouble import TroubleKind
from zonekeeper.wire.running import seam


def set_ready(item: Json, *, ready: bool) -> None:
    item["status"] = {"conditions": [{"type": "Ready", "status": str(ready)}]}


def be_ready(item: Json) -> None:
    set_ready(item, ready=True)


def be_unready(item: Json) -> None:
    set_ready(item, ready=False)


def have_room(capacity: str) -> Callable[[Json], None]:
    """Let a claim that asks for 1Gi have so much."""

    def bind(item: Json) -> None:
        item["spec"] = {"resources": {"requests": {"storage": "1Gi"}}}
        item["status"] = {"phase": "Bound", "capacity": {"storage": capacity}}

    return bind


#: What a kubelet says of a container in trouble; the scheduler speaks in a condition.
WAITING_REASONS = {
    TroubleKind.IMAGE_PULL: "ImagePullBackOff",
    TroubleKind.NOT_STARTED: "CreateContainerConfigError",
    TroubleKind.CRASH_LOOP: "CrashLoopBackOff",
}


def in_trouble(kind: TroubleKind) -> Callable[[Json], None]:
    def begin(item: Json) -> None:
        set_ready(item, ready=False)
        if kind is TroubleKind.UNSCHEDULABLE:
            said = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes fit"}
            item["status"]["conditions"].append(said)
        else:
            waiting = {"reason": WAITING_REASONS[kind]}
            container = {"name": "bookie", "state": {"waiting": waiting}}
            item["status"]["containerStatuses"] = [container]

    return begin


def cordoned(*, is_cordoned: bool) -> Callable[[Json], None]:
    """Let nothing be placed on a node, or end that."""

    def change(item: Json) -> None:
        item["spec"] = {"unschedulable": is_cordoned}

    return change


def refuse_an_empty_disk(item: Json) -> None:
    in_trouble(TroubleKind.CRASH_LOOP)(item)
    ended = {"exitCode": 2, "message": f"its data folder is empty: {seam.LOST_DISK}"}
    item["status"]["containerStatuses"][0]["lastState"] = {"terminated": ended}
