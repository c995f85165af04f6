"""A small world of all that a turn can see: every combination of a few values for each part."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from tests.operator import repairing
from tests.operator.resources import NOW, kept, resource, revision_of
from zonekeeper.metadata.formats.service_info import PublishedRoom
from zonekeeper.operator.certificates.sights import CertificateSight
from zonekeeper.operator.cluster import desired, owned_objects, repair_objects
from zonekeeper.operator.cluster.desired import Desired, RefusedResource
from zonekeeper.operator.kubernetes.api import (
    DEPLOYMENTS,
    FINALIZER,
    REPLACE,
    STATEFUL_SETS,
    Json,
)
from zonekeeper.operator.plan import planning
from zonekeeper.operator.plan.drills import drill_record
from zonekeeper.operator.plan.drills.drill_record import DrillPhase, DrillRecord
from zonekeeper.operator.plan.plans import TurnPlan
from zonekeeper.operator.roll import memory, order
from zonekeeper.operator.roll.memory import BegunStep, Halt, RollMemory, TakenBookie
from zonekeeper.operator.roots import roots
from zonekeeper.operator.sight.node_sight import NodeSight, SeenNode
from zonekeeper.operator.sight.observed import Observed, Pod, RepairPod, VolumeClaim
from zonekeeper.operator.sight.pod_trouble import PodTrouble, TroubleKind
from zonekeeper.operator.sight.room_sight import RoomSight, SeenRoom
from zonekeeper.operator.sight.watch_sight import WatchSight
from zonekeeper.placement.base import upgrade_domains
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.topology import Bookie
from zonekeeper.placement.base.upgrade_domains import RoundRobin
from zonekeeper.placement.zones import watch
from zonekeeper.placement.zones.bookie_orders import (
    BookieOrder,
    OrderKind,
    OrderPhase,
    OrderProgress,
    OrderWord,
)
from zonekeeper.placement.zones.gate import Person
from zonekeeper.placement.zones.losses import Followed, Pulse, Records
from zonekeeper.placement.zones.observation import Observation
from zonekeeper.wire.running import seam

INSTANCE: Final = "0d6e3a1e-0000-4000-8000-000000000001"
OTHER: Final = "0d6e3a1e-0000-4000-8000-000000000002"
ZONES: Final = ("a", "b", "c")
BOOKIES: Final = tuple(BookieId(f"log-{zone}-0") for zone in ZONES)

#: What is there in Kubernetes: objects by plural and name, and bookies' pods.
Standing = tuple[Mapping[tuple[str, str], Json], tuple[Pod, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One combination, and what is decided from it."""

    wanted: Desired | RefusedResource
    observed: Observed

    def plan(self) -> TurnPlan:
        return planning.decide(self.wanted, self.observed, NOW)

    def after(self, plan: TurnPlan) -> "Scene":
        """Give the same view once the status was written, and nothing else has happened."""
        item = self.observed.resource | {"status": plan.status}
        return replace(self, observed=replace(self.observed, resource=item))


def _resource(*, built: bool, held: bool = False, leaving: bool = False, **spec: object) -> Json:
    item = resource(bookiesPerZone=1, **spec)
    item["metadata"]["finalizers"] = [FINALIZER] if held else []
    if leaving:
        item["metadata"]["deletionTimestamp"] = NOW
    return item | ({"status": {"instance": INSTANCE}} if built else {})


REFUSED: Final[Json] = {"policy": {"quorums": {"ack": 9}}}
LEGAL: Final = _resource(built=True)
ENCRYPTED: Final = _resource(built=True, tls={"mode": "Operator"})
EARLIER: Final = _resource(built=True, image="zonekeeper:0.0.9")


def _location(bookie: BookieId) -> Location:
    domain = upgrade_domains.of_ordinal(0, RoundRobin(upgrade_domains=3))
    return Location(ZoneName(bookie.split("-")[1]), domain)


def _rolling(*, halted: bool) -> Json:
    """Give a resource in the midst of a step, whose bookie is not well."""
    wanted = desired.read(LEGAL)
    assert isinstance(wanted, Desired)
    bare = Observed(resource=LEGAL, owned={}, pods=(), claims={}, root=roots.NotAsked())
    step = BegunStep(
        unit=_location(BOOKIES[0]),
        taken=(TakenBookie(bookie=BOOKIES[0], uid="uid-of-earlier", boot_epoch=1),),
        brings=order.brought(order.zone_sets(wanted, bare)),
        begun_ms=0,
        halt=Halt(pod=BOOKIES[0], words="CrashLoop: it ends") if halted else None,
    )
    item = _resource(built=True)
    roll = {"phase": "Stepping", **memory.plain(RollMemory(step=step))}
    return item | {"status": item["status"] | {"roll": roll}}


