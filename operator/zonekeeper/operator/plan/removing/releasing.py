"""Nothing is left to remove: the resource is let go, and events tell what stays. Pure."""

from collections.abc import Iterator

from zonekeeper.operator.cluster import desired, kept_spec
from zonekeeper.operator.cluster.choices import OnDelete
from zonekeeper.operator.kubernetes.api import INSTANCE_LABEL
from zonekeeper.operator.plan.conditions import Notice
from zonekeeper.operator.plan.plans import Release
from zonekeeper.operator.plan.stages import Act, Case, Outcome
from zonekeeper.operator.roots import roots
from zonekeeper.operator.sight import naming
from zonekeeper.operator.sight.observed import Observed


def stage(case: Case) -> Outcome:
    """Take the finalizer off."""
    return Act((Release(),))


def left_behind(observed: Observed) -> Iterator[Notice]:
    """Give an event for volumes and for a root that stay under ``onDelete: Delete``."""
    if desired.on_delete(observed.resource) is OnDelete.RETAIN:
        return
    if observed.claims:
        what = (
            f"volumes were not removed ({len(observed.claims)}), because their claims do not carry "
            f"the label {INSTANCE_LABEL} with the instance of this resource "
            f"({observed.instance or 'it was never built'}); remove those that are not needed: "
            f"{naming.some(list(observed.claims))}"
        )
        yield Notice(warning=True, reason="VolumesKept", message=what)
    match observed.root:
        case roots.RootFound(instance=instance):
            why = f"its instance {instance} does not belong to this resource"
        case roots.Unusable(reason):
            why = reason
        case roots.Unreachable(reason):
            address = kept_spec.address(observed.kept, observed.resource)
            why = f"{reason}; if the store at {address} comes back, its root can be removed there"
        case _:
            return
    yield Notice(warning=True, reason="RootKept", message=f"the root was not removed: {why}")
