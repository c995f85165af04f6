"""What is to be done for a cluster now: ``decide(wanted, observed, now)``. Pure.

Level-triggered: a turn looks at everything and decides from that alone, so it does not matter which
turns came before, were lost, or ended in the middle. Each act is safe to repeat, and the next turn
follows from what is there then.

The order in which a cluster comes to be, one step a turn: the finalizer (if something must be
removed later) → the root with its policy record → the objects. Nothing is created before its policy
stands and is ours, so what is refused, or somebody else's, leaves nothing behind. When the store is
out of reach, a cluster that was built goes on to be kept up; a new one waits.

What cannot be done safely yet is refused and not done by halves: fewer bookies or zones, objects
that somebody else controls.

A deleted resource is let go at once under ``Retain``: Kubernetes removes what it owns. Under
``Delete`` our finalizer keeps it until StatefulSets, pods, volumes and the root are gone, in this
order: a bookie never runs without its volume or its root, and the root, by which the rest is
recognised, goes last. Whatever does not go away is named in the condition ``Released``; setting
``onDelete: Retain`` lets the resource go.

A root that this resource was not built in yet is taken up only while no bookies but its own pods
are registered there, and, if there are cookies, one of their volumes is here: an owner is a
namespace and a name, and a resource of the same name in another Kubernetes cluster may have its
bookies there, up or down.

A name says nothing of whose data something holds: an earlier resource of the same name may have
left it. So only volumes are removed whose claim carries the instance that this resource was built
as, and only a root with our policy in it; one that holds cookies only if it is noted as ours. A
claim has the label from its StatefulSet. One that was made before there was such a label gets it
while its bookie is ready, because a bookie does not serve with the data of another instance: at the
latest before the StatefulSets are removed.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from zonekeeper.operator.cluster import desired, drift, owned_objects
from zonekeeper.operator.cluster.desired import Desired, OnDelete, RefusedResource
from zonekeeper.operator.cluster.observed import Observed, VolumeClaim, controller_of
from zonekeeper.operator.kubernetes.api import (
    CLAIMS,
    INSTANCE_LABEL,
    STATEFUL_SETS,
    Json,
    ObjectKind,
)
from zonekeeper.operator.plan import conditions, judging
from zonekeeper.operator.plan.conditions import Condition, Notice, Type
from zonekeeper.operator.plan.plans import (
    Action,
    Apply,
    Hold,
    InitialiseRoot,
    MarkClaim,
    PublishPolicy,
    Release,
    RemoveObject,
    RemoveRoot,
    TurnPlan,
)
from zonekeeper.operator.roots import roots
from zonekeeper.placement.base.ids import BookieId

#: After an act: to see what became of it.
SOON_MS: Final = 200
#: While something is waited for that no event tells of.
WAITING_MS: Final = 2_000
#: At rest: events come at once, so this only catches what has none (nodes, the store).
RESTING_MS: Final = 30_000


def decide(wanted: Desired | RefusedResource, observed: Observed, now: str) -> TurnPlan:
    """Decide one turn; ``now`` is wall time as the API writes it."""
    if observed.leaving:
        return _leaving(observed, now)
    blocked = tuple(_blocked(wanted, observed)) if isinstance(wanted, Desired) else ()
    zones = judging.zone_counts(RefusedResource(blocked) if blocked else wanted, observed)
    owner = desired.owner(observed.resource)
    legality = judging.legal(wanted, blocked, observed)
    legal = legality.status is conditions.ConditionStatus.TRUE
    said = (
        legality,
        judging.metadata_ready(observed),
        judging.policy_published(wanted, observed, owner),
        judging.applied(observed),
        judging.up_to_date(observed),
        judging.locations_verified(wanted, observed),
        judging.ready(zones),
    )
    actions: tuple[Action, ...] = tuple(_holding(observed, legal=legal))
    if not actions and isinstance(wanted, Desired) and legal:
        actions = tuple(_next_step(wanted, observed, owner))
    actions += tuple(_unmarked(observed))
    settled = all(condition.status is conditions.ConditionStatus.TRUE for condition in said)
    recheck = SOON_MS if actions else RESTING_MS if settled else WAITING_MS
    plan = _plan(actions, said, zones, observed, recheck_ms=recheck, now=now)
    if legal and (instance := _instance(observed)) is not None:
        plan = replace(plan, status={**plan.status, "instance": instance})
    return plan


def _plan(
    actions: tuple[Action, ...],
    said: tuple[Condition, ...],
    zones: list[Json],
    observed: Observed,
    *,
    recheck_ms: int,
    now: str,
) -> TurnPlan:
    before = observed.status.get("conditions") or []
    status: Json = {
        "observedGeneration": observed.generation,
        "conditions": conditions.timed(said, before, observed.generation, now),
        "zones": zones,
        "bookies": sum(zone["bookies"] for zone in zones),
        "readyBookies": sum(zone["ready"] for zone in zones),
    }
    if observed.instance is not None:
        status["instance"] = observed.instance
    return TurnPlan(
        actions=actions,
        status=status,
        notices=conditions.notices(said, before),
        recheck_ms=recheck_ms,
    )


def _instance(observed: Observed) -> str | None:
    """Give the instance that this cluster is, or is built as now: where its policy stands.

    It is noted once, by a turn that builds: what is noted may be removed with the resource.
    """
    if observed.instance is not None:
        return observed.instance
    ours = _ours(observed)
    return None if ours is None else ours.instance


def _ours(observed: Observed) -> roots.RootFound | None:
    """Give the root, if a policy of ours stands in it."""
    found = observed.root
    if (
        not isinstance(found, roots.RootFound)
        or found.policy is None
        or judging.strangers(observed)
    ):
        return None
    return found if found.policy.owner == desired.owner(observed.resource) else None


# ── a cluster comes to be, and is kept up ──


def _holding(observed: Observed, *, legal: bool) -> Iterator[Action]:
    """Let the finalizer stand where there is, or will be, something to remove.

    What was built is to be removed however little can be made of the resource now.
    """
    wants_hold = desired.on_delete(observed.resource) is OnDelete.DELETE
    if observed.held and not wants_hold:
        yield Release()
    elif wants_hold and not observed.held and (legal or observed.instance is not None):
        yield Hold()


def _next_step(wanted: Desired, observed: Observed, owner: str) -> Iterator[Action]:
    found, known = observed.root, observed.instance
    match found:
        case roots.Absent():
            if known is None:
                yield InitialiseRoot(wanted.policy)
        case roots.RootFound():
            if known not in (None, found.instance) or judging.strangers(observed):
                return
            if found.policy is None or (
                found.policy.owner == owner and not judging.same_rules(wanted, found)
            ):
                replaces = 0 if found.policy is None else found.policy.version
                yield PublishPolicy(
                    policy=wanted.policy, instance=found.instance, replaces=replaces
                )
            elif found.policy.owner == owner:
                yield from _differing(wanted, observed)
        case roots.Unreachable():
            if known is not None:
                yield from _differing(wanted, observed)
        case roots.Unusable() | roots.NotAsked():
            return


def _differing(wanted: Desired, observed: Observed) -> Iterator[Apply]:
    for kind, made in owned_objects.all_of(wanted, observed.resource, _instance(observed)):
        found = observed.owned.get((kind.plural, made["metadata"]["name"]))
        body = made if found is None else owned_objects.with_standing_claims(made, found)
        if found is None or not drift.holds(body, found):
            yield Apply(kind=kind, body=body)


def _unmarked(observed: Observed) -> Iterator[MarkClaim]:
    """Find claims without the label whose bookies serve, and so have this instance's data.

    It does not matter what can be made of the resource now: they are to go with it.
    """
    found, known = observed.root, observed.instance
    if known is None or not isinstance(found, roots.RootFound) or found.instance != known:
        return
    ours = {item["metadata"]["uid"] for item in observed.sets.values()}
    for pod in observed.pods:
        name = owned_objects.claim_name(pod.name)
        claim = observed.claims.get(name)
        if pod.ready and pod.controller in ours and claim is not None and claim.instance is None:
            yield MarkClaim(name=name, uid=claim.uid, instance=known)


def _blocked(wanted: Desired, observed: Observed) -> Iterator[str]:
    """Find what must not be overwritten, and what cannot be done safely yet."""
    for kind, body in owned_objects.all_of(wanted, observed.resource, None):
        name = body["metadata"]["name"]
        found = observed.owned.get((kind.plural, name))
        if found is not None and controller_of(found) != observed.uid:
            yield _foreign(kind, name, found)
    zones = {owned_objects.set_name(wanted.name, zone.name) for zone in wanted.zones}
    for name, count in _running(observed).items():
        if name not in zones:
            yield (
                f"spec.zones: StatefulSet {name} has bookies, and its zone is not named any more: "
                "removing a zone would lose what they hold; name it again"
            )
        elif count > wanted.bookies_per_zone:
            yield (
                f"spec.bookiesPerZone: {wanted.bookies_per_zone}: StatefulSet {name} has {count}: "
                f"removing bookies would lose what they hold; set it to {count} or more"
            )
    for name, ordinals in sorted(_left_out(wanted, observed).items()):
        bookies = [BookieId(f"{name}-{ordinal}") for ordinal in sorted(ordinals)]
        forget = f"empty and forget them, such as: zonekeeper bookies decommission {bookies[-1]}"
        what = f"the root has cookies of {judging.some(bookies)}"
        if name in zones:
            yield (
                f"spec.bookiesPerZone: {wanted.bookies_per_zone}: {what}, which would be left out "
                f"with what they hold: set it to {max(ordinals) + 1} or more, or {forget}"
            )
        else:
            yield (
                f"spec.zones: {what}, and their zone is not named, which would leave out what they "
                f"hold: name it, or {forget}"
            )


def _running(observed: Observed) -> dict[str, int]:
    """Count bookies by StatefulSet."""
    return {name: int(item["spec"]["replicas"]) for name, item in observed.sets.items()}


def _left_out(wanted: Desired, observed: Observed) -> dict[str, set[int]]:
    """Find bookies that have cookies in our root, and would not run or do not, by StatefulSet.

    A resource that is made again over what was retained has no StatefulSets yet.
    """
    zones = {owned_objects.set_name(wanted.name, zone.name) for zone in wanted.zones}
    known = dict.fromkeys(zones, wanted.bookies_per_zone)
    for name, count in _running(observed).items():
        known[name] = max(count, known.get(name, 0))
    found: dict[str, set[int]] = {}
    ours = _ours(observed)
    for bookie in () if ours is None else ours.locations:
        name, _, ordinal = bookie.rpartition("-")
        if (
            name.startswith(f"{wanted.name}-")
            and ordinal.isdecimal()
            and int(ordinal) >= known.get(name, 0)
        ):
            found.setdefault(name, set()).add(int(ordinal))
    return found


def _foreign(kind: ObjectKind, name: str, found: Json) -> str:
    owners = found["metadata"].get("ownerReferences") or []
    whose = next((f"{o['kind']} {o['name']}" for o in owners if o.get("controller")), "nobody")
    return (
        f"metadata.name: {kind.name} {name} is there already and is controlled by {whose}, not by "
        "this resource: wait until it is gone, remove it, or choose another name"
    )


# ── a cluster goes ──


def _leaving(observed: Observed, now: str) -> TurnPlan:
    if not observed.held:
        return TurnPlan(actions=(), status=observed.status, notices=(), recheck_ms=RESTING_MS)
    actions, waits = _removal(observed)
    said: tuple[Condition, ...] = (judging.applied(observed),)
    if waits:
        let_go = "; to let go of what is left, set onDelete: Retain"
        said += (conditions.bad(Type.RELEASED, "Waiting", waits + let_go),)
    zones = judging.zone_counts(RefusedResource(()), observed)
    recheck = SOON_MS if actions else WAITING_MS
    plan = _plan(actions, said, zones, observed, recheck_ms=recheck, now=now)
    kept = tuple(_kept(observed)) if actions == (Release(),) else ()
    return replace(plan, notices=(*plan.notices, *kept))


def _removal(observed: Observed) -> tuple[tuple[Action, ...], str]:
    """Give the next step of a removal, or else what is waited for."""
    if desired.on_delete(observed.resource) is OnDelete.RETAIN:
        return (Release(),), ""
    if marks := tuple(_unmarked(observed)):
        return marks, "volumes are being marked as this cluster's, while their bookies serve"
    sets = [
        RemoveObject(kind=STATEFUL_SETS, name=name, uid=item["metadata"]["uid"])
        for name, item in sorted(observed.sets.items())
    ]
    if sets:
        return tuple(sets), "StatefulSets are being removed"
    if observed.pods:
        on = ", ".join(sorted(f"{pod.name} (node {pod.node})" for pod in observed.pods))
        return (), f"pods are not gone yet: {on}"
    if claims := _own_claims(observed):
        removals = [
            RemoveObject(kind=CLAIMS, name=name, uid=claim.uid) for name, claim in claims.items()
        ]
        return tuple(removals), f"volumes are being removed: {', '.join(claims)}"
    return _root_removal(observed)


def _own_claims(observed: Observed) -> dict[str, VolumeClaim]:
    """Give the claims of volumes with this very cluster's data; none before it was built."""
    return {
        name: claim
        for name, claim in sorted(observed.claims.items())
        if claim.instance is not None and claim.instance == observed.instance
    }


