"""The process kubelet: a node whose pods are local processes.

    python -m tests.cluster.kubelet --kubeconfig FILE --name a-0 --zone a --number 1 --folder DIR \
        --images FILE

Registers the node, keeps its lease and Ready condition, runs the pods bound to it, provisions the
volumes that the scheduler puts on it, brings changed Secrets and ConfigMaps to the volumes of its
pods, and writes what EndpointSlices say into its pods' /etc/hosts in place of DNS. Its death
(kill -9) is the machine's: its pods die with it. So it does not die of what a busy machine does to
it: what failed is told in its log, and done again. It uses the administrator's rights: the kubelet
is not what is tested here.
"""

import argparse
import asyncio
import datetime
import itertools
import traceback
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from tests.cluster.kubelet import volumes
from tests.cluster.kubelet.api import Api, ApiError, Json
from tests.cluster.kubelet.pods import Node, Pod, now
from tests.cluster.processes import DeadlineExceededError

LEASE_SECONDS = 2.0
PODS_MAX = 200
AGAIN_SECONDS = 0.5


class Kubelet:
    """One node."""

    def __init__(self, api: Api, node: Node, zone: str, number: int) -> None:
        self._api = api
        self._node = node
        self._zone = zone
        self._number = number
        self._pods: dict[str, Pod] = {}
        self._slices: dict[str, Json] = {}
        #: One after the other: what still knows a pod that is gone does not meet another one.
        self._addresses = itertools.cycle(self._range())

    async def run(self) -> None:
        """Serve until the process ends."""
        await again(self._register)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._heartbeat())
            tasks.create_task(again(lambda: self._follow_pods(tasks)))
            tasks.create_task(again(self._follow_claims))
            tasks.create_task(again(self._follow_volumes))
            tasks.create_task(again(self._follow_endpoints))
            for kind in ("secrets", "configmaps"):
                tasks.create_task(again(partial(self._follow_files, kind)))

    async def _register(self) -> None:
        name = self._node.name
        labels = {
            "kubernetes.io/hostname": name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            volumes.ZONE_LABEL: self._zone,
        }
        await self._api.create(
            "/api/v1/nodes",
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}},
        )
        await self._api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": None}})
        await self._report()

    async def _report(self) -> None:
        amount = {"cpu": "64", "memory": "256Gi", "pods": str(PODS_MAX), "ephemeral-storage": "1Ti"}
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "the process kubelet is up",
            "lastHeartbeatTime": now(),
            "lastTransitionTime": now(),
        }
        address = {"type": "InternalIP", "address": self._node.address}
        status = {
            "capacity": amount,
            "allocatable": amount,
            "conditions": [ready],
            "addresses": [address, {"type": "Hostname", "address": self._node.name}],
        }
        await self._api.patch(f"/api/v1/nodes/{self._node.name}/status", {"status": status})

    async def _heartbeat(self) -> None:
        name = self._node.name
        base = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        while True:
            moment = datetime.datetime.now(datetime.UTC)  # noqa: TID251 a shell
            spec = {
                "holderIdentity": name,
                "leaseDurationSeconds": 10,
                "renewTime": moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            }
            lease: Json = {"metadata": {"name": name}, "spec": spec}
            try:
                if await self._api.patch(f"{base}/{name}", {"spec": spec}) is None:
                    await self._api.create(base, lease)
                await self._report()
            except (ApiError, OSError):
                pass
            await asyncio.sleep(LEASE_SECONDS)

    async def _follow_pods(self, tasks: asyncio.TaskGroup) -> None:
        selector = f"fieldSelector=spec.nodeName={self._node.name}"
        async for present in self._api.states("/api/v1/pods", selector):
            for uid, pod in present.items():
                phase = pod.get("status", {}).get("phase")
                if uid in self._pods:
                    self._pods[uid].update(pod)
                elif phase not in ("Succeeded", "Failed"):
                    runner = Pod(self._api, self._node, pod, self._address(pod))
                    runner.update(pod)
                    self._pods[uid] = runner
                    self._write_hosts()
                    tasks.create_task(self._run(runner))
                elif pod["metadata"].get("deletionTimestamp"):
                    meta = pod["metadata"]
                    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
                    await self._api.delete(path, uid=uid)
            for uid in [uid for uid in self._pods if uid not in present]:
                self._pods[uid].update({"metadata": {"deletionTimestamp": now()}, **_bare()})
                del self._pods[uid]

    async def _run(self, runner: Pod) -> None:
        await again(runner.run)
        self._pods.pop(runner.uid, None)

    def _address(self, pod: Json) -> str:
        """Keep the address that a pod has; else give the first free one of the node's range."""
        if known := pod.get("status", {}).get("podIP"):
            return str(known)
        used = {runner.state.address for runner in self._pods.values()}
        return next(a for a in self._addresses if a not in used)

    def _range(self) -> Iterator[str]:
        return (f"10.244.{self._number}.{last}" for last in range(2, 2 + PODS_MAX))

    async def _follow_claims(self) -> None:
        folder = self._node.folder / "volumes"
        async for claims in self._api.states("/api/v1/persistentvolumeclaims"):
            await volumes.provision(self._api, claims, self._node.name, folder)

    async def _follow_volumes(self) -> None:
        folder = self._node.folder / "volumes"
        async for found in self._api.states("/api/v1/persistentvolumes"):
            await volumes.reclaim(self._api, found, folder)

    async def _follow_files(self, kind: str) -> None:
        """Tell pods which objects of a kind have changed: they read them again from the API."""
        before: set[tuple[tuple[str, str], str]] = set()
        async for found in self._api.states(f"/api/v1/{kind}"):
            about = [item["metadata"] for item in found.values()]
            after = {((one["namespace"], one["name"]), one["resourceVersion"]) for one in about}
            changed = {place for place, _ in before ^ after}
            before = after
            for runner in self._pods.values():
                runner.has_changed(kind, changed)

    async def _follow_endpoints(self) -> None:
        async for slices in self._api.states("/apis/discovery.k8s.io/v1/endpointslices"):
            self._slices = slices
            self._write_hosts()

    def _write_hosts(self) -> None:
        """Write the hosts file of all pods of the node; a pod knows its own name by it, too."""
        own = {f"{pod.state.address} {pod.hostname}\n" for pod in self._pods.values()}
        self._node.hosts_file.write_text(hosts_of(self._slices) + "".join(sorted(own)))


