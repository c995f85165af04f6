"""A world for the operator: the twins of Kubernetes and ZooKeeper, and a person at the controls.

``Controllers`` does what Kubernetes' controllers and the bookies do: pods, claims, cookies and
registrations follow from StatefulSets.
"""

import asyncio
import datetime
from collections.abc import Awaitable, Callable, Sequence, Set
from contextlib import suppress
from pathlib import Path

from tests.operator import repairing
from tests.operator.repairing import WatchingProcess
from tests.operator.resources import (
    CRASHED,
    KEY,
    NAME,
    NOW,
    PICTURED,
    SPACE,
    URI,
    clock,
    is_of_a_set,
    resource,
    revision_of,
)
from zonekeeper.metadata.bookies import bookie_records, cookie_store
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.cookies import Cookie
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.formats.release_formats import ReleaseFormats
from zonekeeper.metadata.ledgers import ledgers
from zonekeeper.metadata.ledgers.deletions import Deleter
from zonekeeper.metadata.store.errors import StoreUnavailableError
from zonekeeper.metadata.store.layout import Root
from zonekeeper.metadata.store.store import MetadataStore
from zonekeeper.metadata.stores import uri
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.metadata.stores.memory_server import MemoryServer
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.metadata.stores.timeouts import Timeouts
from zonekeeper.operator.cluster import desired
from zonekeeper.operator.cluster.desired import Desired, RefusedResource
from zonekeeper.operator.kubernetes.api import (
    BOOKIE_CLUSTERS,
    CLAIMS,
    FORMATS_LABEL,
    INSTANCE_LABEL,
    NODES,
    PODS,
    REPAIRS_LABEL,
    REVISION_LABEL,
    STATEFUL_SETS,
    ZONE_LABEL,
    Json,
    Kubernetes,
    ObjectKind,
)
from zonekeeper.operator.kubernetes.memory_api import MemoryKubernetes
from zonekeeper.operator.lead.leading import Right, Unrivalled
from zonekeeper.operator.plan import planning
from zonekeeper.operator.plan.plans import TurnPlan
from zonekeeper.operator.roots.roots import Roots
from zonekeeper.operator.run import observing
from zonekeeper.operator.run.observing import Earlier, LookTime
from zonekeeper.operator.run.reconciling import Clocks, Reconciler, TurnSurroundings
from zonekeeper.operator.sight import observed
from zonekeeper.operator.sight.observed import Observed
from zonekeeper.placement.base import upgrade_domains
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.upgrade_domains import RoundRobin

