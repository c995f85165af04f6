"""A world for the operator: the twins of Kubernetes and ZooKeeper, and a person at the controls.

``Controllers`` does what Kubernetes' controllers and the bookies do: pods, claims, cookies and
registrations follow from StatefulSets.
"""

import datetime
import json
import zlib
from collections.abc import Callable, Sequence, Set
from pathlib import Path

from zonekeeper.metadata.bookies import cookie_store
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.formats.cookies import Cookie
from zonekeeper.metadata.store.errors import StoreUnavailableError
from zonekeeper.metadata.store.layout import Root
from zonekeeper.metadata.store.store import MetadataStore
from zonekeeper.metadata.stores import uri
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.metadata.stores.memory_server import MemoryServer
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.operator.cluster import desired, observed
from zonekeeper.operator.kubernetes.api import (
    BOOKIE_CLUSTERS,
    CLAIMS,
    INSTANCE_LABEL,
    NODES,
    PODS,
    REVISION_LABEL,
    STATEFUL_SETS,
    ZONE_LABEL,
    Json,
    ObjectKind,
)
from zonekeeper.operator.kubernetes.memory_api import MemoryKubernetes
from zonekeeper.operator.plan import planning
from zonekeeper.operator.plan.plans import Action, TurnPlan
from zonekeeper.operator.roots.roots import Roots
from zonekeeper.operator.run import observing
from zonekeeper.operator.run.reconciling import Key, Reconciler
from zonekeeper.placement.base import upgrade_domains
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.upgrade_domains import RoundRobin

SPACE, NAME = "logs", "log"
KEY = Key(SPACE, NAME)
URI = "zk://zookeeper:2181/logs/ledgers"
NOW = "2026-01-02T03:04:05Z"

#: More turns than anything takes.
TURNS_MAX = 60


def resource(**spec: object) -> Json:
    """Give a resource that is legal; ``spec`` changes it."""
    return {
        "apiVersion": "zonekeeper.io/v1alpha1",
        "kind": "BookieCluster",
        "metadata": {
            "name": NAME,
            "namespace": SPACE,
            "uid": "uid-log",
            "generation": 1,
            "finalizers": [],
        },
        "spec": {
            "image": "zonekeeper:0.1.0",
            "metadata": {"uri": URI},
            "zones": [{"name": "a"}, {"name": "b"}, {"name": "c"}],
            "bookiesPerZone": 2,
            "storage": {"size": "1Gi"},
            **spec,
        },
    }


def revision_of(item: Json) -> str:
    """Name the version of a StatefulSet's template: the same template has the same name again."""
    text = json.dumps(item["spec"]["template"], sort_keys=True)
    return f"{item['metadata']['name']}-{zlib.crc32(text.encode()):x}"


def clock() -> datetime.datetime:
    return datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)