def _scaling() -> Json:
    """Give a resource that was accepted with fewer bookies than ran."""
    item = _resource(built=True)
    return item | {"status": item["status"] | {"scaling": {"phase": "Removing", "target": 1}}}


#: Each resource with the specs that were legal before, in their order.
RESOURCES: Final[tuple[tuple[Json, tuple[Json, ...]], ...]] = (
    (_resource(built=False), ()),
    (_resource(built=False), (LEGAL,)),
    (LEGAL, (LEGAL,)),
    (ENCRYPTED, (ENCRYPTED,)),
    (LEGAL, (EARLIER, LEGAL)),
    (_rolling(halted=False), (LEGAL,)),
    (_rolling(halted=True), (LEGAL,)),
    (_scaling(), (LEGAL,)),
    (_resource(built=True, onDelete="Delete", held=True), (LEGAL,)),
    (_resource(built=True, held=True), (LEGAL,)),
    (_resource(built=True, storage={"size": "512Mi"}), (LEGAL,)),
    (_resource(built=True, paused=True), (LEGAL,)),
    (_resource(built=True, onDelete="Delete", paused=True, held=True, leaving=True), (LEGAL,)),
    (_resource(built=False, **REFUSED), ()),
    (_resource(built=True, onDelete="Delete", **REFUSED), ()),
    (_resource(built=True, held=True, onDelete="Delete", **REFUSED), (EARLIER, LEGAL)),
    (_resource(built=True, onDelete="Delete", held=True, leaving=True), (LEGAL,)),
    (_resource(built=False, onDelete="Delete", held=True, leaving=True), ()),
    (_resource(built=True, held=True, leaving=True), ()),
    (_resource(built=True, leaving=True), ()),
)


def _wanted() -> Desired:
    found = desired.read(LEGAL)
    assert isinstance(found, Desired)
    return found


def _roots() -> Iterator[roots.Facts]:
    policy = replace(_wanted().policy, version=3, instance=INSTANCE)
    whole = roots.RootFound(
        instance=INSTANCE,
        policy=policy,
        locations={bookie: _location(bookie) for bookie in BOOKIES},
        registered=frozenset(BOOKIES),
    )
    yield roots.Unreachable("nobody answers")
    yield roots.Unusable("a Java cluster")
    yield roots.Absent()
    yield whole
    yield replace(whole, policy=None, locations={}, registered=frozenset())
    yield replace(whole, locations={}, registered=frozenset())
    yield replace(whole, registered=frozenset())
    yield replace(whole, policy=replace(policy, owner="shell"))
    yield replace(whole, policy=replace(policy, repair=replace(policy.repair, after_ms=1)))
    yield replace(whole, instance=OTHER)
    fewer = replace(policy.placement, zones=policy.placement.zones[:2])
    yield replace(whole, policy=replace(policy, placement=fewer))
    yield from _with_orders(whole)


def _with_orders(whole: roots.RootFound) -> Iterator[roots.Facts]:
    """Give a root with one bookie more in zone a: without an order, with one, with one held."""
    more = BookieId("log-a-1")
    found = replace(whole, locations={**whole.locations, more: _location(more)})
    yield found
    word = OrderWord(at_ms=1, by="operator/logs/log", reason="fewer")
    order = BookieOrder(kind=OrderKind.REMOVE, token="1", given=word, incarnation=1)
    held = OrderProgress(
        at_ms=1, worker="one", since_ms=1, phase=OrderPhase.HELD, moved_ms=1, why="zoneHeld"
    )
    for one in (order, replace(order, progress=held)):
        yield replace(found, orders={more: one})


def _standing() -> Iterator[Standing]:
    """Give what a life of the cluster goes through, and what others may do to it."""
    made, pods = objects(), _pods()
    first = (STATEFUL_SETS.plural, "log-a")
    set_a = made[first]
    yield {}, ()
    yield made, ()
    yield made, pods
    yield made, (replace(pods[0], ready=False), *pods[1:])
    yield made, (replace(pods[0], revision="older"), *pods[1:])
    yield made | {first: set_a | {"metadata": set_a["metadata"] | {"generation": 2}}}, pods
    for replicas in (0, 2):
        yield made | {first: set_a | {"spec": set_a["spec"] | {"replicas": replicas}}}, pods
    yield {key: item for key, item in made.items() if key[0] != DEPLOYMENTS.plural}, pods
    yield {}, pods
    yield {first: set_a | {"metadata": set_a["metadata"] | {"ownerReferences": []}}}, ()


def _troubled() -> Iterator[Standing]:
    """Give a bookie of zone a that is not ready: without a reason, and with each one."""
    made, pods = objects(), _pods()
    for trouble in (
        None,
        *(PodTrouble(kind=kind, words="!", last_words=None, since=NOW) for kind in TroubleKind),
        PodTrouble(kind=TroubleKind.CRASH_LOOP, words="!", last_words=seam.LOST_DISK, since=NOW),
    ):
        yield made, (replace(pods[0], ready=False, trouble=trouble), *pods[1:])


