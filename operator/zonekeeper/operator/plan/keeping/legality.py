"""The resource can be built; if not, nothing is applied, and bookies that run go on. Pure.

A resource is refused because of its own fields: a value is wrong, or placement cannot keep what the
policy promises. A resource is blocked because of what is there: bookies that it would leave out, or
objects of others.
"""

from zonekeeper.operator.cluster.desired import RefusedResource
from zonekeeper.operator.plan import conditions
from zonekeeper.operator.plan.conditions import Condition, ConditionStatus, Type
from zonekeeper.operator.plan.predicates import Predicate, Waiting
from zonekeeper.operator.plan.stages import Case, Outcome, Settled
from zonekeeper.operator.roots import roots


def stage(case: Case) -> Outcome:
    """Wait until the resource is corrected, or until nothing blocks it."""
    return _waits(case) or Settled()


def is_legal(case: Case) -> bool:
    """Is it known that the resource can be built?"""
    return condition(case).status is ConditionStatus.TRUE


def condition(case: Case) -> Condition:
    """Can the resource be built? If not, the message is placement's own.

    A root that is not taken up yet may hold bookies that an earlier resource left. Until the root
    is seen, it is unknown whether this resource leaves them out.
    """
    if (waiting := _waits(case)) is not None:
        return conditions.waiting(Type.LEGAL, waiting)
    if case.observed.instance is None and isinstance(case.observed.root, roots.Unreachable):
        message = (
            "the root was not read, and may have bookies of an earlier resource: see MetadataReady"
        )
        return conditions.unknown(Type.LEGAL, "NotSeen", message)
    if case.desired.warnings:
        return conditions.good(Type.LEGAL, "LegalWithWarnings", "\n".join(case.desired.warnings))
    return conditions.good(Type.LEGAL, "Legal", "placement keeps what the policy promises")


def _waits(case: Case) -> Waiting | None:
    if isinstance(case.wanted, RefusedResource):
        return Waiting(Predicate.REFUSED, "\n".join(case.wanted.reasons))
    if case.blocked:
        return Waiting(Predicate.BLOCKED, "\n".join(case.blocked))
    return None
