"""Reads everything that a turn decides from, at the API server and in the metadata store."""

import datetime
import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib import metadata
from typing import Final

from zonekeeper.operator.certificates import reading, renewing
from zonekeeper.operator.certificates.sights import CertificateSight
from zonekeeper.operator.cluster import kept_set, kept_spec, owned_objects
from zonekeeper.operator.cluster.choices import LostVolume
from zonekeeper.operator.cluster.desired import Desired, RefusedResource
from zonekeeper.operator.kubernetes.api import (
    BUDGETS,
    CLAIMS,
    CLUSTER_LABEL,
    CONTROLLER_REVISIONS,
    FORMATS_LABEL,
    KEEPS_LABEL,
    NODES,
    OWNED,
    PODS,
    POLICIES,
    PROBES_LABEL,
    REFILLS_LABEL,
    REPAIRS_LABEL,
    Json,
    Kubernetes,
    NotPermittedError,
    ObjectKind,
)
from zonekeeper.operator.plan.drills import drill_orders, drill_record
from zonekeeper.operator.plan.scaling import leaving, scaling
from zonekeeper.operator.plan.volumes import filling, healing, replace_memory, replacing
from zonekeeper.operator.roll import memory, order
from zonekeeper.operator.roots import roots
from zonekeeper.operator.roots.roots import RootFound, Roots
from zonekeeper.operator.run import holdings_reading, store_credentials, volume_reading
from zonekeeper.operator.run.holdings_reading import HoldingsQuestion, answered
from zonekeeper.operator.run.store_credentials import NoCredentialsError
from zonekeeper.operator.sight import (
    budget_sight,
    formats_pod,
    holdings,
    node_sight,
    observed,
    refill_pod,
    room_sight,
    watch_sight,
)
from zonekeeper.operator.sight.formats_pod import FormatsPod
from zonekeeper.operator.sight.holdings import Holdings
from zonekeeper.operator.sight.ledger_sight import LedgerSight
from zonekeeper.operator.sight.node_sight import NodeSight
from zonekeeper.operator.sight.observed import Observed, Pod, VolumeClaim
from zonekeeper.operator.sight.room_sight import RoomSight
from zonekeeper.operator.sight.watch_sight import WatchSight
from zonekeeper.placement.base.ids import BookieId

#: The version of this operator.
VERSION: Final = metadata.version("zonekeeper")


@dataclass(frozen=True, slots=True, kw_only=True)
class LookTime:
    """The time of a look, on both clocks."""

    #: Never goes back, for decisions.
    now_ms: int
    #: Wall time, for what outlives the process.
    wall_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """What earlier turns of this process leave to the next one."""

    watched: WatchSight = field(default_factory=WatchSight)
    holdings: Holdings = field(default_factory=Holdings)
    nodes: NodeSight = field(default_factory=NodeSight)
    rooms: RoomSight = field(default_factory=RoomSight)
    #: None: no turn has looked at certificates.
    certificates: CertificateSight | None = None
    #: The failures of the last turn's acts, in words.
    failures: tuple[str, ...] = ()
    #: What the act of an order has refused, in words, by the order's token.
    refused_orders: Mapping[str, str] = field(default_factory=dict)
    #: The bookies, their starts and the gates as the last turn saw them; None: it saw none.
    basis: Hashable = None
    #: The time of the last turn that saw others than the one before.
    changed_ms: int | None = None
    #: What the last listing of the ledgers has seen.
    ledgers: LedgerSight | None = None


