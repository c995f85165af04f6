"""What Kubernetes may say of a pod or a claim, as changes of the object; and what people do."""

from collections.abc import Awaitable, Callable

from tests.operator.resources import NAME, SPACE
from tests.operator.worlds import World
from zonekeeper.operator.kubernetes.api import BUDGETS, NODES, Json
from zonekeeper.operator.sight import node_sight
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


def cordoning(*, is_cordoned: bool) -> Callable[[World], Awaitable[None]]:
    """Cordon two zones, of which one is opened to a drain, or end that; the other waits for it."""

    async def step(world: World) -> None:
        for zone in "ab":
            node = world.kubernetes.peek(NODES, "", f"node-{zone}")
            assert node is not None
            world.kubernetes.put(NODES, node | {"spec": {"unschedulable": is_cordoned}})
        world.now_ms += node_sight.FRESH_MS

    return step


async def choose_bookies(world: World) -> None:
    """Let a budget of somebody else choose all bookies."""
    selector = {"matchLabels": {"zonekeeper.io/cluster": NAME}}
    meta = {"name": "theirs", "namespace": SPACE}
    world.kubernetes.put(BUDGETS, {"metadata": meta, "spec": {"selector": selector}})


def refuse_an_empty_disk(item: Json) -> None:
    in_trouble(TroubleKind.CRASH_LOOP)(item)
    ended = {"exitCode": 2, "message": f"its data folder is empty: {seam.LOST_DISK}"}
    item["status"]["containerStatuses"][0]["lastState"] = {"terminated": ended}
