"""Small clusters for the tests of placement, written as ``{zone: {upgrade domain: bookies}}``."""

from collections.abc import Iterable, Mapping

from zonekeeper.placement.base.ids import BookieId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.base.topology import Bookie, Registration, Topology
from zonekeeper.placement.ensembles.candidates import Avoid, EnsembleRequest
from zonekeeper.placement.policy.rules import PlacementRules

Spec = Mapping[str, Mapping[str, int]]

#: More zones than any cluster here has, so that the rules allow each number of required ones.
ZONES = tuple(ZoneName(name) for name in "abcdefgh")


def bookies(spec: Spec) -> list[Bookie]:
    """Build bookies ``<zone>-<upgrade domain>-<number>``."""
    return [
        Bookie(
            id=BookieId(f"{zone}-{domain}-{number}"),
            location=Location(ZoneName(zone), UpgradeDomain(domain)),
        )
        for zone, domains in spec.items()
        for domain, count in domains.items()
        for number in range(count)
    ]


def cluster(spec: Spec) -> Topology:
    return Topology(bookies(spec))


def even(zones: str, domains: int, each: int) -> Topology:
    """Build zones of equal size."""
    return cluster({zone: {str(ud): each for ud in range(1, domains + 1)} for zone in zones})


def with_noise(topology: Topology) -> Topology:
    """Add bookies that no new ensemble may name."""
    here = Location(ZONES[0], UpgradeDomain("1"))
    return topology.updated(
        put=[
            Bookie(id=BookieId("unresolved-0"), location=None),
            Bookie(id=BookieId("unresolved-1"), location=None),
            Bookie(id=BookieId("draining"), location=here, draining=True),
            Bookie(id=BookieId("read-only"), location=here, registration=Registration.READ_ONLY),
            Bookie(id=BookieId("absent"), location=here, registration=Registration.ABSENT),
        ]
    )


def without_zone(topology: Topology, zone: str) -> Topology:
    """Let a zone's bookies be gone; their cookies stay."""
    return topology.updated(
        put=[
            Bookie(id=bookie.id, location=bookie.location, registration=Registration.ABSENT)
            for bookie in topology
            if bookie.location is not None and bookie.location.zone == zone
        ]
    )


def rules(minimum: int = 2, desired: int = 3, *, strict: bool = True) -> PlacementRules:
    return PlacementRules(
        zones=ZONES, min_zones=minimum, desired_zones=desired, strict=strict, weight_cap=3
    )


def quorums(ensemble: int, write: int) -> Quorums:
    return Quorums(ensemble=ensemble, write=write, ack=1)


def request(
    topology: Topology,
    shape: tuple[int, int],
    placement: PlacementRules | None = None,
    avoid: Avoid | None = None,
) -> EnsembleRequest:
    return EnsembleRequest(
        topology=topology,
        quorums=quorums(*shape),
        rules=placement or rules(),
        avoid=avoid or Avoid(),
    )


def ids(*names: str) -> tuple[BookieId, ...]:
    return tuple(BookieId(name) for name in names)


def zones_of(topology: Topology, members: Iterable[BookieId]) -> list[str]:
    """Give the zone of each member; all of them have one."""
    places = [topology.location(member) for member in members]
    return [place.zone for place in places if place is not None]


def in_zone(topology: Topology, members: Iterable[BookieId], zone: str) -> list[int]:
    """Give the positions whose members stand in a zone."""
    return [at for at, name in enumerate(zones_of(topology, members)) if name == zone]
