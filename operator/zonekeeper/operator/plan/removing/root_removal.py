"""The root of this cluster is gone; it goes last, because it shows what is this cluster's. Pure.

A root is removed only if its policy is this resource's and its instance is the one that was noted.
Before one is noted, only a root without cookies is removed: a root with cookies was in use before
this resource. Any other root stays, and the resource is let go. So does the root in a store that
does not answer, once a person has said that it is to be left behind (``forced``).
"""

from zonekeeper.operator.plan import ownership
from zonekeeper.operator.plan.plans import RemoveRoot
from zonekeeper.operator.plan.predicates import Predicate, Waiting
from zonekeeper.operator.plan.removing import forced
from zonekeeper.operator.plan.stages import Act, Case, Outcome, Settled


def stage(case: Case) -> Outcome:
    """Remove the root once no bookie is registered there any more."""
    observed = case.observed
    if (why := forced.advice(observed)) is not None:
        return Waiting(Predicate.UNREACHABLE, why)
    ours = ownership.own_root(observed)
    if ours is None or observed.instance not in (None, ours.instance):
        return Settled()
    if observed.instance is None and ours.locations:
        return Settled()
    if ours.registered:
        still = ", ".join(sorted(ours.registered))
        why = f"bookies are still registered, until their sessions end: {still}"
        return Waiting(Predicate.STILL_REGISTERED, why)
    removal = RemoveRoot(instance=ours.instance)
    return Act((removal,), until=Waiting(Predicate.ROOT_LEFT, "the root is being removed"))