async def look(
    kubernetes: Kubernetes,
    root: Roots,
    resource: Json,
    wanted: Desired | RefusedResource,
    earlier: Earlier,
    moment: LookTime,
) -> Observed:
    """Read everything but the ledgers; raises ``KubernetesError`` where Kubernetes is away."""
    meta = resource["metadata"]
    namespace, name = meta["namespace"], meta["name"]
    labels = f"{CLUSTER_LABEL}={name}"
    owned = {
        (kind.plural, item["metadata"]["name"]): item
        for kind in OWNED
        if kind is not BUDGETS  # those of others are looked at, too
        for item in await _listed(kubernetes, kind, namespace, labels)
    }
    owned |= _of(name, budgets := await kubernetes.list(BUDGETS, namespace))
    keeps = f"{KEEPS_LABEL}={name}"
    revisions = await kubernetes.list(CONTROLLER_REVISIONS, namespace, labels=keeps)
    kept, kept_sets = kept_spec.read(revisions, resource), kept_set.read(revisions, resource)
    of_kept = kept_spec.cluster_of(kept, resource, wanted)
    built = [one for one in (wanted, of_kept) if isinstance(one, Desired)]
    for one in built if of_kept is not wanted else built[:1]:
        owned |= await _by_name(kubernetes, one, owned)
    repair_pods = await kubernetes.list(PODS, namespace, labels=f"{REPAIRS_LABEL}={name}")
    standing = await kubernetes.list(PODS, namespace, labels=labels)
    pods = observed.bookies(standing, resource, owned.values(), kept_sets)
    claims = _claims(name, await kubernetes.list(CLAIMS, namespace, labels=labels))
    seen = Observed(
        resource=resource,
        owned=owned,
        pods=pods,
        claims=claims,
        growable=await volume_reading.growable(kubernetes, wanted, of_kept, claims),
        nodes=await _nodes(kubernetes, earlier.nodes, pods, built, now_ms=moment.now_ms),
        foreign_budgets=budget_sight.foreign(budgets, standing, resource),
        repairers=observed.repairers(repair_pods, name),
        asked=await _asked(kubernetes, resource),
        refilling=await _refilling(kubernetes, resource, built, pods),
        probes=await _probes(kubernetes, resource),
        root=roots.NotAsked(),
        kept=kept,
        kept_sets=kept_sets,
        orphans=observed.orphans(standing, revisions, owned.values()),
        failures=earlier.failures,
        refused_orders=earlier.refused_orders,
        version=VERSION,
        wall_ms=moment.wall_ms,
        made_ms=_made_ms(resource),
    )
    seen = replace(seen, lost_nodes=await volume_reading.lost_nodes_of(kubernetes, seen))
    for_work = _may_work(seen, built)
    for_rooms = filling.wants_rooms(wanted, earlier.rooms, moment.now_ms)
    address = kept_spec.address(kept, resource)
    found = await _found(kubernetes, root, address, built, for_work=for_work, for_rooms=for_rooms)
    looked = _with_root(seen, found, earlier, now_ms=moment.now_ms)
    looked = await volume_reading.with_classes(kubernetes, wanted, looked)
    judged = wanted if isinstance(wanted, Desired) else of_kept
    known = still_held(judged, looked, earlier.holdings, moment.now_ms)
    return replace(
        looked,
        holdings=known,
        certificates=await _certificates(kubernetes, of_kept or judged, resource, earlier, moment),
    )


def _may_work(seen: Observed, built: Iterable[Desired]) -> bool:
    """Is there perhaps planned work? Then the root is asked what that needs."""
    return (
        is_at_work(seen)
        or healing.is_wanted(seen)
        or replacing.is_wanted(seen)
        or budget_sight.is_drain(seen)
        or drill_orders.is_wanted(seen)
        or any(
            order.is_pending(order.zone_sets(one, seen)) or scaling.is_wanted(one, seen)
            for one in built
        )
    )


async def _found(
    kubernetes: Kubernetes,
    root: Roots,
    address: str | None,
    built: list[Desired],
    *,
    for_work: bool,
    for_rooms: bool,
) -> roots.Facts:
    """Look at the root, with the credentials that the resource names now."""
    try:
        root.way = await store_credentials.way(kubernetes, root.files, built[0] if built else None)
    except NoCredentialsError as error:
        return roots.Unreachable(str(error))
    return await root.look(address, for_work=for_work, for_rooms=for_rooms)


async def _listed(
    kubernetes: Kubernetes, kind: ObjectKind, namespace: str, labels: str
) -> list[Json]:
    """List objects that the operator makes.

    The rights of an older release do not have NetworkPolicies. Clusters without them go on; those
    that ask for them say what the API server refuses.
    """
    try:
        return await kubernetes.list(kind, namespace, labels=labels)
    except NotPermittedError:
        if kind is not POLICIES:
            raise
        return []


async def _certificates(
    kubernetes: Kubernetes,
    standing: Desired | None,
    resource: Json,
    earlier: Earlier,
    moment: LookTime,
) -> CertificateSight:
    """Read the certificates of the cluster; an edit that is blocked changes none of them."""
    if standing is None:
        return CertificateSight()
    seen = await reading.look(kubernetes, standing, resource)
    return renewing.followed(earlier.certificates, seen, now_ms=moment.now_ms)


