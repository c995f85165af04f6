"""The objects of a zone that is not asked for any more are gone. Pure.

A slip is taken back at once: the stage of legality waits while a bookie of such a zone may hold
something, so nothing is lost. Volumes and cookies stay.

Of a zone that leaves, the StatefulSet gets smaller as its bookies are emptied. StatefulSet and
Deployment go once no pod, cookie, order or unsettled claim of its bookies is left; then the record
of the zone watch goes, last.

The stage comes after the policy, by which no writer chooses the zone any more.
"""

from collections.abc import Iterator

from zonekeeper.operator.cluster import owned_objects
from zonekeeper.operator.kubernetes.api import (
    DEPLOYMENTS,
    POLICIES,
    STATEFUL_SETS,
    ZONE_LABEL,
)
from zonekeeper.operator.plan import taking
from zonekeeper.operator.plan.plans import Action, ChangeSpec, RemoveObject, RemoveZoneRecord
from zonekeeper.operator.plan.scaling import leaving
from zonekeeper.operator.plan.stages import Act, Case, Outcome, Settled


def stage(case: Case) -> Outcome:
    """Remove the StatefulSets, Deployments, NetworkPolicies and records that nobody asks for."""
    if not case.builds_as_asked:
        return Settled()
    actions = (*_smaller(case), *removals(case)) or tuple(_records(case))
    return Act(actions) if actions else Settled()


def removals(case: Case, *, even_uncleared: bool = False) -> Iterator[RemoveObject]:
    """Give the objects that go now; ``even_uncleared``: also those that go at the end."""
    observed = case.observed
    wanted = {(kind.plural, name) for kind, name in owned_objects.names(case.desired)}
    stay = {
        str(zone)
        for zone in leaving.zones_going(case.desired, observed)
        if not even_uncleared and not leaving.is_cleared(case.desired, observed, zone)
    }
    for kind, items in (
        (STATEFUL_SETS, observed.sets),
        (DEPLOYMENTS, observed.deployments),
        (POLICIES, observed.policies),
    ):
        for name, item in items.items():
            zone = item["metadata"].get("labels", {}).get(ZONE_LABEL)
            if (kind.plural, name) not in wanted and zone not in stay:
                yield RemoveObject(kind=kind, name=name, uid=item["metadata"]["uid"])


def _smaller(case: Case) -> Iterator[Action]:
    for name, count in taking.going(case.desired, case.observed).items():
        item = case.observed.sets[name]
        if item["spec"]["replicas"] > count:
            yield ChangeSpec(kind=STATEFUL_SETS, item=item, spec={"replicas": count})


def _records(case: Case) -> Iterator[Action]:
    root = leaving.own_root(case.observed)
    if root is None or root.work is None:
        return
    for zone in leaving.zones_going(case.desired, case.observed):
        is_cleared = leaving.is_cleared(case.desired, case.observed, zone)
        if is_cleared and zone in root.work.zone_records:
            yield RemoveZoneRecord(zone=zone, instance=root.instance)