#: Among what ``_roots`` and ``_standing`` give: the cluster is as it should be.
_WHOLE_ROOT: Final = 3
_ALL_THERE: Final = 2


def objects() -> dict[tuple[str, str], Json]:
    found = {}
    for kind, made in owned_objects.all_of(_wanted(), LEGAL, INSTANCE):
        name = made["metadata"]["name"]
        meta = made["metadata"] | {"uid": f"uid-{name}", "generation": 1, "resourceVersion": "1"}
        item = made | {"metadata": meta}
        if kind is STATEFUL_SETS:
            item["status"] = {"observedGeneration": 1, "updateRevision": revision_of(made)}
        found[kind.plural, name] = item
    return found


def _pods() -> tuple[Pod, ...]:
    return tuple(
        Pod(
            name=BookieId(f"{name}-0"),
            zone=ZoneName(name[-1]),
            ready=True,
            node=f"node-{name[-1]}",
            revision=item["status"]["updateRevision"],
            controller=item["metadata"]["uid"],
        )
        for (plural, name), item in sorted(objects().items())
        if plural == STATEFUL_SETS.plural
    )


def _claims(instance: str | None, capacity: str = "1Gi") -> dict[str, VolumeClaim]:
    return {
        owned_objects.claim_name(bookie): VolumeClaim(
            uid=f"uid-{bookie}", instance=instance, size="1Gi", capacity=capacity
        )
        for bookie in BOOKIES
    }


def watched(
    *, held: bool = False, down: str = "", evaluations: int = repairing.EVALUATIONS
) -> WatchSight:
    """Give what the operator saw of a zone watch at work.

    ``held``: a person holds zone b. ``down``: the zone watch calls this zone so.
    """
    policy = replace(_wanted().policy, instance="", version=1)
    bookies = tuple(Bookie(id=bookie, location=_location(bookie)) for bookie in BOOKIES)
    health = repairing.evaluated(((policy, bookies, ()),), evaluations)
    assert health.cluster is not None
    zones = dict(health.zones)
    if held:
        person, zone = Person(name="ann", reason="a drill"), ZoneName("b")
        zones[zone], _ = watch.hold(zones[zone], person=person, policy=policy, wall_ms=1)
    if down:
        one = zones[ZoneName(down)]
        state = replace(one.observed, state=Observation.DOWN)
        zones[one.zone] = replace(one, observed=state)
    counters: dict[ZoneName | None, int] = {name: one.evaluation for name, one in zones.items()}
    counters[None] = health.cluster.evaluation
    pulses = {name: Pulse(evaluation=count, moved_ms=0) for name, count in counters.items()}
    records = Records(zones=zones, cluster=health.cluster)
    return WatchSight(followed=Followed(records=records, pulses=pulses), since_ms=0)


def repairers(*, ready: bool = True) -> tuple[RepairPod, ...]:
    names = (repair_objects.deployment_name("log", zone) for zone in ZONES)
    return tuple(
        RepairPod(
            name=f"{name}-5d8f-0",
            zone=ZoneName(ZONES[number]),
            deployment=name,
            ready=ready or number > 0,
        )
        for number, name in enumerate(names)
    )


def _seen(labels: Mapping[str, Mapping[str, str]]) -> NodeSight:
    """Give nodes with these labels, as a look has just read them."""
    return NodeSight(seen={name: SeenNode(labels=each, read_ms=0) for name, each in labels.items()})


def _cordoned(sight: NodeSight, name: str) -> NodeSight:
    return NodeSight(seen={**sight.seen, name: replace(sight.seen[name], cordoned=True)})


def _surroundings() -> Iterator[Json]:
    """Give all else that is seen; where one is odd, the others are as they should be."""
    nodes = {f"node-{zone}": {desired.DEFAULT_ZONE_LABEL: zone} for zone in ZONES}
    well: Json = {
        "claims": _claims(INSTANCE),
        "nodes": _seen(nodes),
        "failures": (),
        "watched": watched(),
        "repairers": repairers(),
    }
    yield well
    yield well | {"claims": {}, "repairers": ()}
    yield well | {"claims": _claims(None)}
    yield well | {"claims": _claims(OTHER)}
    yield well | {"nodes": NodeSight(permitted=False)}
    yield well | {"nodes": _seen(nodes | {"node-b": {}})}
    yield well | {"nodes": _cordoned(_seen(nodes), "node-b")}
    yield well | {"foreign_budgets": ("theirs",)}
    yield well | {"failures": ("Apply: quota",)}
    yield well | {"claims": _claims(INSTANCE, capacity="512Mi")}
    yield well | {"watched": watched(held=True)}
    yield well | {"watched": WatchSight(since_ms=0)}
    yield well | {"watched": WatchSight(since_ms=0, now_ms=3_600_000)}
    yield well | {"certificates": CertificateSight(permitted=False)}
    yield well | {"certificates": CertificateSight(issued=None)}
    yield well | {"repairers": repairers(ready=False)}
    yield well | {"repairers": ()}


