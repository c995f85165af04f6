"""How large a local cluster is, and what follows from it: names, places and policy.

A shape that placement refuses is refused in placement's words, before anything is started.
"""

import random
import string
from dataclasses import dataclass
from typing import Final

from zonekeeper.placement import ensembles, fields, policy_data, upgrade_domains
from zonekeeper.placement.candidates import Request
from zonekeeper.placement.failures import PlacementError
from zonekeeper.placement.ids import BookieId, ZoneName
from zonekeeper.placement.locations import Location
from zonekeeper.placement.policy import Policy
from zonekeeper.placement.topology import Bookie, Topology
from zonekeeper.placement.upgrade_domains import RoundRobin

ZONES_MAX: Final = len(string.ascii_lowercase)
#: Each is a process of some 60 MB.
BOOKIES_MAX: Final = 60


class BadShapeError(ValueError):
    """No cluster that could hold a ledger has this shape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How many of each."""

    zones: int = 3
    bookies_per_zone: int = 3
    upgrade_domains: int = 3

    def __str__(self) -> str:
        return (
            f"--zones {self.zones} --bookies-per-zone {self.bookies_per_zone} "
            f"--upgrade-domains {self.upgrade_domains}"
        )


def zones(shape: Shape) -> tuple[ZoneName, ...]:
    """Name the zones: a, b, c."""
    return tuple(ZoneName(letter) for letter in string.ascii_lowercase[: shape.zones])


def places(shape: Shape) -> dict[BookieId, Location]:
    """Name the bookies, zone by zone, and say where each stands."""
    formula = RoundRobin(upgrade_domains=shape.upgrade_domains)
    return {
        BookieId(f"bk-{zone}-{ordinal}"): Location(
            zone, upgrade_domains.of_ordinal(ordinal, formula)
        )
        for zone in zones(shape)
        for ordinal in range(shape.bookies_per_zone)
    }


def policy(shape: Shape) -> Policy:
    """Give the policy of such a cluster: the defaults, with fewer zones where there are fewer."""
    spared = min(2, shape.zones - 1)  # without one zone, ledgers are still created
    rules: fields.Plain = {
        "quorums": {"ackZones": max(1, spared)},
        "placement": {
            "zones": [str(zone) for zone in zones(shape)],
            "minZones": spared,
            "desiredZones": min(3, shape.zones),
            "upgradeDomains": shape.upgrade_domains,
        },
    }
    return policy_data.from_rules(rules)


def check(shape: Shape) -> None:
    """Raise ``BadShapeError`` if no ledger can be created in such a cluster."""
    if not 1 <= shape.zones <= ZONES_MAX:
        raise BadShapeError(f"--zones {shape.zones}: must be from 1 to {ZONES_MAX}")
    if not 1 <= shape.zones * shape.bookies_per_zone <= BOOKIES_MAX:
        raise BadShapeError(
            f"--bookies-per-zone {shape.bookies_per_zone}: with {shape.zones} zones that is "
            f"{shape.zones * shape.bookies_per_zone} bookies; one machine takes 1 to {BOOKIES_MAX}"
        )
    try:
        rules = policy(shape)
        topology = Topology(
            Bookie(id=name, location=place) for name, place in places(shape).items()
        )
        request = Request(topology=topology, quorums=rules.quorums, rules=rules.placement)
        ensembles.choose(request, random.Random(0))  # noqa: S311 only whether there is one
    except (fields.InvalidFieldsError, PlacementError) as error:
        raise BadShapeError(f"{shape}: no ledger could be created there: {error}") from error
