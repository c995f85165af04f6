"""The resource can be built; if not, the cluster of its last legal spec is kept up. Pure.

A resource is refused because of its own fields: a value is wrong, or placement cannot keep what the
policy promises. A resource is blocked because of what is there: bookies that it would leave out, or
objects of others.
"""

from typing import Final

from zonekeeper.operator.cluster.desired import RefusedResource
from zonekeeper.operator.plan import conditions
from zonekeeper.operator.plan.conditions import Condition, ConditionStatus, Type
from zonekeeper.operator.plan.predicates import Predicate, Waiting
from zonekeeper.operator.plan.stages import Case, Outcome, Settled
from zonekeeper.operator.roots import roots

_KEPT: Final = "until this is corrected, the cluster is kept as the last legal spec asked for it"


def stage(case: Case) -> Outcome:
    """Wait, unless there is a cluster that can be built or kept up."""
    if case.buildable is not None:
        return Settled()
    waiting = waits(case)
    assert waiting is not None, "what is neither refused nor blocked can be built"
    return waiting


def is_legal(case: Case) -> bool:
    """Is it known that the resource can be built?"""
    return condition(case).status is ConditionStatus.TRUE


def condition(case: Case) -> Condition:
    """Can the resource be built? If not, the message is placement's own.

    A root that is not taken up yet may hold bookies that an earlier resource left. Until the root
    is seen, it is unknown whether this resource leaves them out.
    """
    if (waiting := waits(case)) is not None:
        return conditions.waiting(Type.LEGAL, waiting)
    if case.observed.instance is None and isinstance(case.observed.root, roots.Unreachable):
        message = (
            "the root was not read, and may have bookies of an earlier resource: see MetadataReady"
        )
        return conditions.unknown(Type.LEGAL, "NotSeen", message)
    if case.desired.warnings:
        return conditions.good(Type.LEGAL, "LegalWithWarnings", "\n".join(case.desired.warnings))
    return conditions.good(Type.LEGAL, "Legal", "placement keeps what the policy promises")


def waits(case: Case) -> Waiting | None:
    """Say why the resource cannot be built as it stands; None: it can."""
    if isinstance(case.wanted, RefusedResource):
        return Waiting(Predicate.REFUSED, _told(case, case.wanted.reasons))
    if case.blocked:
        return Waiting(Predicate.BLOCKED, _told(case, case.blocked))
    return None


def _told(case: Case, reasons: tuple[str, ...]) -> str:
    return "\n".join((*reasons, *(() if case.buildable is None else (_KEPT,))))