def scenes(*, whole: bool = False) -> Iterator[Scene]:
    """Give the combinations of what may be odd about a cluster.

    Of a resource that is kept, at most two other parts are odd at once, unless the ``whole`` world
    is asked for.
    What may be wrong with a pod itself is combined with less.
    """
    readings = [
        (item, desired.read(item), kept(*before) if before else ()) for item, before in RESOURCES
    ]
    surroundings, facts, standing = list(_surroundings()), list(_roots()), list(_standing())
    down = surroundings[0] | {"watched": watched(down="a")}
    for (item, wanted, known), root, there, others in itertools.chain(
        itertools.product(readings, facts, standing, surroundings),
        itertools.product(readings, facts, _troubled(), (surroundings[0], down)),
    ):
        is_usual = (
            root is facts[_WHOLE_ROOT],
            there is standing[_ALL_THERE],
            others is surroundings[0],
        )
        is_leaving = "deletionTimestamp" in item["metadata"]
        if not (whole or is_leaving or any(is_usual)):
            continue
        owned, pods = there
        observed = Observed(resource=item, owned=owned, pods=pods, root=root, kept=known, **others)
        yield Scene(wanted=wanted, observed=observed)
    yield _drilling(facts[_WHOLE_ROOT], standing[_ALL_THERE], surroundings[0])
    yield from _replacing(facts[_WHOLE_ROOT], standing[_ALL_THERE], surroundings[0])
    yield from _filling(facts[_WHOLE_ROOT], standing[_ALL_THERE], surroundings[0])


def _filling(
    root: roots.Facts, there: tuple[Mapping[tuple[str, str], Json], tuple[Pod, ...]], others: Json
) -> Iterator[Scene]:
    """Give a volume that is too full: it grows, or has the largest size already."""
    room = PublishedRoom(free_bytes=1, total_bytes=1 << 30)
    seen = SeenRoom(room=room, claim=f"uid-{BOOKIES[1]}")
    claims = {
        name: replace(claim, storage_class="fast") for name, claim in others["claims"].items()
    }
    owned, pods = there
    for most in ("1Gi", "2Gi"):
        item = _resource(built=True, heal={"grow": {"max": most}})
        looked = Observed(
            resource=item,
            owned=owned,
            pods=pods,
            root=root,
            kept=kept(item),
            rooms=RoomSight(seen={BOOKIES[1]: seen}, read_ms=0),
            growable={"fast": True},
            wall_ms=1,
            **others | {"claims": claims},
        )
        yield Scene(wanted=desired.read(item), observed=looked)


def _drilling(
    root: roots.Facts, there: tuple[Mapping[tuple[str, str], Json], tuple[Pod, ...]], others: Json
) -> Scene:
    """Give a cluster whose drill waits for its probe."""
    record = DrillRecord(
        token="t",
        zone=ZoneName("b"),
        by="ann: an exercise",
        for_ms=60_000,
        generation=int(LEGAL["metadata"]["generation"]),
        bookies=1,
        phase=DrillPhase.PROBING,
        begun_ms=0,
    )
    status = LEGAL["status"] | {"drill": drill_record.plain(record)}
    owned, pods = there
    seen = Observed(
        resource=LEGAL | {"status": status},
        owned=owned,
        pods=pods,
        root=root,
        kept=kept(LEGAL),
        **others,
    )
    return Scene(wanted=desired.read(LEGAL), observed=seen)


def _replacing(
    root: roots.Facts, there: tuple[Mapping[tuple[str, str], Json], tuple[Pod, ...]], others: Json
) -> Iterator[Scene]:
    """Give a bookie that is to get another volume: without its order, and with it."""
    assert isinstance(root, roots.RootFound)
    named = LEGAL | {"metadata": LEGAL["metadata"] | {"annotations": {REPLACE: BOOKIES[1]}}}
    word = OrderWord(at_ms=1, by="operator/logs/log/replace", reason="its disk is bad")
    order = BookieOrder(kind=OrderKind.DRAIN, token="1", given=word, incarnation=1)
    owned, pods = there
    for orders in ({}, {BOOKIES[1]: order}):
        seen = Observed(
            resource=named,
            owned=owned,
            pods=pods,
            root=replace(root, orders=orders),
            kept=kept(named),
            **others,
        )
        yield Scene(wanted=desired.read(named), observed=seen)