def _root_removal(observed: Observed) -> tuple[tuple[Action, ...], str]:
    """Give the last step, once nothing runs any more that needs the root.

    It is removed only if it is this resource's by its policy and by the instance that was noted.
    Before one is noted only a root without cookies goes: one with cookies was somebody's before.
    """
    if isinstance(observed.root, roots.Unreachable):
        return (), f"the root cannot be removed: {observed.root.reason}"
    ours = _ours(observed)
    if ours is None or observed.instance not in (None, ours.instance):
        return (Release(),), ""
    if observed.instance is None and ours.locations:
        return (Release(),), ""
    if ours.registered:
        still = ", ".join(sorted(ours.registered))
        return (), f"bookies are still registered, until their sessions end: {still}"
    return (RemoveRoot(instance=ours.instance),), "the root is being removed"


def _kept(observed: Observed) -> Iterator[Notice]:
    """Tell what stays though all was to be deleted."""
    if desired.on_delete(observed.resource) is OnDelete.RETAIN:
        return
    if observed.claims:
        what = (
            f"volumes were not removed ({len(observed.claims)}), because their claims do not carry "
            f"the label {INSTANCE_LABEL} with the instance of this resource "
            f"({observed.instance or 'it was never built'}); remove what nobody needs: "
            f"{judging.some(list(observed.claims))}"
        )
        yield Notice(warning=True, reason="VolumesKept", message=what)
    match observed.root:
        case roots.RootFound(instance=instance):
            why = f"instance {instance} there does not belong to this resource"
        case roots.Unusable(reason):
            why = reason
        case _:
            return
    yield Notice(warning=True, reason="RootKept", message=f"the root was not removed: {why}")