def _of(cluster: str, budgets: list[Json]) -> dict[tuple[str, str], Json]:
    """Pick the budgets that have the label of a cluster."""
    return {
        (BUDGETS.plural, one["metadata"]["name"]): one
        for one in budgets
        if one["metadata"].get("labels", {}).get(CLUSTER_LABEL) == cluster
    }


def _made_ms(resource: Json) -> int:
    """Give when the resource was made; 0: it does not say so."""
    text = resource["metadata"].get("creationTimestamp")
    try:
        return int(datetime.datetime.fromisoformat(str(text)).timestamp() * 1_000)
    except ValueError:
        return 0


def _with_root(seen: Observed, found: roots.Facts, earlier: Earlier, *, now_ms: int) -> Observed:
    """Give what was seen with the root, and with what earlier turns saw that still holds."""
    basis = basis_of(found)
    rooms = earlier.rooms.still(now_ms)
    if isinstance(found, RootFound) and found.rooms is not None:
        claims = {
            bookie: seen.claims[name].uid
            for bookie in found.rooms
            if (name := owned_objects.claim_name(bookie)) in seen.claims
        }
        rooms = room_sight.of(found.rooms, claims, now_ms=now_ms)
    has_changed = earlier.basis is not None and basis != earlier.basis
    ledgers = earlier.ledgers
    return replace(
        seen,
        root=found,
        rooms=rooms,
        watched=watch_sight.follow(earlier.watched, found, now_ms=now_ms),
        changed_ms=now_ms if has_changed else earlier.changed_ms,
        ledgers=None if ledgers is None or ledgers.basis != basis else ledgers,
    )


def is_at_work(seen: Observed) -> bool:
    """Has a step of the roll begun?"""
    return memory.read(seen.status).step is not None


def basis_of(found: roots.Facts) -> Hashable:
    """Give what a listing of the ledgers relies on; None: it is not known.

    While it stays the same no bookie was lost, has started anew, or has come, and no gate has
    changed.
    """
    if not isinstance(found, roots.RootFound) or found.work is None:
        return None
    starts = tuple(
        sorted(
            (name, -1 if one is None else one.boot_epoch)
            for name, one in found.work.records.items()
        )
    )
    places = tuple(sorted((name, str(where)) for name, where in found.locations.items()))
    gates = tuple(
        sorted((zone, str(one.gate.permission)) for zone, one in found.gates.zones.items())
    )
    return found.instance, starts, places, gates, found.registered, found.read_only


def question(judged: Desired | None, seen: Observed, moment: LookTime) -> HoldingsQuestion | None:
    """Give the listing that is due, about bookies that have cookies and are not asked for."""
    found = seen.root
    if judged is None or not isinstance(found, RootFound):
        return None
    beyond, serving = _beyond(judged, seen, found)
    if not seen.holdings.is_due(beyond, moment.now_ms):
        return None
    return HoldingsQuestion(
        address=kept_spec.address(seen.kept, seen.resource) or "",
        instance=found.instance,
        beyond=beyond,
        serving=serving,
        asked_ms=moment.now_ms,
    )


def still_held(judged: Desired | None, seen: Observed, before: Holdings, now_ms: int) -> Holdings:
    """Give what still counts of earlier listings."""
    found = seen.root
    if judged is None or not isinstance(found, RootFound):
        return Holdings()
    beyond, serving = _beyond(judged, seen, found)
    return before.still(beyond, serving, now_ms)


def _beyond(
    judged: Desired, seen: Observed, found: RootFound
) -> tuple[frozenset[BookieId], frozenset[BookieId]]:
    """Give the bookies of which a proof is needed, and all that serve and are not asked for."""
    serving = holdings.run_beyond(judged, seen.replicas).values()
    emptied = replacing.to_be_listed(seen)
    due = leaving.to_be_listed(judged, seen, found) | emptied
    return due, emptied.union(*serving)