class World:
    """One resource, and all that there is around it."""

    def __init__(self, folder: Path | None = None, **spec: object) -> None:
        """Make it; with a folder, its metadata stands in a file there."""
        self.kubernetes = MemoryKubernetes()
        self.server = MemoryServer()
        self.file = None if folder is None else folder / "meta.db"
        self.fate: Callable[[str, ObjectKind], None] = lambda verb, kind: None
        #: Of which instance the data on a volume is, by the uid of its claim.
        self.volumes: dict[str, str] = {}
        #: Where bookies are registered, by name.
        self.registered: dict[str, str] = {}
        #: Do registrations stay for a while when their bookies have ended?
        self.sessions_linger = False
        #: Is the metadata store out of the operator's reach? Bookies reach it.
        self.is_cut_off = False
        self.reconciler = self.new_operator()
        for zone in "abc":
            labels = {"topology.kubernetes.io/zone": zone}
            self.kubernetes.put(NODES, {"metadata": {"name": f"node-{zone}", "labels": labels}})
        self.kubernetes.put(BOOKIE_CLUSTERS, resource(**spec))

    def new_operator(self) -> Reconciler:
        """Give an operator that knows nothing of what an earlier one did."""
        return Reconciler(self.kubernetes, self.open_for_operator, KEY, clock)

    async def open_for_operator(self, address: str) -> MetadataStore:
        """Open the metadata store, if the operator reaches it."""
        if self.is_cut_off:
            raise StoreUnavailableError("nobody answers", store=address)
        return await self.open(address)

    async def open(self, address: str) -> MetadataStore:
        """Open the metadata store."""
        root = self.root_of(address)
        if self.file is not None:
            return await open_store(f"sqlite://{self.file}?root={root}")
        return MemoryStore(self.server, root=root)

    @staticmethod
    def root_of(address: str) -> str:
        parsed = uri.parse(address)
        assert isinstance(parsed, uri.ZooKeeperAddress)
        return parsed.root

    async def settle(self) -> None:
        """Let operator, controllers and bookies work until nothing changes any more."""
        for _ in range(TURNS_MAX):
            before = await self.picture()
            wait_ms = await self.turn()
            await self.controllers()
            if wait_ms is None or before == await self.picture():
                return
        raise AssertionError("it does not settle")

    async def turn(self) -> int | None:
        """Let the operator do one turn; its calls, and no others, meet ``fate``."""
        self.kubernetes.disturb = self.fate
        try:
            return await self.reconciler.turn()
        finally:
            self.kubernetes.disturb = lambda verb, kind: None

    async def plan(self) -> TurnPlan:
        """Give what a turn would decide now, under the same ``fate``."""
        item = await self.get()
        told = item.get("status", {}).get("conditions", [])
        failures = tuple(one["message"] for one in told if one["reason"] == "Failed")
        wanted, root = desired.read(item), Roots(self.open_for_operator)
        self.kubernetes.disturb = self.fate
        try:
            seen = await observing.look(self.kubernetes, root, item, wanted, failures)
        finally:
            self.kubernetes.disturb = lambda verb, kind: None
            await root.close()
        return planning.decide(wanted, seen, NOW)

    async def picture(self) -> tuple[Sequence[Json], object]:
        """Give all that is there, but events."""
        kinds = (BOOKIE_CLUSTERS, STATEFUL_SETS, PODS, CLAIMS)
        objects = [item for kind in kinds for item in await self.kubernetes.list(kind, "")]
        stored = self.server.last_change_id if self.file is None else await self.nodes_in_store()
        return objects, stored

    async def controllers(self) -> None:
        """Do what StatefulSets' controller and the bookies do."""
        wanted = {}
        for item in await self.kubernetes.list(STATEFUL_SETS, SPACE):
            status = {
                "observedGeneration": item["metadata"]["generation"],
                "updateRevision": revision_of(item),
            }
            if item.get("status") != status:
                self.kubernetes.put(STATEFUL_SETS, item | {"status": status})
            for ordinal in range(item["spec"]["replicas"]):
                wanted[f"{item['metadata']['name']}-{ordinal}"] = item
        for pod in await self.kubernetes.list(PODS, SPACE):
            if pod["metadata"]["ownerReferences"] and pod["metadata"]["name"] not in wanted:
                self.kubernetes.mark_deleted(PODS, SPACE, pod["metadata"]["name"])
        for name, item in wanted.items():
            await self._bookie(name, item)
        await self._sessions()

    async def _sessions(self) -> None:
        """Let those bookies be registered that serve."""
        serving = {
            pod["metadata"]["name"]
            for pod in await self.kubernetes.list(PODS, SPACE)
            if pod["metadata"]["ownerReferences"] and observed.pod(pod).ready
        }
        for name in sorted(serving - self.registered.keys()):
            self.registered[name] = await self.address()
            store = await self.open(self.registered[name])
            await store.create(Root(store.root).writable(BookieId(name)), b"")
            await store.close()
        if not self.sessions_linger:
            await self.end_sessions(self.registered.keys() - serving)

    async def end_sessions(self, names: Set[str]) -> None:
        """Let bookies be registered no more."""
        for name in sorted(names):
            store = await self.open(self.registered.pop(name))
            path = Root(store.root).writable(BookieId(name))
            if await store.exists(path, sync=True):
                await store.delete(path, version=None)
            await store.close()

    async def _bookie(self, name: str, item: Json) -> None:
        labels = item["spec"]["selector"]["matchLabels"]
        zone = labels[ZONE_LABEL]
        claim = await self.kubernetes.get(CLAIMS, SPACE, f"data-{name}")
        pod = await self.kubernetes.get(PODS, SPACE, name)
        if claim is not None and pod is not None:
            return
        instance = await self._instance()
        if claim is None:
            born = item["spec"]["volumeClaimTemplates"][0]["metadata"]["labels"]
            meta = {"name": f"data-{name}", "namespace": SPACE, "labels": {**born, **labels}}
            claim = self.kubernetes.put(CLAIMS, {"metadata": meta})
            self.volumes[claim["metadata"]["uid"]] = instance
        if pod is None:
            serves = self.volumes[claim["metadata"]["uid"]] == instance
            marked = {**labels, REVISION_LABEL: revision_of(item)}
            self.put_pod(name, marked, node=f"node-{zone}", ready=serves, owner=item)
            if serves:
                await self.write_cookie(name, zone)

    async def _instance(self) -> str:
        store = await self.open(await self.address())
        cluster = await clusters.open_cluster(store)
        await store.close()
        return cluster.instance

    async def address(self) -> str:
        """Give where the resource says that its metadata is."""
        return str((await self.get())["spec"]["metadata"]["uri"])

    def put_pod(
        self, name: str, labels: Json, *, node: str, ready: bool = True, owner: Json | None = None
    ) -> None:
        """Let a pod be there; ``owner`` is the StatefulSet that made it."""
        condition = {"type": "Ready", "status": "True" if ready else "False"}
        owners = [] if owner is None else [{"uid": owner["metadata"]["uid"], "controller": True}]
        self.kubernetes.put(
            PODS,
            {
                "metadata": {
                    "name": name,
                    "namespace": SPACE,
                    "labels": labels,
                    "ownerReferences": owners,
                },
                "spec": {"nodeName": node},
                "status": {"conditions": [condition]},
            },
        )

    async def write_cookie(self, name: str, zone: str) -> None:
        store = await self.open(await self.address())
        cluster = await clusters.open_cluster(store)
        domain = upgrade_domains.of_ordinal(
            upgrade_domains.ordinal_of(name), RoundRobin(upgrade_domains=3)
        )
        bookie = BookieId(name)
        if await cookie_store.read(cluster, bookie) is None:
            dirs = ("/data",)
            cookie = Cookie(
                bookie=bookie,
                journal_dirs=dirs,
                ledger_dirs=dirs,
                instance=cluster.instance,
                location=Location(ZoneName(zone), domain),
            )
            await cookie_store.create(cluster, cookie)
        await store.close()

    async def forget(self, *names: str) -> None:
        """Remove cookies, as the end of a decommission does."""
        store = await self.open(await self.address())
        cluster = await clusters.open_cluster(store)
        for name in names:
            stored = await cookie_store.read(cluster, BookieId(name))
            assert stored is not None
            await cookie_store.delete(cluster, BookieId(name), version=stored.version)
        await store.close()

    async def change(self, **spec: object) -> None:
        """Edit the resource as a person does."""
        self.edit(**spec)

    def edit(self, **spec: object) -> None:
        """Edit the resource while a call of the operator is under way."""
        found = self.kubernetes.peek(BOOKIE_CLUSTERS, SPACE, NAME)
        assert found is not None
        found["spec"] |= spec
        found["metadata"]["generation"] += 1
        self.kubernetes.put(BOOKIE_CLUSTERS, found)

    async def make_again(self, **spec: object) -> None:
        """Make another resource of the same name, under an operator that knows of none."""
        again = resource(**spec)
        again["metadata"]["uid"] = "uid-again"
        self.kubernetes.put(BOOKIE_CLUSTERS, again)
        self.reconciler = self.new_operator()

    async def unmark_claims(self) -> None:
        """Let all be as an operator made it that knew of no label for claims."""
        for item in await self.kubernetes.list(STATEFUL_SETS, SPACE):
            for template in item["spec"]["volumeClaimTemplates"]:
                del template["metadata"]["labels"][INSTANCE_LABEL]
            self.kubernetes.put(STATEFUL_SETS, item)
        for item in await self.kubernetes.list(CLAIMS, SPACE):
            del item["metadata"]["labels"][INSTANCE_LABEL]
            self.kubernetes.put(CLAIMS, item)

    def delete(self) -> None:
        """Delete the resource as a person does."""
        self.kubernetes.mark_deleted(BOOKIE_CLUSTERS, SPACE, NAME)

    async def get(self) -> Json:
        found = await self.kubernetes.get(BOOKIE_CLUSTERS, SPACE, NAME)
        assert found is not None
        return found

    async def conditions(self) -> dict[str, tuple[str, str]]:
        """Give status and reason by condition."""
        found = (await self.get())["status"]["conditions"]
        return {item["type"]: (item["status"], item["reason"]) for item in found}

    async def message(self, kind: str) -> str:
        found = (await self.get())["status"]["conditions"]
        return next(str(item["message"]) for item in found if item["type"] == kind)

    async def nodes_in_store(self) -> Sequence[str]:
        """Give the paths in the metadata store under the cluster's two trees."""
        store = await self.open(URI)
        found = []
        todo = [store.root, f"{store.root}.zonekeeper"]
        while todo:
            path = todo.pop()
            children = await store.children(path, sync=True)
            if children is not None:
                found.append(path)
                todo += [f"{path}/{name}" for name in children]
        await store.close()
        return sorted(found)


def kinds_of(actions: Sequence[Action]) -> list[str]:
    """Name actions by their types."""
    return [type(action).__name__ for action in actions]
