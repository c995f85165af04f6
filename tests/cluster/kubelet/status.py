"""A pod's status as the API shows it, from what its containers do. Pure."""

from dataclasses import dataclass, field

from tests.cluster.kubelet.api import Json


@dataclass(slots=True)
class ContainerState:
    """What one container does now, and what it did before."""

    name: str
    image: str
    restarts: int = 0
    started: bool = False
    ready: bool = False
    pid: int | None = None
    since: str | None = None
    waiting: str | None = "ContainerCreating"
    message: str = ""
    exit_code: int | None = None
    #: What the API shows of the run that ended last; None: there was none.
    ended: Json | None = None

    def end(self, exit_code: int, words: str, now: str) -> None:
        """Note that the container's process has ended, with its last words."""
        self.pid, self.ready, self.started = None, False, False
        self.exit_code = exit_code
        reason = "Completed" if exit_code == 0 else "Error"
        times = {"startedAt": self.since, "finishedAt": now}
        self.ended = {"exitCode": exit_code, "reason": reason, "message": words or None, **times}

    def as_status(self) -> Json:
        """Give its entry in ``containerStatuses``; exactly one member of ``state`` is set."""
        state: Json = {"running": None, "waiting": None, "terminated": None}
        if self.pid is not None:
            state["running"] = {"startedAt": self.since}
        elif self.waiting is not None:
            state["waiting"] = {"reason": self.waiting, "message": self.message}
        else:
            state["terminated"] = self.ended
        last = {} if self.ended is None or state["terminated"] else {"terminated": self.ended}
        return {
            "name": self.name,
            "image": self.image,
            "imageID": "",
            "ready": self.ready,
            "started": self.started,
            "restartCount": self.restarts,
            "state": state,
            "lastState": last,
        }

    @property
    def done(self) -> bool:
        """Has it ended for good?"""
        return self.pid is None and self.waiting is None


@dataclass(slots=True)
class PodState:
    """All containers of a pod, and its address."""

    address: str
    node_address: str
    started_at: str
    init: list[ContainerState] = field(default_factory=list)
    main: list[ContainerState] = field(default_factory=list)

    @property
    def initialised(self) -> bool:
        return all(state.done and state.exit_code == 0 for state in self.init)

    @property
    def ready(self) -> bool:
        return self.initialised and all(state.ready for state in self.main)

    def phase(self) -> str:
        """Give the phase in Kubernetes' words."""
        if self.main and all(state.done for state in self.main):
            well = all(state.exit_code == 0 for state in self.main)
            return "Succeeded" if well else "Failed"
        if any(state.done and state.exit_code for state in self.init):
            return "Failed"
        running = any(state.pid is not None or state.restarts for state in self.main)
        return "Running" if running else "Pending"

    def as_status(self, seen: Json, now: str) -> Json:
        """Give the status to patch over ``seen``, whose conditions of others are kept."""
        ours = {
            "Initialized": self.initialised,
            "ContainersReady": self.ready,
            "Ready": self.ready,
        }
        before = {c["type"]: c for c in seen.get("conditions", ())}
        conditions = [c for kind, c in before.items() if kind not in ours]
        for kind, holds in ours.items():
            status = "True" if holds else "False"
            old = before.get(kind, {})
            changed = now if old.get("status") != status else old.get("lastTransitionTime", now)
            conditions.append({"type": kind, "status": status, "lastTransitionTime": changed})
        return {
            "phase": self.phase(),
            "hostIP": self.node_address,
            "hostIPs": [{"ip": self.node_address}],
            "podIP": self.address,
            "podIPs": [{"ip": self.address}],
            "startTime": seen.get("startTime") or self.started_at,
            "conditions": conditions,
            "initContainerStatuses": [state.as_status() for state in self.init],
            "containerStatuses": [state.as_status() for state in self.main],
        }
