"""The shape of a local cluster, and what follows from it: names, places and policy.

A shape that placement refuses is refused in placement's words, before anything is started.

Timers are scaled down by default, so that a user sees a repair held within seconds, not five
minutes. Only the policy record has the scaled values: the processes that obey it are those of
production. `zonekeeper policy show` says which values are in force.
"""

import enum
import random
import string
from dataclasses import dataclass
from typing import Final, TypedDict

from zonekeeper.placement.base import fields, upgrade_domains
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.topology import Bookie, Topology
from zonekeeper.placement.base.troubles import Refusal
from zonekeeper.placement.base.upgrade_domains import RoundRobin
from zonekeeper.placement.ensembles import selector
from zonekeeper.placement.ensembles.candidates import EnsembleRequest
from zonekeeper.placement.ensembles.failures import PlacementError
from zonekeeper.placement.policy import rules_data
from zonekeeper.placement.policy.rules import Policy

ZONES_MAX: Final = len(string.ascii_lowercase)
#: Each bookie is a process of some 60 MB.
BOOKIES_MAX: Final = 60
AUTORECOVERY_MAX: Final = 16

#: With these rules of the policy an outage is seen, judged and over in seconds.
_SHORT_WATCH: Final[dict[str, fields.Plain]] = {
    "sessionTimeout": "4s",
    "evaluateEvery": "1s",
    "startGrace": "2s",
    "suspectFor": "2s",
    "betweenMarksFor": "30s",
    "holdUp": "4s",
    "holdUpMax": "20s",
    "flapWindow": "1m",
    "standInAfter": "2s",
}
_SHORT_REPAIR: Final[dict[str, fields.Plain]] = {
    "bookieRecoveryDelay": "7s",
    "openLedgerGrace": "2s",
    "after": "2m",
    "remindEvery": "1m",
    "checks": {"placement": "5m"},
}


class BadShapeError(Refusal, ValueError):
    """A cluster of this shape could not hold a ledger."""


class Timers(enum.StrEnum):
    """The durations in a new cluster's policy."""

    SHORT = "short"
    PRODUCTION = "production"


class Asked(TypedDict, total=False):
    """The fields of a shape that the user named."""

    zones: int
    bookies_per_zone: int
    upgrade_domains: int
    autorecovery: int
    zookeeper: bool
    timers: Timers
    tls: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The number of zones, bookies and processes, the metadata store, and the timers."""

    zones: int = 3
    bookies_per_zone: int = 3
    upgrade_domains: int = 3
    #: The number of processes that judge zones and repair.
    autorecovery: int = 2
    #: True: the metadata is in a ZooKeeper server. False: it is in a file.
    zookeeper: bool = False
    timers: Timers = Timers.SHORT
    #: True: bookies serve over TLS only, and hold callers to their roles. False: plain text.
    tls: bool = True

    def __str__(self) -> str:
        return (
            f"--zones {self.zones} --bookies-per-zone {self.bookies_per_zone} "
            f"--upgrade-domains {self.upgrade_domains} --autorecovery {self.autorecovery} "
            f"{'--tls' if self.tls else '--plaintext'} --timers {self.timers} "
            f"{'--zookeeper' if self.zookeeper else '--no-zookeeper'}"
        )


def zones(shape: Shape) -> tuple[ZoneName, ...]:
    """Name the zones: a, b, c."""
    return tuple(ZoneName(letter) for letter in string.ascii_lowercase[: shape.zones])


def places(shape: Shape) -> dict[BookieId, Location]:
    """Give the bookies, zone by zone, with the location of each."""
    formula = RoundRobin(upgrade_domains=shape.upgrade_domains)
    return {
        BookieId(f"bk-{zone}-{ordinal}"): Location(
            zone, upgrade_domains.of_ordinal(ordinal, formula)
        )
        for zone in zones(shape)
        for ordinal in range(shape.bookies_per_zone)
    }


def autorecovery(shape: Shape) -> dict[BookieId, ZoneName]:
    """Give the autorecovery processes with their zones, which take turns."""
    names = zones(shape)
    return {
        BookieId(f"auto-{number}"): names[number % len(names)]
        for number in range(shape.autorecovery)
    }


def in_zone(shape: Shape, zone: ZoneName) -> tuple[BookieId, ...]:
    """Name the processes of a zone: bookies, then autorecovery processes."""
    bookies = (name for name, place in places(shape).items() if place.zone == zone)
    others = (name for name, where in autorecovery(shape).items() if where == zone)
    return (*bookies, *others)


def policy(shape: Shape) -> Policy:
    """Give the policy of a shape: the defaults, adapted to its zones, domains and timers."""
    spared = min(2, shape.zones - 1)  # without one zone, ledgers are still created
    rules: dict[str, fields.Plain] = {
        "quorums": {"ackZones": max(1, spared)},
        "placement": {
            "zones": [str(zone) for zone in zones(shape)],
            "minZones": spared,
            "desiredZones": min(3, shape.zones),
            "upgradeDomains": shape.upgrade_domains,
        },
    }
    if shape.timers is Timers.SHORT:
        rules |= {"zoneWatch": _SHORT_WATCH, "repair": _SHORT_REPAIR}
    return rules_data.from_rules(rules)


def check(shape: Shape) -> None:
    """Raise ``BadShapeError`` if no ledger can be created in a cluster of this shape."""
    if not 1 <= shape.zones <= ZONES_MAX:
        raise BadShapeError(f"--zones {shape.zones}: must be from 1 to {ZONES_MAX}")
    if not 1 <= shape.zones * shape.bookies_per_zone <= BOOKIES_MAX:
        raise BadShapeError(
            f"--bookies-per-zone {shape.bookies_per_zone}: with {shape.zones} zones that is "
            f"{shape.zones * shape.bookies_per_zone} bookies; one machine takes 1 to {BOOKIES_MAX}"
        )
    if not 0 <= shape.autorecovery <= AUTORECOVERY_MAX:
        raise BadShapeError(
            f"--autorecovery {shape.autorecovery}: must be from 0 to {AUTORECOVERY_MAX}"
        )
    try:
        rules = policy(shape)
        topology = Topology(
            Bookie(id=name, location=place) for name, place in places(shape).items()
        )
        request = EnsembleRequest(topology=topology, quorums=rules.quorums, rules=rules.placement)
        selector.choose(request, random.Random(0))  # noqa: S311 only whether there is one
    except (fields.InvalidFieldsError, PlacementError) as error:
        raise BadShapeError(f"{shape}: no ledger could be created there: {error}") from error
