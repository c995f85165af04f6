"""When the policy names a zone: a new one once it is in place, one that leaves until it may. Pure.

Invariants:

- The policy names no new zone before a bookie of it is registered, its cookie says the zone, and
  every pod of the zone stands on a node that was seen with the zone's labels. So until then no
  ledger is placed there, and the zone may be taken back.
- A zone that leaves is named until the others have room for what it holds. From then on no copy is
  placed there, and its bookies are emptied: none gets its order while the policy names the zone.
- A policy with fewer zones is published only if it is legal. Else the one that stands stays.
- A zone that was named stays so while it is asked for, whatever becomes of its pods and nodes.
"""

from collections.abc import Iterator
from dataclasses import replace

from zonekeeper.operator.cluster.desired import Desired, Zone
from zonekeeper.operator.plan.predicates import Predicate, Waiting
from zonekeeper.operator.plan.scaling import leaving, scale_gates
from zonekeeper.operator.roots.roots import RootFound
from zonekeeper.operator.sight import naming
from zonekeeper.operator.sight.observed import Observed
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.policy import legality
from zonekeeper.placement.policy.rules import Policy


def policy(desired: Desired, observed: Observed) -> Policy | None:
    """Give the policy that is to stand now; None: that which stands stays."""
    waiting, stays = joining(desired, observed), withheld(desired, observed)
    if not waiting and not stays:
        return desired.policy
    asked = tuple(zone.name for zone in desired.zones if zone.name not in waiting)
    placement = replace(desired.policy.placement, zones=(*asked, *stays))
    found, quorums = replace(desired.policy, placement=placement), desired.policy.quorums
    if not placement.zones or quorums.ack_zones > len(placement.zones):
        return None
    return None if legality.judge(quorums, placement).refusals else found


def joining(desired: Desired, observed: Observed) -> dict[ZoneName, str]:
    """Give the zones that are asked for and not named yet, each with what it waits for."""
    root = observed.root
    if not isinstance(root, RootFound) or root.policy is None:
        return {}
    named = root.policy.placement.zones
    found = {}
    for zone in desired.zones:
        if zone.name not in named and (whys := list(_lacks(zone, observed, root))):
            found[zone.name] = "; ".join(whys)
    return found


def unnamed(desired: Desired, observed: Observed) -> Waiting | None:
    """Say which zones that are asked for the policy does not name yet; None: it names all."""
    waits = joining(desired, observed)
    why = "\n".join(
        f"the policy does not name zone {zone} yet: {one}" for zone, one in waits.items()
    )
    return Waiting(Predicate.ZONE_NOT_NAMED, why) if waits else None


def _lacks(zone: Zone, observed: Observed, root: RootFound) -> Iterator[str]:
    """Say what a new zone lacks before the policy may name it."""
    pods = [pod for pod in observed.pods if pod.zone == zone.name]
    placed = {one for one, at in root.locations.items() if at is not None and at.zone == zone.name}
    if not any(pod.name in root.registered and pod.name in placed for pod in pods):
        yield "no bookie of it is registered"
    if not observed.nodes.permitted:
        yield "the operator may not read nodes, so it cannot see that they belong to the zone"
        return
    seen = observed.nodes.labels or {}
    unseen = [pod.name for pod in pods if pod.node is not None and pod.node not in seen]
    if unseen:
        yield f"the nodes of {naming.some(unseen)} were not seen"
    for pod in pods:
        if lacking := without(zone, observed, pod.node):
            yield f"{pod.name} stands on node {pod.node} without {lacking}"


def without(zone: Zone, observed: Observed, node: str | None) -> str:
    """Name the labels of the zone that a node lacks; empty: none, or the node was not seen."""
    labels = (observed.nodes.labels or {}).get(node or "")
    if labels is None:
        return ""
    wanted = zone.node_labels.items()
    return ", ".join(sorted(f"{key}={value}" for key, value in wanted if labels.get(key) != value))


def withheld(desired: Desired, observed: Observed) -> dict[ZoneName, str]:
    """Give the zones that leave and are named still, each with what it waits for."""
    root = leaving.own_root(observed)
    if root is None or root.policy is None:
        return {}
    found = {}
    for zone in leaving.zones_going(desired, observed):
        if zone in root.policy.placement.zones:
            whys = list(scale_gates.zone_room(desired, observed, zone))
            if desired.scale_down_paused:
                whys.append(
                    f"spec.scaleDown.paused is true: zone {zone} stays named until it is false"
                )
            if whys:
                found[zone] = "\n".join(whys)
    return found


def still_named(desired: Desired, observed: Observed, zone: ZoneName) -> str | None:
    """Say why no bookie of a zone that leaves may get its order yet; None: the policy lets it."""
    root = leaving.own_root(observed)
    if root is None or root.policy is None or zone not in root.policy.placement.zones:
        return None
    if (why := withheld(desired, observed).get(zone)) is not None:
        return why
    waits = "; ".join(f"zone {name}: {why}" for name, why in joining(desired, observed).items())
    more = f", and without it would not be legal before: {waits}" if waits else ""
    return f"the policy names zone {zone} still{more}"
