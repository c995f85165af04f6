"""One look as one value: the resource, the objects that belong to it, and the root. Pure.

A turn creates and deletes objects because of this value. So everything in it is read at the start
of the turn, from the API server and the metadata store, and never from a cache.
"""

import re
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field

from zonekeeper.operator.certificates.sights import CertificateSight
from zonekeeper.operator.cluster import owned_objects, repair_objects
from zonekeeper.operator.cluster.kept_set import KeptSet
from zonekeeper.operator.cluster.kept_spec import KeptSpec
from zonekeeper.operator.cluster.owned_objects import controller_of
from zonekeeper.operator.kubernetes.api import (
    BUDGETS,
    DEPLOYMENTS,
    FINALIZER,
    INSTANCE_LABEL,
    LEFT_LABEL,
    POLICIES,
    REVISION_LABEL,
    STATEFUL_SETS,
    ZONE_LABEL,
    Json,
    ObjectKind,
)
from zonekeeper.operator.roots import roots
from zonekeeper.operator.sight import moments, pod_trouble
from zonekeeper.operator.sight.formats_pod import FormatsPod
from zonekeeper.operator.sight.holdings import Holdings
from zonekeeper.operator.sight.ledger_sight import LedgerSight
from zonekeeper.operator.sight.node_sight import NodeSight
from zonekeeper.operator.sight.pod_trouble import PodTrouble
from zonekeeper.operator.sight.room_sight import RoomSight
from zonekeeper.operator.sight.watch_sight import WatchSight
from zonekeeper.placement.base.ids import BookieId, ZoneName


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A bookie's pod."""

    name: BookieId
    zone: ZoneName
    ready: bool
    #: None: the pod is not bound to a node yet.
    node: str | None
    #: The revision of the StatefulSet's template that the pod was made from.
    revision: str
    #: The uid of the StatefulSet that made the pod; None: no object controls it.
    controller: str | None
    #: What keeps the pod from running; None: nothing that Kubernetes says.
    trouble: PodTrouble | None = None
    #: Another pod of the same name has another uid.
    uid: str = ""
    #: The pod is deleted, and its process may still run.
    leaving: bool = False
    #: The image of its bookie; empty: it is not known.
    image: str = ""
    #: When it was made (wall time of the API server); 0: it is not known.
    made_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairPod:
    """The pod of an autorecovery process."""

    name: str
    zone: ZoneName
    #: The Deployment that it is of.
    deployment: str
    ready: bool
    #: What keeps the pod from running; None: nothing that Kubernetes says.
    trouble: PodTrouble | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeClaim:
    """The claim of a bookie's volume."""

    uid: str
    #: The instance whose data the volume holds; None: the claim lacks the label.
    instance: str | None
    #: Its bookie was removed, and the volume was left.
    is_left: bool = False
    #: The size that it asks for; empty: it is not known.
    size: str = ""
    #: The size that it has; None: no volume is bound to it yet.
    capacity: str | None = None
    #: None: it names no storage class.
    storage_class: str | None = None
    leaving: bool = False
    #: The name of the volume that it is bound to; empty: it is bound to none.
    volume: str = ""
    #: Since when the file system waits for the pod to be made anew (wall time); None: it does not.
    pending_ms: int | None = None

    @property
    def is_bound(self) -> bool:
        """Has it a volume? The size of one without cannot change."""
        return self.capacity is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class LostNode:
    """A bookie whose volume is on a node that is no more."""

    bookie: BookieId
    zone: ZoneName
    #: The uids of its pod, which was never on a node, and of its claim.
    pod: str
    claim: str
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanSight:
    """What an earlier resource of this name has left, and nobody controls."""

    #: Bookies' pods of StatefulSets that nobody controls.
    pods: tuple[Pod, ...] = ()
    #: ControllerRevisions with specs that were legal once.
    revisions: tuple[Json, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Everything that one look has read."""

    resource: Json
    #: Objects with the cluster's label or with a name that it needs, by plural and name.
    owned: Mapping[tuple[str, str], Json]
    pods: tuple[Pod, ...]
    #: The pods of autorecovery processes.
    repairers: tuple[RepairPod, ...] = ()
    #: The pods that ask images for their formats.
    asked: tuple[FormatsPod, ...] = ()
    #: The pods that give bookies empty disks; they are looked for where there may be some.
    refilling: tuple[FormatsPod, ...] = ()
    #: The pods that write while a zone is away for a drill; they are looked for where one is told.
    probes: tuple[FormatsPod, ...] = ()
    #: The claims of bookies' volumes by name, also those of an earlier cluster.
    claims: Mapping[str, VolumeClaim]
    root: roots.Facts
    #: The nodes that bookies stand on.
    nodes: NodeSight = field(default_factory=NodeSight)
    #: Budgets of others that choose bookies of this resource, by name.
    foreign_budgets: tuple[str, ...] = ()
    #: The specs that were legal once, the newest first; all but that one may be removed.
    kept: tuple[KeptSpec, ...] = ()
    #: The StatefulSets that are being made again, the newest first.
    kept_sets: tuple[KeptSet, ...] = ()
    #: The storage classes of volumes that shall grow: may they? None: that may not be read.
    growable: Mapping[str, bool | None] = field(default_factory=dict)
    #: What an earlier resource of this name has left.
    orphans: OrphanSight = field(default_factory=OrphanSight)
    #: The bookies whose volumes are on nodes that are no more, in order.
    lost_nodes: tuple[LostNode, ...] = ()
    #: The rooms of bookies; they are read where volumes grow by themselves.
    rooms: RoomSight = field(default_factory=RoomSight)
    #: What was seen of the zone watch, up to this look.
    watched: WatchSight = field(default_factory=WatchSight)
    #: What was seen of the Secrets with certificates.
    certificates: CertificateSight = field(default_factory=CertificateSight)
    #: What is known of bookies that the resource does not ask for.
    holdings: Holdings = field(default_factory=Holdings)
    #: What the act of an order has refused, in words, by the order's token.
    refused_orders: Mapping[str, str] = field(default_factory=dict)
    #: The failures of the last turn's acts, in words.
    failures: tuple[str, ...] = ()
    #: The version of the operator that looks; empty: it is not known.
    version: str = ""
    #: Wall time; 0: it is not known, as in a look ahead.
    wall_ms: int = 0
    #: When the resource was made, in wall time of the API server; 0: it is not known.
    made_ms: int = 0
    #: The time of the last look at which bookies, their starts or the gates were others than at the
    #: look before, on the clock of ``watched``; None: no such look.
    changed_ms: int | None = None
    #: The ledgers, as they were read since that change; None: not read yet.
    ledgers: LedgerSight | None = None

    @property
    def uid(self) -> str:
        """The uid of this very resource; another resource of its name has another uid."""
        return str(self.resource["metadata"]["uid"])

    @property
    def generation(self) -> int:
        """The version of the spec."""
        return int(self.resource["metadata"]["generation"])

    @property
    def leaving(self) -> bool:
        """Is the resource deleted, so that only finalizers keep it?"""
        return bool(self.resource["metadata"].get("deletionTimestamp"))

    @property
    def held(self) -> bool:
        """Is the operator's finalizer on the resource?"""
        return FINALIZER in (self.resource["metadata"].get("finalizers") or ())

    @property
    def status(self) -> Json:
        """The status that an earlier turn wrote."""
        found: Json = self.resource.get("status") or {}
        return found

    @property
    def sets(self) -> dict[str, Json]:
        """Give the StatefulSets that this resource controls, by name."""
        return self._controlled(STATEFUL_SETS)

    @property
    def replicas(self) -> dict[str, int]:
        """Give the number of bookies of each of these StatefulSets, and of those made again."""
        kept = {one.set_name: int(one.body["spec"]["replicas"]) for one in reversed(self.kept_sets)}
        return kept | {name: int(item["spec"]["replicas"]) for name, item in self.sets.items()}

    @property
    def deployments(self) -> dict[str, Json]:
        """Give the Deployments that this resource controls, by name."""
        return self._controlled(DEPLOYMENTS)

    @property
    def budgets(self) -> dict[str, Json]:
        """Give the disruption budgets that this resource controls, by name."""
        return self._controlled(BUDGETS)

    @property
    def policies(self) -> dict[str, Json]:
        """Give the NetworkPolicies that this resource controls, by name."""
        return self._controlled(POLICIES)

    @property
    def instance(self) -> str | None:
        """The instance that this resource was built as; None: it was not built yet."""
        return self.status.get("instance")

    def _controlled(self, kind: ObjectKind) -> dict[str, Json]:
        return {
            name: item
            for (plural, name), item in sorted(self.owned.items())
            if plural == kind.plural and controller_of(item) == self.uid
        }


def bookies(
    items: Iterable[Json],
    resource: Json,
    owned: Iterable[Json],
    kept_sets: Iterable[KeptSet] = (),
) -> tuple[Pod, ...]:
    """Read the pods that are bookies of this resource.

    A pod is one if a StatefulSet of this resource controls it. A copy of a pod that a person made
    has the same labels and is none. When the resource is deleted, its StatefulSets go before their
    pods do; then a pod is a bookie by its name. So is a pod that no object controls while its
    StatefulSet is being made again.
    """
    meta = resource["metadata"]
    ours = {item["metadata"]["uid"] for item in owned if controller_of(item) == meta["uid"]}
    found = tuple(map(pod, items))
    if meta.get("deletionTimestamp"):
        return tuple(one for one in found if _is_named_as_ours(one, meta["name"]))
    again = {one.set_name for one in kept_sets}
    return tuple(one for one in found if one.controller in ours or is_orphan(one, again))


def is_orphan(found: Pod, again: Container[str]) -> bool:
    """Has this pod lost its StatefulSet, which is one of those that are made again?"""
    name, _, ordinal = found.name.rpartition("-")
    return found.controller is None and name in again and ordinal.isdecimal()


def _is_named_as_ours(found: Pod, cluster: str) -> bool:
    return re.fullmatch(rf"{re.escape(f'{cluster}-{found.zone}')}-[0-9]+", found.name) is not None


def orphans(items: Iterable[Json], revisions: Iterable[Json], owned: Iterable[Json]) -> OrphanSight:
    """Find bookies' pods and kept specs whose resource was deleted and left them."""
    sets = {item["metadata"]["uid"] for item in owned if controller_of(item) is None}
    return OrphanSight(
        pods=tuple(one for one in map(pod, items) if one.controller in sets),
        revisions=tuple(one for one in revisions if controller_of(one) is None),
    )


def repairers(items: Iterable[Json], cluster: str) -> tuple[RepairPod, ...]:
    """Read the pods that are of the Deployments of this resource.

    A ReplicaSet controls such a pod, and its name begins with the name of a Deployment. A copy of a
    pod that a person made has the same labels and is none.
    """
    return tuple(found for item in items if (found := _repairer(item, cluster)) is not None)


def _repairer(item: Json, cluster: str) -> RepairPod | None:
    zone = item["metadata"].get("labels", {}).get(ZONE_LABEL, "")
    deployment = repair_objects.deployment_name(cluster, zone)
    for owner in item["metadata"].get("ownerReferences") or ():
        if owner.get("controller") and str(owner.get("name", "")).startswith(f"{deployment}-"):
            return RepairPod(
                name=item["metadata"]["name"],
                zone=ZoneName(zone),
                deployment=deployment,
                ready=_is_ready(item),
                trouble=pod_trouble.of_pod(item),
            )
    return None


def claim(item: Json) -> VolumeClaim:
    """Read the claim of a volume."""
    meta, spec, status = item["metadata"], item.get("spec") or {}, item.get("status") or {}
    capacity = (status.get("capacity") or {}).get("storage")
    return VolumeClaim(
        uid=meta["uid"],
        instance=meta.get("labels", {}).get(INSTANCE_LABEL),
        size=str(((spec.get("resources") or {}).get("requests") or {}).get("storage", "")),
        capacity=None if capacity is None or status.get("phase") != "Bound" else str(capacity),
        storage_class=spec.get("storageClassName"),
        volume=str(spec.get("volumeName") or ""),
        leaving=bool(meta.get("deletionTimestamp")),
        pending_ms=_pending_ms(status),
        is_left=LEFT_LABEL in meta.get("labels", {}),
    )


def _pending_ms(status: Json) -> int | None:
    for one in status.get("conditions") or ():
        if one["type"] == "FileSystemResizePending" and one["status"] == "True":
            return moments.read_ms(one.get("lastTransitionTime"))
    return None


def pod(item: Json) -> Pod:
    """Read a pod."""
    meta = item["metadata"]
    return Pod(
        name=BookieId(meta["name"]),
        zone=ZoneName(meta.get("labels", {}).get(ZONE_LABEL, "")),
        ready=_is_ready(item),
        node=item.get("spec", {}).get("nodeName"),
        revision=meta.get("labels", {}).get(REVISION_LABEL, ""),
        controller=controller_of(item),
        uid=str(meta.get("uid", "")),
        leaving=bool(meta.get("deletionTimestamp")),
        trouble=pod_trouble.of_pod(item),
        image=owned_objects.image_of(item.get("spec", {})),
        made_ms=moments.read_ms(meta.get("creationTimestamp")) or 0,
    )


def _is_ready(item: Json) -> bool:
    conditions = item.get("status", {}).get("conditions") or ()
    said = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return said and not item["metadata"].get("deletionTimestamp")
