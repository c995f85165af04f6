"""The autorecovery processes of the operator's world: their pods, and their zone watch.

And the pods that ask images for their formats.

The pods follow from the Deployments, as Kubernetes' controllers make them. The zone watch is the
real decision (``watch.evaluate``), and its records stand in the world's metadata store.
"""

import functools
from collections.abc import AsyncIterator, Iterator, Mapping, Set
from dataclasses import replace
from typing import Final, Protocol, TypeAlias, TypeVar

from zonekeeper.bookie.life import own_formats
from zonekeeper.metadata.bookies import bookie_watch, cookie_store
from zonekeeper.metadata.cluster import policy_store, zone_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.record_store import Codec
from zonekeeper.metadata.formats import records, release_formats
from zonekeeper.metadata.formats.release_formats import ReleaseFormats
from zonekeeper.metadata.store import update
from zonekeeper.operator.kubernetes.api import DEPLOYMENTS, PODS, Json
from zonekeeper.operator.kubernetes.memory_api import MemoryKubernetes
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.topology import Bookie, Registration, Topology
from zonekeeper.placement.policy.rules import Policy
from zonekeeper.placement.zones import watch
from zonekeeper.placement.zones.gate import Person
from zonekeeper.placement.zones.maintenance import Maintenance
from zonekeeper.placement.zones.watch import Health, Sighting
from zonekeeper.placement.zones.zone_effects import Effect
from zonekeeper.placement.zones.zone_records import ClusterRecord, ZoneRecord

R = TypeVar("R", ZoneRecord, ClusterRecord)
_Seen: TypeAlias = tuple[Policy, tuple[Bookie, ...], tuple[Maintenance, ...]]
_Told: TypeAlias = tuple[ZoneRecord, tuple[Effect, ...]]

#: The formats of this checkout.
OURS: Final = own_formats.of_this_release()

ANN: Final = Person(name="ann", reason="a drill")

#: The time from one evaluation to the next; it counts.
STEP_MS: Final = 60_000
#: Together they take longer than any debounce and any grace.
EVALUATIONS: Final = 20


class _Changing(Protocol):
    """A person's order to a gate, as ``watch`` carries it out."""

    def __call__(
        self, record: ZoneRecord, *, person: Person, policy: Policy, wall_ms: int
    ) -> _Told: ...


async def keep_pods(kubernetes: MemoryKubernetes, space: str) -> None:
    """Do what the controllers of Deployments do: their pods are there and ready, and no others."""
    wanted: dict[str, Json] = {}
    for item in await kubernetes.list(DEPLOYMENTS, space):
        for number in range(item["spec"]["replicas"]):
            wanted[f"{item['metadata']['name']}-5d8f-{number}"] = item
    for pod in await kubernetes.list(PODS, space):
        of_ours = any(one["kind"] == "ReplicaSet" for one in pod["metadata"]["ownerReferences"])
        if of_ours and pod["metadata"]["name"] not in wanted:
            kubernetes.mark_deleted(PODS, space, pod["metadata"]["name"])
    for name, item in wanted.items():
        if await kubernetes.get(PODS, space, name) is None:
            put_pod(kubernetes, name, item)


def put_pod(kubernetes: MemoryKubernetes, name: str, item: Json, *, ready: bool = True) -> None:
    """Let a pod of a Deployment be there."""
    meta = item["metadata"]
    owner = {
        "kind": "ReplicaSet",
        "name": f"{meta['name']}-5d8f",
        "uid": f"uid-{meta['name']}-5d8f",
        "controller": True,
    }
    body = {
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "labels": item["spec"]["template"]["metadata"]["labels"],
            "ownerReferences": [owner],
        },
        "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
    }
    kubernetes.put(PODS, body)


