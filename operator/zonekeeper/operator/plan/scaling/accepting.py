"""Why a smaller number of bookies is not accepted, with numbers. Pure.

It is asked before the resource's smaller number takes effect. What may pass by itself, such as a
gate or room on the volumes, refuses no edit: the next bookie waits for it.
"""

from collections.abc import Iterator

from zonekeeper.operator.cluster import sizing
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.plan.scaling import leaving
from zonekeeper.operator.sight import holdings
from zonekeeper.operator.sight.observed import Observed


def refusals(desired: Desired, observed: Observed) -> Iterator[str]:
    """Say what would be impossible with fewer bookies, and is possible with those that run."""
    places = holdings.places(desired)
    count = max(observed.replicas.get(name, 0) for name in places)
    if sizing.losses(desired.policy, count):
        return
    for what in sizing.losses(desired.policy, desired.bookies_per_zone):
        yield (
            f"spec.bookiesPerZone: {desired.bookies_per_zone}: {what}; ledgers name "
            f"{leaving.listed(leaving.named(desired, observed))}, which would have to go"
        )
