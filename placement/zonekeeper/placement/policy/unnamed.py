"""Zones that the policy does not name: their bookies get no data, and people are told.

Placement chooses only bookies in zones that ``placement.zones`` names (without ``strict`` also
others, when nothing else is left). A bookie may stand in another zone: it was started before the
policy was changed, or with a wrong name. It is registered and serves what it has. So nothing fails,
and only words can tell that it is of no use. All places where people look take them from here.

A zone that no policy can ever name is an error of the person who starts the bookie.
"""

from collections import Counter
from collections.abc import Iterable

from zonekeeper.placement.base import fields
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.topology import Bookie
from zonekeeper.placement.base.troubles import Refusal
from zonekeeper.placement.policy.rules import PlacementRules


class NeverNamedError(Refusal):
    """No policy can name this zone."""


def is_unnamed(where: Location | None, rules: PlacementRules) -> bool:
    """Is this the location of a bookie in a zone that the rules do not name?"""
    return where is not None and where.zone not in rules.zones


def zones(bookies: Iterable[Bookie], rules: PlacementRules) -> dict[ZoneName, int]:
    """Count the bookies in each zone that the rules do not name; sorted by zone."""
    found = Counter(
        bookie.location.zone
        for bookie in bookies
        if bookie.location is not None and is_unnamed(bookie.location, rules)
    )
    return dict(sorted(found.items()))


def text(zone: ZoneName, rules: PlacementRules) -> str:
    """Say what is the matter with a bookie in this zone, and what to do."""
    return (
        f"the policy does not name zone {zone}, only {', '.join(rules.zones)}: no ledger is placed "
        f"there; add {zone} to placement.zones, or empty these bookies and remove them"
    )


def warnings(bookies: Iterable[Bookie], rules: PlacementRules) -> dict[ZoneName, str]:
    """Give a text for each zone that has bookies and that the rules do not name."""
    return {
        zone: f"{count} {'bookie stands' if count == 1 else 'bookies stand'} where none is used: "
        f"{text(zone, rules)}"
        for zone, count in zones(bookies, rules).items()
    }


def refuse_never_named(zone: ZoneName, where: str) -> None:
    """Raise ``NeverNamedError`` if no policy can name the zone; ``where`` says who gave it."""
    if not fields.is_dns_label(zone):
        raise NeverNamedError(
            f"{where}: {zone!r} can be a zone of no policy, so no ledger would ever be placed "
            f"there: {fields.DNS_LABEL_RULE}; give the name that placement.zones has"
        )
