"""The policy record in the root is this resource's, and says what the resource asks for. Pure.

No object is created before the policy of this resource stands. So a resource that is refused, or
that names the root of another owner, leaves nothing behind. In a root that stands, the record of
another owner is never overwritten. Where a root was wiped and left its record behind, the record
belongs to no cluster, and the root that is made anew replaces it.

A new zone is named only once it is in place, and one that leaves until it may (``zone_naming``).
"""

from zonekeeper.operator.cluster import desired
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.plan import conditions, ownership
from zonekeeper.operator.plan.conditions import Condition, Type
from zonekeeper.operator.plan.plans import PublishPolicy
from zonekeeper.operator.plan.predicates import Predicate, Waiting
from zonekeeper.operator.plan.scaling import zone_naming
from zonekeeper.operator.plan.stages import Act, Case, Outcome, Settled
from zonekeeper.operator.roots import roots
from zonekeeper.operator.sight.observed import Observed
from zonekeeper.placement.policy.rules import Policy


def stage(case: Case) -> Outcome:
    """Publish the policy where it differs; while the store does not answer, do nothing."""
    found = case.observed.root
    if not isinstance(found, roots.RootFound):
        return Settled()
    if (waiting := waits(case.observed)) is not None:
        return waiting
    wanted, standing = zone_naming.policy(case.desired, case.observed), found.policy
    is_ours = standing is not None and standing.owner == desired.owner(case.observed.resource)
    if is_ours and standing is not None and (wanted is None or _same_rules(wanted, standing)):
        return Settled()
    wanted = case.desired.policy if wanted is None else wanted
    replaces = 0 if standing is None else standing.version
    return Act((PublishPolicy(policy=wanted, instance=found.instance, replaces=replaces),))


def condition(case: Case) -> Condition:
    """Is the record in the metadata store the one that the resource asks for?"""
    kind, found = Type.POLICY_PUBLISHED, case.observed.root
    if not isinstance(found, roots.RootFound):
        return conditions.unknown(kind, "NotSeen", "the metadata store was not read")
    if ownership.strangers(case.observed):
        return conditions.unknown(kind, "RootInUse", "the root is not taken up: see MetadataReady")
    if found.policy is None:
        return conditions.bad(kind, "NoPolicy", "the root has no policy yet")
    if (waiting := waits(case.observed) or _unnamed(case)) is not None:
        return conditions.waiting(kind, waiting)
    version = found.policy.version
    if isinstance(case.wanted, Desired) and _same_rules(case.wanted.policy, found.policy):
        return conditions.good(kind, "Published", f"version {version}")
    standing = "stays in force until the resource is legal"
    what = "is about to be replaced" if case.builds_as_asked else standing
    return conditions.bad(kind, "Outdated", f"version {version} {what}")


def waits(observed: Observed) -> Waiting | None:
    """Say whose the policy in the root is; None: nobody else's."""
    found, owner = observed.root, desired.owner(observed.resource)
    if not isinstance(found, roots.RootFound) or found.policy is None:
        return None
    if found.policy.owner == owner or ownership.takes_over(observed):
        return None
    return Waiting(
        Predicate.OWNED_BY_ANOTHER,
        f"the policy of instance {found.instance} belongs to {found.policy.owner}, and is not "
        f"overwritten by {owner}: choose another root in spec.metadata.uri, or delete the owner",
    )


def _same_rules(wanted: Policy, standing: Policy) -> bool:
    """Does the standing record say what the resource asks for?"""
    return all(
        getattr(wanted, part) == getattr(standing, part)
        for part in ("placement", "quorums", "digest", "reads", "zone_watch", "repair")
    )


def _unnamed(case: Case) -> Waiting | None:
    if case.buildable is None:
        return None
    return zone_naming.unnamed(case.buildable, case.observed)
