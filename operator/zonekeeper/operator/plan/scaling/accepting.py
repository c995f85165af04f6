"""Why fewer bookies, or fewer zones, are not accepted, with numbers. Pure.

It is asked before the edit takes effect. What may pass by itself, such as a
gate or room on the volumes, refuses no edit: the next bookie waits for it.
"""

from collections.abc import Iterator
from dataclasses import replace

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


def zone_refusals(desired: Desired, observed: Observed) -> Iterator[str]:
    """Say what would be impossible with fewer zones, and is possible with those that stand.

    What a policy can never keep with so few zones is refused before: it is no legal resource.
    """
    going = leaving.zones_begun(desired, observed)
    root = leaving.own_root(observed)
    if not going or root is None or root.policy is None:
        return
    rules, count = desired.policy.placement, desired.bookies_per_zone
    before = replace(rules, zones=(*rules.zones, *going))
    if sizing.losses(replace(desired.policy, placement=before), count):
        return
    standing = ", ".join(rules.zones)
    for what in sizing.losses(desired.policy, count):
        yield (
            f"spec.zones: without {leaving.listed(going)} there are {len(rules.zones)} zones "
            f"({standing}), and {what}; or name {leaving.listed(going)} again"
        )
