"""A small world of all that a turn can see: every combination of a few values for each part."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from tests.operator.worlds import NOW, resource, revision_of
from zonekeeper.operator.cluster import desired, owned_objects
from zonekeeper.operator.cluster.desired import Desired, RefusedResource
from zonekeeper.operator.cluster.observed import Observed, Pod, VolumeClaim
from zonekeeper.operator.kubernetes.api import FINALIZER, STATEFUL_SETS, Json
from zonekeeper.operator.plan import planning
from zonekeeper.operator.plan.plans import TurnPlan
from zonekeeper.operator.roots import roots
from zonekeeper.placement.base import upgrade_domains
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.upgrade_domains import RoundRobin

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
RESOURCES: Final = (
    _resource(built=False),
    _resource(built=True),
    _resource(built=False, onDelete="Delete"),
    _resource(built=True, onDelete="Delete", held=True),
    _resource(built=True, held=True),
    _resource(built=False, **REFUSED),
    _resource(built=True, onDelete="Delete", **REFUSED),
    _resource(built=True, onDelete="Delete", held=True, leaving=True),
    _resource(built=False, onDelete="Delete", held=True, leaving=True),
    _resource(built=True, held=True, leaving=True),
    _resource(built=True, leaving=True),
)


def _wanted() -> Desired:
    found = desired.read(RESOURCES[0])
    assert isinstance(found, Desired)
    return found


def _location(bookie: BookieId) -> Location:
    domain = upgrade_domains.of_ordinal(0, RoundRobin(upgrade_domains=3))
    return Location(ZoneName(bookie.split("-")[1]), domain)


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


def _standing() -> Iterator[Standing]:
    """Give what a life of the cluster goes through, and what others may do to it."""
    objects, pods = _objects(), _pods()
    first = (STATEFUL_SETS.plural, "log-a")
    set_a = objects[first]
    yield {}, ()
    yield objects, ()
    yield objects, pods
    yield objects, (replace(pods[0], ready=False), *pods[1:])
    yield objects, (replace(pods[0], revision="older"), *pods[1:])
    yield objects | {first: set_a | {"metadata": set_a["metadata"] | {"generation": 2}}}, pods
    for replicas in (0, 2):
        yield objects | {first: set_a | {"spec": set_a["spec"] | {"replicas": replicas}}}, pods
    yield {}, pods
    yield {first: set_a | {"metadata": set_a["metadata"] | {"ownerReferences": []}}}, ()


def _objects() -> dict[tuple[str, str], Json]:
    found = {}
    for kind, made in owned_objects.all_of(_wanted(), RESOURCES[0], INSTANCE):
        name = made["metadata"]["name"]
        meta = made["metadata"] | {"uid": f"uid-{name}", "generation": 1}
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
        for (plural, name), item in sorted(_objects().items())
        if plural == STATEFUL_SETS.plural
    )


def _claims(instance: str | None) -> dict[str, VolumeClaim]:
    return {
        owned_objects.claim_name(bookie): VolumeClaim(uid=f"uid-{bookie}", instance=instance)
        for bookie in BOOKIES
    }


def _surroundings() -> Iterator[Json]:
    """Give claims, nodes and failures; where one is odd, the others are as they should be."""
    nodes = {f"node-{zone}": {desired.DEFAULT_ZONE_LABEL: zone} for zone in ZONES}
    well: Json = {"claims": _claims(INSTANCE), "nodes": nodes, "failures": ()}
    yield well
    yield well | {"claims": {}}
    yield well | {"claims": _claims(None)}
    yield well | {"claims": _claims(OTHER)}
    yield well | {"nodes": None}
    yield well | {"nodes": nodes | {"node-b": {}}}
    yield well | {"failures": ("Apply: quota",)}


def scenes() -> Iterator[Scene]:
    """Give every combination."""
    readings = [(item, desired.read(item)) for item in RESOURCES]
    for (item, wanted), root, (owned, pods), others in itertools.product(
        readings, _roots(), _standing(), _surroundings()
    ):
        observed = Observed(resource=item, owned=owned, pods=pods, root=root, **others)
        yield Scene(wanted=wanted, observed=observed)
