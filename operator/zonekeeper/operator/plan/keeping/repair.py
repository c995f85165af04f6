"""Lost copies are made again: zones are watched, no zone is held, the processes are ready. Pure.

The zone watch and the gates stand in the autorecovery processes, and the operator reads their
records. A cluster that is not watched is the worst of the three: then a hold does not end, and no
loss is found. It is told first.
"""

from collections.abc import Iterator

from zonekeeper.operator.plan import conditions
from zonekeeper.operator.plan.conditions import Condition, Type
from zonekeeper.operator.plan.predicates import Predicate, Waiting
from zonekeeper.operator.plan.stages import Case, Outcome, Settled
from zonekeeper.operator.roots import roots
from zonekeeper.operator.sight.observed import Observed
from zonekeeper.operator.sight.watch_sight import UNSEEN
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.policy.rules import Policy
from zonekeeper.placement.zones.losses import Held, HeldBy
from zonekeeper.placement.zones.zone_records import Record


def stage(case: Case) -> Outcome:
    """Wait until lost copies are made again."""
    policy = _policy(case.observed)
    if policy is None:
        return Settled()
    return _waits(case.observed, policy) or Settled()


def condition(observed: Observed) -> Condition:
    """Are lost copies made again now, and if not, why?"""
    kind, policy = Type.REPAIR_READY, _policy(observed)
    if policy is None:
        return conditions.unknown(kind, "NotSeen", "the records of the zone watch were not read")
    waiting = _waits(observed, policy)
    if waiting is None:
        return conditions.good(kind, "Watched", f"{_counted(observed)}; no zone is held")
    if _is_doubt(waiting, observed, policy):
        return conditions.unseen(kind, waiting)
    return conditions.waiting(kind, waiting)


def _is_doubt(waiting: Waiting, observed: Observed, policy: Policy) -> bool:
    """Is it too early to tell?

    The operator has not looked for long enough to see an evaluation. Or the gates hold because the
    zone watch itself does not know yet: no loss was seen, and no person holds.
    """
    match waiting.predicate:
        case Predicate.NOT_WATCHED:
            return not observed.watched.is_long_enough(policy)
        case Predicate.HELD:
            records = [_record(zone, one, observed) for zone, one in observed.watched.holds(policy)]
            return all(record is not None and not record.gate.lasting for record in records)
        case _:
            return False


def _policy(observed: Observed) -> Policy | None:
    return observed.root.policy if isinstance(observed.root, roots.RootFound) else None


def _waits(observed: Observed, policy: Policy) -> Waiting | None:
    held = list(observed.watched.holds(policy))
    unseen = [zone for zone, one in held if one.by in UNSEEN]
    if unseen:
        why = f"no evaluation is seen of {_zones(unseen)}; {_counted(observed)}"
        return Waiting(Predicate.NOT_WATCHED, f"{why}; zonekeeper runbook {HeldBy.NOT_WATCHED}")
    if held:
        return Waiting(Predicate.HELD, "\n".join(dict.fromkeys(_told(held, observed))))
    short = [
        f"{name}: {ready} of {count}" for name, count, ready in _counts(observed) if ready < count
    ]
    if short:
        return Waiting(Predicate.AUTORECOVERY_NOT_READY, "; ".join(short))
    return None


def _zones(zones: list[ZoneName]) -> str:
    return ("zone " if len(zones) == 1 else "zones ") + ", ".join(zones)


def _told(held: list[tuple[ZoneName, Held]], observed: Observed) -> Iterator[str]:
    """Give one line a hold. It names no duration: each new text costs a write of the status."""
    for zone, one in held:
        of_all = one.by in (HeldBy.CLUSTER_HELD, HeldBy.REPLICATION_DISABLED)
        subject = "every zone" if of_all else f"zone {zone}"
        record = _record(zone, one, observed)
        why = one.text if record is None else record.gate.reason
        yield f"{subject}: {one.by}: {why}; zonekeeper runbook {one.by}"


def _record(zone: ZoneName, held: Held, observed: Observed) -> Record | None:
    """Give the record whose gate holds; None: no gate does."""
    records = observed.watched.followed.records
    match held.by:
        case HeldBy.CLUSTER_HELD:
            return records.cluster
        case HeldBy.ZONE_HELD:
            return records.zones.get(zone)
        case _:
            return None


def _counted(observed: Observed) -> str:
    counts = list(_counts(observed))
    ready, count = sum(one[2] for one in counts), sum(one[1] for one in counts)
    return f"{ready} of {count} autorecovery processes are ready"


def _counts(observed: Observed) -> Iterator[tuple[str, int, int]]:
    """Give for each Deployment how many processes it asks for, and how many are ready."""
    for name, item in observed.deployments.items():
        ready = sum(pod.ready for pod in observed.repairers if pod.deployment == name)
        yield name, int(item["spec"].get("replicas", 1)), ready