#: The store's twin measures real time: a machine that stands still must not look like a lost store.
PATIENT = Timeouts(session_ms=3_600_000, request_ms=3_600_000)
TURNS_MAX = 400  # more than anything takes
#: After so many turns without a change nothing is going to change.
STILL_TURNS = 2
#: The time from one turn to the next.
TURN_MS = 200


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
        #: The pod in which each bookie has started last, by uid.
        self.started: dict[str, str] = {}
        #: What images say of their formats; each other one says that it is like this release.
        self.formats: dict[str, ReleaseFormats] = {}
        #: Images that no registry has.
        self.missing: set[str] = set()
        #: Images whose processes end as soon as they are started.
        self.broken: set[str] = set()
        #: The operator's monotonic clock; each turn takes some time.
        self.now_ms = 0
        self.clocks = Clocks(wall=self.wall, monotonic_ms=lambda: self.now_ms)
        self.watch = WatchingProcess()
        #: Does the zone watch evaluate while an autorecovery process runs?
        self.is_watched = True
        #: The changes of the metadata store that are the zone watch's.
        self.evaluated = 0
        #: The operator's own image; None: it is not told.
        self.own_image: str | None = None
        self.reconciler = self.new_operator()
        for zone in "abc":
            meta = {"name": f"node-{zone}", "labels": {"topology.kubernetes.io/zone": zone}}
            self.kubernetes.put(NODES, {"metadata": meta})
        self.kubernetes.put(BOOKIE_CLUSTERS, resource(**spec))

    def new_operator(self) -> Reconciler:
        """Give an operator that knows nothing of what an earlier one did."""
        return Reconciler(self.surroundings(), KEY)

    def surroundings(
        self, *, kubernetes: Kubernetes | None = None, right: Right | None = None
    ) -> TurnSurroundings:
        """Give what a turn has around it; a test may put something in the way."""
        return TurnSurroundings(
            kubernetes=self.kubernetes if kubernetes is None else kubernetes,
            opener=self.open_for_operator,
            clocks=self.clocks,
            right=Unrivalled() if right is None else right,
            spawn=asyncio.ensure_future,
            own_image=self.own_image,
        )

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
        return MemoryStore(self.server, root=root, timeouts=PATIENT)

    @staticmethod
    def root_of(address: str) -> str:
        parsed = uri.parse(address)
        assert isinstance(parsed, uri.ZooKeeperAddress)
        return parsed.root

    def wall(self) -> datetime.datetime:
        """Give wall time."""
        return clock() + datetime.timedelta(milliseconds=self.now_ms)

    @property
    def wall_ms(self) -> int:
        """Wall time as a number."""
        return int(self.wall().timestamp() * 1_000)

    async def settle(self, *, after_turn: Callable[[], Awaitable[object]] | None = None) -> None:
        """Let operator, controllers and bookies work until nothing changes any more.

        The roll waits for the next evaluation, so nothing may change in one turn, and again in the
        next one.
        """
        still, before = 0, await self.picture()
        for _ in range(TURNS_MAX):
            wait_ms = await self.turn()
            if after_turn is not None:
                await after_turn()
            await self.controllers()
            after = await self.picture()
            still, before = still + 1 if before == after else 0, after
            if wait_ms is None or still == STILL_TURNS:
                return
        raise AssertionError("it does not settle")

    async def turn(self) -> int | None:
        """Let the operator do one turn; its calls, and no others, meet ``fate``."""
        self.kubernetes.disturb = self.fate
        self.now_ms += TURN_MS
        try:
            wait_ms = await self.reconciler.turn()
            await self.reconciler.caught_up()
            return wait_ms
        finally:
            self.kubernetes.disturb = lambda verb, kind: None

    async def plan(self) -> TurnPlan:
        """Give what a turn would decide now, under the same ``fate``."""
        seen, wanted = await self.look()
        return planning.decide(wanted, seen, NOW)

    async def look(self) -> tuple[Observed, Desired | RefusedResource]:
        """Give what a turn would decide from now, under the same ``fate``."""
        item = await self.get()
        told = item.get("status", {}).get("conditions", [])
        failures = tuple(one["message"] for one in told if one["reason"] == "Failed")
        wanted, root = desired.read(item), Roots(self.open_for_operator)
        earlier = Earlier(watched=self.reconciler.watched, failures=failures)
        self.kubernetes.disturb = self.fate
        try:
            moment = LookTime(now_ms=self.now_ms, wall_ms=self.wall_ms)
            seen = await observing.look_whole(self.kubernetes, root, item, wanted, earlier, moment)
        finally:
            self.kubernetes.disturb = lambda verb, kind: None
            await root.close()
        return seen, wanted

    async def picture(self) -> tuple[Sequence[Json], object]:
        """Give all that is there, but events and the records of the zone watch."""
        objects = [one for kind in PICTURED for one in await self.kubernetes.list(kind, "")]
        changes = self.server.last_change_id - self.evaluated
        stored = changes if self.file is None else await self.nodes_in_store()
        return objects, stored

    async def controllers(self) -> None:
        """Do what Kubernetes' controllers, the bookies and the autorecovery processes do."""
        await repairing.keep_pods(self.kubernetes, SPACE)
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
            if is_of_a_set(pod) and pod["metadata"]["name"] not in wanted:
                self.kubernetes.mark_deleted(PODS, SPACE, pod["metadata"]["name"])
        for name, item in wanted.items():
            await self._bookie(name, item)
        for pod in await self.kubernetes.list(PODS, SPACE, labels=f"{FORMATS_LABEL}={NAME}"):
            repairing.answer(self.kubernetes, pod, self.formats, self.missing)
        await self._sessions()
        if self.is_watched and await self.repairers():
            await self.evaluate()

    async def repairers(self) -> list[str]:
        """Name the pods of autorecovery processes."""
        found = await self.kubernetes.list(PODS, SPACE, labels=f"{REPAIRS_LABEL}={NAME}")
        return [item["metadata"]["name"] for item in found]

    async def evaluate(self) -> None:
        """Let the zone watch evaluate once, if there is a root in which it can."""
        before = self.server.last_change_id
        await self._watching(self.watch.evaluate)
        self.evaluated += self.server.last_change_id - before

    async def hold(self, zone: str) -> None:
        """Let a person hold a zone, if a zone watch has a record of it."""
        await self._watching(lambda cluster: self.watch.hold(cluster, ZoneName(zone)))

    async def release(self, zone: str) -> None:
        """Let a person end that hold."""
        await self._watching(lambda cluster: self.watch.release(cluster, ZoneName(zone)))

    async def _watching(self, work: Callable[[Cluster], Awaitable[None]]) -> None:
        """Do something with the records of the zone watch, if there is a root."""
        if self.kubernetes.peek(BOOKIE_CLUSTERS, SPACE, NAME) is None:
            return
        store = await self.open(await self.address())
        with suppress(clusters.NotAClusterError, UnreadableError):
            await work(await clusters.open_cluster(store))
        await store.close()

    async def _sessions(self) -> None:
        """Let those bookies be registered that serve, each in a start of its own."""
        ready = [
            pod
            for pod in await self.kubernetes.list(PODS, SPACE)
            if is_of_a_set(pod) and observed.pod(pod).ready
        ]
        serving = {pod["metadata"]["name"]: str(pod["metadata"]["uid"]) for pod in ready}
        images = {pod["metadata"]["name"]: observed.pod(pod).image for pod in ready}
        for name, uid in sorted(serving.items()):
            if name in self.registered and self.started[name] == uid:
                continue
            await self.end_sessions({name} & self.registered.keys())
            self.registered[name] = await self.address()
            store = await self.open(self.registered[name])
            cluster, bookie = await clusters.open_cluster(store), BookieId(name)
            if self.started.get(name) != uid:
                known = await bookie_records.read(cluster, bookie)
                await bookie_records.count_boot(cluster, bookie, known.boot_epoch + 1)
                formats = self.formats.get(images[name], repairing.OURS)
                await bookie_records.tell_formats(cluster, bookie, formats)
            self.started[name] = uid
            await store.create(Root(store.root).writable(bookie), b"")
            await store.close()
        if not self.sessions_linger:
            await self.end_sessions(self.registered.keys() - serving.keys())

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
        await self._further_claims(name, item)
        if pod is None:
            image = item["spec"]["template"]["spec"]["containers"][0]["image"]
            serves = self.volumes[claim["metadata"]["uid"]] == instance and image not in self.broken
            marked = {**labels, REVISION_LABEL: revision_of(item)}
            self.put_pod(name, marked, node=f"node-{zone}", ready=serves, owner=item, image=image)
            if serves:
                await self.write_cookie(name, zone)

    async def _further_claims(self, name: str, item: Json) -> None:
        """Make the claims of a pod's other volumes."""
        labels = item["spec"]["selector"]["matchLabels"]
        for template in item["spec"]["volumeClaimTemplates"][1:]:
            claim = f"{template['metadata']['name']}-{name}"
            born = {**template["metadata"]["labels"], **labels}
            meta = {"name": claim, "namespace": SPACE, "labels": born}
            if await self.kubernetes.get(CLAIMS, SPACE, claim) is None:
                self.kubernetes.put(CLAIMS, {"metadata": meta})

    async def _instance(self) -> str:
        store = await self.open(await self.address())
        cluster = await clusters.open_cluster(store)
        await store.close()
        return cluster.instance

    async def address(self) -> str:
        """Give where the resource says that its metadata is."""
        return str((await self.get())["spec"]["metadata"]["uri"])

    def put_pod(
        self,
        name: str,
        labels: Json,
        *,
        node: str,
        ready: bool = True,
        owner: Json | None = None,
        image: str = "",
    ) -> None:
        """Let a pod be there; ``owner`` is the StatefulSet that made it."""
        condition = {"type": "Ready", "status": "True" if ready else "False"}
        of_set = {"kind": "StatefulSet", "controller": True}
        owners = [] if owner is None else [{**of_set, "uid": owner["metadata"]["uid"]}]
        self.kubernetes.put(
            PODS,
            {
                "metadata": {
                    "name": name,
                    "namespace": SPACE,
                    "labels": labels,
                    "ownerReferences": owners,
                },
                "spec": {"nodeName": node, "containers": [{"name": "bookie", "image": image}]},
                "status": {"conditions": [condition], **({} if ready else CRASHED)},
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
            cookie = Cookie(
                bookie=bookie,
                journal_dirs=("/data",),
                ledger_dirs=("/data",),
                instance=cluster.instance,
                location=Location(ZoneName(zone), domain),
            )
            await cookie_store.create(cluster, cookie)
        await store.close()

    async def write_ledger(self, *names: str) -> LedgerId:
        """Let an open ledger name these bookies; without names, all that have cookies."""
        store = await self.open(await self.address())
        cluster = await clusters.open_cluster(store)
        found = [BookieId(name) for name in names] or await cookie_store.ids(cluster)
        size = len(found)
        ledger = LedgerMetadata(
            ensemble_size=size,
            write_quorum=size,
            ack_quorum=size // 2 + 1,
            fragments=(Fragment(EntryId(0), tuple(found)),),
            digest=Digest.CRC32C,
            password=b"",
            create_token=41,
        )
        created = await ledgers.create(cluster, ledger)
        await store.close()
        return created.id

    async def delete_ledger(self, ledger_id: LedgerId) -> None:
        """Let a ledger be no more."""
        store = await self.open(await self.address())
        cluster = await clusters.open_cluster(store)
        await ledgers.delete(cluster, ledger_id, deleter=Deleter(by="test", at_ms=1))
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
        said = (await self.get())["status"]["conditions"]
        return {item["type"]: (item["status"], item["reason"]) for item in said}

    async def message(self, kind: str) -> str:
        said = (await self.get())["status"]["conditions"]
        return next(str(item["message"]) for item in said if item["type"] == kind)

    async def nodes_in_store(self) -> Sequence[str]:
        """Give the paths in the metadata store under the cluster's two trees."""
        store = await self.open(URI)
        found, todo = list[str](), [store.root, f"{store.root}.zonekeeper"]
        while todo:
            path = todo.pop()
            children = await store.children(path, sync=True)
            if children is not None:
                found.append(path)
                todo += [f"{path}/{name}" for name in children]
        await store.close()
        return sorted(found)