async def again(work: Callable[[], Awaitable[None]]) -> None:
    """Do work to its end; what the machine or the API server did to it is told, and tried again."""
    while True:
        try:
            await work()
        except* (ApiError, OSError, DeadlineExceededError):
            traceback.print_exc()
        else:
            return
        await asyncio.sleep(AGAIN_SECONDS)


def hosts_of(slices: dict[str, Json]) -> str:
    """Give the hosts file that stands in for DNS: ``pod.service.namespace.svc`` and shorter."""
    lines = {"127.0.0.1 localhost"}
    for item in slices.values():
        service = item["metadata"].get("labels", {}).get("kubernetes.io/service-name", "")
        space = item["metadata"]["namespace"]
        for endpoint in item.get("endpoints") or ():
            host = endpoint.get("hostname")
            for address in endpoint["addresses"]:
                for stem in [f"{host}.{service}"] if host else [service]:
                    full = f"{stem}.{space}.svc"
                    lines.add(f"{address} {full}.cluster.local {full} {stem}.{space} {stem}")
    return "\n".join(sorted(lines)) + "\n"


def _bare() -> Json:
    """What is left of a pod that was removed by force: end it at once."""
    return {"spec": {"containers": [], "terminationGracePeriodSeconds": 0}, "status": {}}


async def serve(options: argparse.Namespace) -> None:
    """Run one node with these options."""
    folder: Path = options.folder
    (folder / "volumes").mkdir(parents=True, exist_ok=True)
    hosts = folder / "hosts"
    hosts.write_text("127.0.0.1 localhost\n")
    async with Api(options.kubeconfig) as api:
        server = urlsplit(api.server)
        assert server.hostname is not None
        assert server.port is not None
        node = Node(
            name=options.name,
            address=f"10.244.{options.number}.1",
            folder=folder,
            hosts_file=hosts,
            images_file=options.images,
            api_address=server.hostname,
            api_port=server.port,
        )
        await Kubelet(api, node, options.zone, options.number).run()


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(prog="kubelet", description="a node of processes")
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--zone", required=True)
    parser.add_argument("--number", type=int, required=True, help="1 to 254: its address range")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--images", type=Path, required=True, help="what images stand for")
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
