"""The zones that no gate can hold, with the bookies that there are."""

from collections.abc import Mapping, Set

from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.topology import Topology
from zonekeeper.placement.policy import gating
from zonekeeper.placement.policy.legality import BrokenRule
from zonekeeper.placement.policy.rules import Policy
from zonekeeper.placement.zones import zone_counts

_NOTHING: frozenset[BookieId] = frozenset()
_NOWHERE: frozenset[Location] = frozenset()


def warnings(
    policy: Policy,
    bookies: Topology,
    *,
    written_off: Set[BookieId] = _NOTHING,
    in_maintenance: Set[Location] = _NOWHERE,
) -> tuple[BrokenRule, ...]:
    """Give a warning for each zone that cannot be held: ever, or with the bookies counted now."""
    found = zone_counts.measure(bookies, written_off=written_off, in_maintenance=in_maintenance)
    zones = found.zones
    sizes: Mapping[ZoneName, int] = {
        zone: one.size + one.written_off for zone, one in zones.items()
    }
    counted = {zone: one.total for zone, one in zones.items()}
    return gating.judge(policy.zone_watch, sizes, counted)