class WatchingProcess:
    """A zone watch that evaluates when it is told to, many times at once if it sees a change.

    So each time its start grace is over, and it is as sure of what it sees as it can be. Where it
    sees what it saw before, only its counters move.
    """

    def __init__(self) -> None:
        self._instance = ""
        self._seen: tuple[_Seen, ...] = ()
        self._health = Health()
        self._held: set[ZoneName] = set()

    async def evaluate(self, cluster: Cluster) -> None:
        """Evaluate, and write all records; without a policy nothing is evaluated."""
        policy = await policy_store.read(cluster)
        if policy is None:
            return
        if cluster.instance != self._instance:
            self._instance, self._health, self._seen = cluster.instance, Health(), ()
        declared = tuple([one async for one in _declared(cluster)])
        seen = (replace(policy, instance="", version=1), tuple(await _bookies(cluster)), declared)
        if self._seen[-1:] == (seen,):
            self._health = _counted_on(self._health)
        else:
            self._seen = (*self._seen, seen)
            self._health = evaluated(self._seen)
            for zone in sorted(self._held):
                self._change(zone, watch.hold, policy)
        standing = {*await zone_store.zone_names(cluster)}
        known = {*policy.placement.zones, *(one.zone for one in _places(seen[1])), *standing}
        for zone, record in self._health.zones.items():
            if zone not in known:
                continue  # its record was removed, and nothing of it is left
            await _write(cluster, cluster.root.gate(zone), zone_store.ZONE, record)
        assert self._health.cluster is not None
        await _write(
            cluster, cluster.root.beside("cluster"), zone_store.CLUSTER, self._health.cluster
        )

    async def hold(self, cluster: Cluster, zone: ZoneName) -> None:
        """Let a person hold a zone, if there is a record of it."""
        self._held |= {zone} & self._health.zones.keys()
        await self._order(cluster, zone, watch.hold)

    async def release(self, cluster: Cluster, zone: ZoneName) -> None:
        """Let a person end the hold."""
        self._held -= {zone}
        await self._order(cluster, zone, _released)

    async def _order(self, cluster: Cluster, zone: ZoneName, change: _Changing) -> None:
        policy = await policy_store.read(cluster)
        if policy is not None and zone in self._health.zones:
            self._change(zone, change, policy)
            record = self._health.zones[zone]
            await _write(cluster, cluster.root.gate(zone), zone_store.ZONE, record)

    def _change(self, zone: ZoneName, change: _Changing, policy: Policy) -> None:
        before = self._health.zones[zone]
        record, _ = change(before, person=ANN, policy=policy, wall_ms=1)
        self._health = replace(self._health, zones={**self._health.zones, zone: record})


def _places(bookies: tuple[Bookie, ...]) -> Iterator[Location]:
    yield from (one.location for one in bookies if one.location is not None)


async def _write(cluster: Cluster, path: str, codec: Codec[R], record: R) -> None:
    """Write a record, whatever stands there: it need not be read for that."""
    value = records.render(codec.render(record), cluster.instance)
    await update.update(cluster.store, path, lambda _: update.Store(value))


def _released(record: ZoneRecord, *, person: Person, policy: Policy, wall_ms: int) -> _Told:
    token = record.gate.token
    return watch.release(record, token=token, person=person, policy=policy, wall_ms=wall_ms)


@functools.cache
def evaluated(seen: tuple[_Seen, ...], evaluations: int = EVALUATIONS) -> Health:
    """Give the state of a zone watch that has seen all this, one after the other."""
    *before, (policy, bookies, declared) = seen
    health = evaluated(tuple(before)) if before else Health()
    sighting = Sighting(bookies=Topology(bookies), maintenance=declared)
    for number in range(evaluations):
        now_ms = (len(before) * EVALUATIONS + number) * STEP_MS
        health, _ = watch.evaluate(health, sighting, policy, now_ms=now_ms, wall_ms=now_ms)
    return health


def _counted_on(health: Health) -> Health:
    """Give the state after one more evaluation that found nothing new."""
    assert health.cluster is not None
    zones = {
        zone: replace(record, evaluation=record.evaluation + 1)
        for zone, record in health.zones.items()
    }
    cluster = replace(health.cluster, evaluation=health.cluster.evaluation + 1)
    return replace(health, zones=zones, cluster=cluster)


async def _declared(cluster: Cluster) -> AsyncIterator[Maintenance]:
    for name in await zone_store.maintenance_names(cluster):
        found = await zone_store.read_maintenance(cluster, name)
        assert found is not None
        yield found


async def _bookies(cluster: Cluster) -> list[Bookie]:
    registered = await bookie_watch.registrations(cluster)
    bookies = []
    for bookie in await cookie_store.ids(cluster):
        stored = await cookie_store.read(cluster, bookie)
        assert stored is not None
        standing = registered.get(bookie, Registration.ABSENT)
        place = stored.cookie.location
        bookies.append(Bookie(id=bookie, location=place, registration=standing))
    return bookies


def answer(
    kubernetes: MemoryKubernetes,
    pod: Json,
    formats: Mapping[str, ReleaseFormats],
    missing: Set[str],
) -> None:
    """Let a pod that asks an image for its formats have its answer; without one it is OURS."""
    if "containerStatuses" in pod.get("status", {}):
        return
    image = pod["spec"]["containers"][0]["image"]
    state: Json = {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}
    if image not in missing:
        said = release_formats.render(formats.get(image, OURS))
        state = {"terminated": {"exitCode": 0, "reason": "Completed", "message": said}}
    statuses = [{"name": "formats", "restartCount": 0, "state": state}]
    kubernetes.put(PODS, pod | {"status": {"containerStatuses": statuses}})