async def look_whole(
    kubernetes: Kubernetes,
    root: Roots,
    resource: Json,
    wanted: Desired | RefusedResource,
    earlier: Earlier,
    moment: LookTime,
) -> Observed:
    """Read everything, and wait for the listing of the ledgers that is due, if one is.

    This is for looks that have no next turn. A turn does not wait.
    """
    seen = await look(kubernetes, root, resource, wanted, earlier, moment)
    due = question(judged_of(wanted, seen), seen, moment)
    if due is None:
        return seen
    named = await holdings_reading.asked(root, due)
    return replace(seen, holdings=answered(seen.holdings, due, named, now_ms=moment.now_ms))


def judged_of(wanted: Desired | RefusedResource, seen: Observed) -> Desired | None:
    """Give the cluster that a resource asks for, or asked for before; None: neither is legal."""
    if isinstance(wanted, Desired):
        return wanted
    return kept_spec.cluster_of(seen.kept, seen.resource, wanted)


async def _asked(kubernetes: Kubernetes, resource: Json) -> tuple[FormatsPod, ...]:
    """Read the pods that this resource controls and that ask images for their formats."""
    meta = resource["metadata"]
    labels = f"{FORMATS_LABEL}={meta['name']}"
    items = await kubernetes.list(PODS, meta["namespace"], labels=labels)
    ours = (item for item in items if owned_objects.controller_of(item) == meta["uid"])
    return tuple(map(formats_pod.read, ours))


async def _refilling(
    kubernetes: Kubernetes, resource: Json, built: Iterable[Desired], pods: tuple[Pod, ...]
) -> tuple[FormatsPod, ...]:
    """Read the pods that give bookies empty disks, where there may be some."""
    is_chosen = any(one.heal.lost_volume is not LostVolume.TELL for one in built)
    is_noted = replace_memory.read(resource.get("status") or {}) is not None
    if not is_chosen and not is_noted and all(pod.ready for pod in pods):
        return ()
    meta = resource["metadata"]
    labels = f"{REFILLS_LABEL}={meta['name']}"
    items = await kubernetes.list(PODS, meta["namespace"], labels=labels)
    ours = (item for item in items if owned_objects.controller_of(item) == meta["uid"])
    return tuple(map(refill_pod.read, ours))


async def _probes(kubernetes: Kubernetes, resource: Json) -> tuple[FormatsPod, ...]:
    """Read the pods that write during drills, where the status tells of one."""
    if drill_record.read(resource.get("status") or {}) is None:
        return ()
    meta = resource["metadata"]
    items = await kubernetes.list(PODS, meta["namespace"], labels=f"{PROBES_LABEL}={meta['name']}")
    ours = (item for item in items if owned_objects.controller_of(item) == meta["uid"])
    return tuple(map(formats_pod.read, ours))


async def _by_name(
    kubernetes: Kubernetes, wanted: Desired, known: dict[tuple[str, str], Json]
) -> dict[tuple[str, str], Json]:
    """Find objects with a name that the cluster needs and without its label: mostly of others."""
    found = {}
    for kind, name in owned_objects.names(wanted):
        key = (kind.plural, name)
        if key in known:
            continue
        try:
            item = await kubernetes.get(kind, wanted.namespace, name)
        except NotPermittedError:
            if kind is not POLICIES:
                raise
            continue
        if item is not None:
            found[key] = item
    return found


def _claims(cluster: str, items: list[Json]) -> dict[str, VolumeClaim]:
    """Pick the claims of bookies' volumes, of this cluster or an earlier one of its name."""
    volumes = "|".join(owned_objects.claim_names(""))
    name = re.compile(rf"({volumes}){re.escape(cluster)}-.+-[0-9]+")
    return {
        item["metadata"]["name"]: observed.claim(item)
        for item in items
        if name.fullmatch(item["metadata"]["name"])
    }


async def _nodes(
    kubernetes: Kubernetes,
    earlier: NodeSight,
    pods: tuple[Pod, ...],
    built: Iterable[Desired],
    *,
    now_ms: int,
) -> NodeSight:
    """Read the nodes that bookies stand on, as far as what is known of them is old."""
    names = {pod.node for pod in pods if pod.node is not None}
    soon = budget_sight.nodes_of_leavers(pods, {one.bookies_per_zone for one in built})
    found: dict[str, Json | None] = {}
    try:
        for name in node_sight.unread(earlier, names, now_ms=now_ms, soon=soon):
            found[name] = await kubernetes.get(NODES, "", name)
    except NotPermittedError:
        return NodeSight(permitted=False)
    return node_sight.joined(earlier, names, found, now_ms=now_ms)
