"""One pod, from bound to gone: sandbox, containers, probes, restarts and status."""

import asyncio
import base64
import datetime
import os
import signal
from collections.abc import Callable, Set
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import images, namespaces
from tests.cluster.kubelet import containers, probes
from tests.cluster.kubelet.api import Api, ApiError, Json
from tests.cluster.kubelet.sandbox import Sandbox
from tests.cluster.kubelet.status import ContainerState, PodState
from tests.cluster.kubelet.volumes import Volumes

RESTART_SECONDS_MIN = 0.25
RESTART_SECONDS_MAX = 8.0
GRACE_SECONDS = 30
#: The kernel takes no longer name of a host; a kubelet cuts that of a pod.
HOSTNAME_MAX = 63


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """The node that a pod runs on."""

    name: str
    address: str
    folder: Path
    hosts_file: Path
    images_file: Path
    api_address: str
    api_port: int


def now() -> str:
    """Give the time as the API writes it."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")  # noqa: TID251 a shell


class Pod:
    """Runs one pod until it is deleted; ``update`` tells it what the API says of it."""

    def __init__(self, api: Api, node: Node, pod: Json, address: str) -> None:
        self._api = api
        self._node = node
        self.pod = pod
        self.uid: str = pod["metadata"]["uid"]
        self._space: str = pod["metadata"]["namespace"]
        self.hostname: str = pod["metadata"]["name"][:HOSTNAME_MAX]
        self._path = f"/api/v1/namespaces/{self._space}/pods/{pod['metadata']['name']}"
        config_maps, secrets = containers.referenced(pod)
        #: What its environment and volumes are made of, by the kind's name in paths.
        self._refers = {"configmaps": config_maps, "secrets": secrets}
        self._folder = node.folder / "pods" / self.uid
        self._deleted = asyncio.Event()
        self._changed = asyncio.Event()
        self._published: Json = {}
        before = {s["name"]: s for s in pod.get("status", {}).get("containerStatuses", ())}
        self.state = PodState(address=address, node_address=node.address, started_at=now())
        spec = pod["spec"]
        self.state.init = [_fresh(c, before) for c in spec.get("initContainers", ())]
        self.state.main = [_fresh(c, before) for c in spec["containers"]]
        self._sandbox: Sandbox | None = None
        self._volumes = Volumes(api, pod, self._folder)
        #: Of the volumes: what is read first is written first.
        self._writing = asyncio.Lock()
        self._is_stale = asyncio.Event()

    def update(self, pod: Json) -> None:
        """Take a newer object of the same pod."""
        self.pod = pod
        if pod["metadata"].get("deletionTimestamp"):
            self._deleted.set()

    def has_changed(self, kind: str, places: Set[tuple[str, str]]) -> None:
        """Hear which objects of a kind have changed, by namespace and name."""
        if any((self._space, name) in places for name in self._refers[kind]):
            self._is_stale.set()

    async def run(self) -> None:
        """Run it; returns when it is gone from the API (or, forced, from under us)."""
        gateway = namespaces.HOST_ADDRESS
        self._sandbox = await Sandbox.open(self._folder, self.state.address, gateway)
        try:
            async with asyncio.TaskGroup() as tasks:
                publisher = tasks.create_task(self._publish())
                refresher = tasks.create_task(self._refresh())
                work = tasks.create_task(self._work())
                await self._deleted.wait()
                work.cancel()
                await self._stop_all()
                publisher.cancel()
                refresher.cancel()
            await self._api.delete(self._path, uid=self.uid)
        finally:
            await self._sandbox.close()

    async def _work(self) -> None:
        policy = self.pod["spec"].get("restartPolicy", "Always")
        for container, state in zip(
            self.pod["spec"].get("initContainers", ()), self.state.init, strict=True
        ):
            await self._keep(container, state, "OnFailure" if policy == "Always" else policy)
            if state.exit_code != 0:
                return
        async with asyncio.TaskGroup() as tasks:
            for container, state in zip(
                self.pod["spec"]["containers"], self.state.main, strict=True
            ):
                tasks.create_task(self._keep(container, state, policy))

    async def _keep(self, container: Json, state: ContainerState, policy: str) -> None:
        """Run one container again and again, as its restart policy says."""
        pause = RESTART_SECONDS_MIN
        while True:
            try:
                code = await self._run_once(container, state)
            except containers.NoImageError as error:
                self._set(state, waiting="ErrImagePull", message=str(error))
                await asyncio.sleep(RESTART_SECONDS_MIN)
                said = f'Back-off pulling image "{container["image"]}": ErrImagePull: {error}'
                self._set(state, waiting="ImagePullBackOff", message=said)
                await asyncio.sleep(pause)
                pause = min(pause * 2, RESTART_SECONDS_MAX)
                continue
            except (containers.NotReadyError, ApiError, OSError) as error:
                self._set(state, waiting="ContainerCreating", message=str(error))
                await asyncio.sleep(RESTART_SECONDS_MIN)
                continue
            if policy == "Never" or (policy == "OnFailure" and code == 0):
                return
            state.restarts += 1
            pod = f"{self.pod['metadata']['name']}_{self.pod['metadata']['namespace']}({self.uid})"
            said = f"back-off {pause:g}s restarting failed container={container['name']} pod={pod}"
            self._set(state, waiting="CrashLoopBackOff", message=said)
            await asyncio.sleep(pause)
            pause = min(pause * 2, RESTART_SECONDS_MAX)

    async def _run_once(self, container: Json, state: ContainerState) -> int:
        assert self._sandbox is not None
        image = images.found(self._node.images_file, container["image"])
        if image is None:
            raise containers.NoImageError(container["image"])
        async with self._writing:
            sources = await self._sources()
            mounts = await self._volumes.mounts(container, sources)
        base = self._base_env(image)
        env = containers.environment(self._with_address(), container, sources, base)
        command = containers.command(container, env)
        mounts.append((str(self._node.hosts_file), "/etc/hosts", True))
        words = self._folder / f"{container['name']}.last-words"
        words.write_bytes(b"")
        words.chmod(0o666)
        mounts.append((str(words), container["terminationMessagePath"], False))
        log = self._sandbox.log(container["name"])
        said_before = log.stat().st_size if log.exists() else 0
        cwd = container.get("workingDir", "/")
        process = await self._sandbox.start(
            container["name"], command, env, mounts, image=image, cwd=cwd
        )
        state.pid, state.since, state.waiting = process.pid, now(), None
        state.started = "startupProbe" not in container
        state.ready = state.started and "readinessProbe" not in container
        self._changed.set()
        watching = asyncio.ensure_future(self._probe(container, state, process.pid))
        try:
            code = await process.wait()
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
        exit_code = code if code >= 0 else 128 - code
        said = log.read_bytes()[said_before:]
        policy = container["terminationMessagePolicy"]
        last = containers.last_words(words.read_bytes(), said, policy, exit_code)
        state.end(exit_code, last, now())
        self._changed.set()
        return exit_code

    async def _refresh(self) -> None:
        """Bring changed objects to the volumes, in place, as often as they change."""
        while True:
            await self._is_stale.wait()
            self._is_stale.clear()
            try:
                async with self._writing:
                    await self._volumes.refresh(await self._sources())
            except (ApiError, OSError):
                self._is_stale.set()
                await asyncio.sleep(RESTART_SECONDS_MIN)

    async def _probe(self, container: Json, state: ContainerState, pid: int) -> None:
        if "startupProbe" in container:
            await self._ask(container, "startupProbe", state, pid)
        async with asyncio.TaskGroup() as tasks:
            for kind in ("readinessProbe", "livenessProbe"):
                if kind in container:
                    tasks.create_task(self._ask(container, kind, state, pid))

    async def _ask(self, container: Json, kind: str, state: ContainerState, pid: int) -> None:
        assert self._sandbox is not None
        probe = container[kind]
        count = probes.threshold(probe)
        await asyncio.sleep(probe.get("initialDelaySeconds", 0))
        while True:
            args = (probe, container, self.state.address, self._sandbox, pid)
            count.count(await probes.ask(*args))
            if kind == "readinessProbe" and state.ready != count.passed:
                state.ready = count.passed
                self._changed.set()
            elif kind == "startupProbe" and count.passed:
                state.started = True
                state.ready = "readinessProbe" not in container
                self._changed.set()
                return
            elif kind != "readinessProbe" and count.failed:
                await self._end(pid, self._grace(), lambda: state.pid == pid)
                return
            await asyncio.sleep(probe.get("periodSeconds", 10))

    async def _stop_all(self) -> None:
        specs = {c["name"]: c for c in self.pod["spec"]["containers"]}
        running = [s for s in (*self.state.init, *self.state.main) if s.pid is not None]
        await asyncio.gather(*(self._stop(specs.get(s.name, {}), s) for s in running))

    async def _stop(self, container: Json, state: ContainerState) -> None:
        assert self._sandbox is not None
        assert state.pid is not None
        pid, grace = state.pid, self._grace()
        hook = container.get("lifecycle", {}).get("preStop", {})
        if "exec" in hook:
            await self._sandbox.run_in(pid, hook["exec"]["command"], grace)
        elif "sleep" in hook:
            await asyncio.sleep(min(hook["sleep"]["seconds"], grace))
        await self._end(pid, grace, lambda: _alive(pid))

    async def _end(self, pid: int, grace: float, lives: Callable[[], bool]) -> None:
        _signal(pid, signal.SIGTERM)
        waited = 0.0
        while lives() and waited < grace:
            await asyncio.sleep(0.05)
            waited += 0.05
        _signal(pid, signal.SIGKILL)

    def _grace(self) -> float:
        given = self.pod["metadata"].get("deletionGracePeriodSeconds")
        own = self.pod["spec"].get("terminationGracePeriodSeconds", GRACE_SECONDS)
        return float(own if given is None else given)

    def _set(self, state: ContainerState, *, waiting: str | None, message: str = "") -> None:
        if (state.waiting, state.message) != (waiting, message):
            state.waiting, state.message = waiting, message
            self._changed.set()

    async def _publish(self) -> None:
        while True:
            self._changed.clear()  # what changes while the API server is told is told next
            status = self.state.as_status(self.pod.get("status", {}), now())
            if status != self._published:
                try:
                    await self._api.patch(f"{self._path}/status", {"status": status})
                    self._published = status
                except (ApiError, OSError):
                    await asyncio.sleep(RESTART_SECONDS_MIN)
                    continue
            await self._changed.wait()

    def _with_address(self) -> Json:
        status = {**self.pod.get("status", {}), "podIP": self.state.address}
        return {**self.pod, "status": {**status, "hostIP": self._node.address}}

    def _base_env(self, image: Path) -> dict[str, str]:
        """Give what a container sees unasked; the PATH stands in for its image."""
        return {
            "PATH": f"{image / 'bin'}:{os.environ['PATH']}",
            "HOME": "/tmp",
            "HOSTNAME": self.hostname,
            "KUBERNETES_SERVICE_HOST": self._node.api_address,
            "KUBERNETES_SERVICE_PORT": str(self._node.api_port),
            "PYTHONUNBUFFERED": "1",
        }

    async def _sources(self) -> containers.Sources:
        base = f"/api/v1/namespaces/{self._space}"
        found: dict[str, dict[str, Json]] = {}
        for kind, names in self._refers.items():
            found[kind] = {}
            for name in sorted(names):
                if (item := await self._api.get(f"{base}/{kind}/{name}")) is not None:
                    found[kind][name] = _text_of(item)
        return containers.Sources(config_maps=found["configmaps"], secrets=found["secrets"])


def _text_of(item: Json) -> Json:
    if item["kind"] == "Secret":
        data = item.get("data", {})
        return {key: base64.b64decode(text).decode() for key, text in data.items()}
    return dict(item.get("data", {}))


def _fresh(container: Json, before: dict[str, Json]) -> ContainerState:
    """A restarted kubelet goes on counting restarts where the last one stopped."""
    old = before.get(container["name"])
    restarts = 0 if old is None else old["restartCount"] + 1
    return ContainerState(container["name"], container.get("image", ""), restarts=restarts)


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False  # it is gone, maybe between the opening and the reading
    return state.rsplit(")", 1)[1].split()[0] != "Z"


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
