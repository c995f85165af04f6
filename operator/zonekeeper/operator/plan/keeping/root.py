"""The root stands, and it is this cluster's; a new cluster's root is made here. Pure.

A root is made only for a resource that was never built: a root that was lost is not made again over
its bookies' data. A root that stands already is taken up only while no strangers are there
(``ownership`` says which bookies are).

While the store does not answer, a cluster that was built is kept up, and the stage ``store`` waits
after the objects. A new cluster waits here.
"""

from zonekeeper.operator.plan import conditions, ownership
from zonekeeper.operator.plan.conditions import Condition, Type
from zonekeeper.operator.plan.plans import InitialiseRoot
from zonekeeper.operator.plan.predicates import Predicate, Waiting
from zonekeeper.operator.plan.stages import Act, Case, Outcome, Settled
from zonekeeper.operator.roots import roots
from zonekeeper.operator.sight import naming
from zonekeeper.operator.sight.observed import Observed
from zonekeeper.placement.base.ids import BookieId


def stage(case: Case) -> Outcome:
    """Make a root that was never there, or wait for one that can be used."""
    observed = case.observed
    assert not isinstance(observed.root, roots.NotAsked), "a legal resource names its store"
    if isinstance(observed.root, roots.Unreachable) and observed.instance is not None:
        return Settled()
    if (waiting := waits(observed)) is not None:
        return waiting
    if isinstance(observed.root, roots.Absent):
        return Act((InitialiseRoot(case.desired.policy),))
    return Settled()


def condition(observed: Observed) -> Condition:
    """Is the metadata store there, and is the root in it this cluster's?"""
    kind = Type.METADATA_READY
    if (waiting := waits(observed)) is not None:
        return conditions.waiting(kind, waiting)
    match observed.root:
        case roots.NotAsked():
            return conditions.unknown(
                kind, "NotAsked", "the resource names no store that can be used"
            )
        case roots.RootFound(instance=instance):
            return conditions.good(kind, "Found", f"instance {instance}")
        case _:
            return conditions.bad(kind, "NotInitialised", "nothing stands at the root yet")


def waits(observed: Observed) -> Waiting | None:
    """Say why the root cannot be used; None: it can, or it may be made."""
    known = observed.instance
    match observed.root:
        case roots.Unreachable(reason):
            return Waiting(Predicate.UNREACHABLE, reason)
        case roots.Unusable(reason):
            return Waiting(Predicate.UNUSABLE, reason)
        case roots.Absent() if known is not None:
            return Waiting(
                Predicate.ROOT_LOST,
                f"the root of instance {known} is gone, and is not made again, because its bookies "
                "still have data: restore the metadata, or delete the resource and its volumes and "
                "apply the resource anew",
            )
        case roots.RootFound(instance=instance) if known not in (None, instance):
            return Waiting(
                Predicate.OTHER_INSTANCE,
                f"the root belongs to instance {instance} now, and this cluster is instance "
                f"{known}: restore the metadata of this cluster, or delete the resource and its "
                "volumes and apply the resource anew",
            )
        case roots.RootFound() as found:
            names = ownership.strangers(observed)
            return _in_use(found, names) if names else None
        case roots.Absent() | roots.NotAsked():
            return None


def _in_use(found: roots.RootFound, names: list[BookieId]) -> Waiting:
    named = naming.some(names)
    if found.registered.isdisjoint(names):
        what = f"holds cookies of bookies whose volumes are not here: {named}"
        wait = "if an earlier resource ran them, restore their volumes"
    else:
        what = f"has bookies registered that this resource does not run: {named}"
        wait = "if an earlier resource ran them, wait until their sessions end"
    return Waiting(
        Predicate.IN_USE,
        f"the root (instance {found.instance}) {what}: {wait}; if another Kubernetes cluster runs "
        "them, or in doubt, choose another root in spec.metadata.uri",
    )
