"""What placing costs: new ensembles, replacements and topology changes, by size of the cluster.

    python -m benchmarks.placement

Sizes are interleaved round by round, and the best round of each counts, so that a busy machine
does not pass for a slow choice. What matters is the last column: how the cost grows from the
smallest cluster to the largest.
"""

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from zonekeeper.placement.base.ids import BookieId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.base.topology import Bookie, Registration, Topology
from zonekeeper.placement.ensembles import selector
from zonekeeper.placement.ensembles.candidates import Avoid, EnsembleRequest
from zonekeeper.placement.policy.rules import PlacementRules

SIZES = (30, 300, 3_000, 10_000)
SHAPES = ((3, 3), (6, 3), (6, 6), (8, 4), (12, 6))
ZONES = tuple(ZoneName(name) for name in "abc")
DOMAINS = 3
ROUNDS = 15
CALLS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One thing to measure, for every size of cluster."""

    name: str
    by_size: dict[int, Callable[[random.Random], object]]


def cluster(size: int) -> Topology:
    """Build three zones of three upgrade domains, with uneven disks."""
    return Topology(
        Bookie(
            id=BookieId(f"bookie-{number:05}"),
            location=Location(
                ZONES[number % 3], UpgradeDomain(f"ud-{number // len(ZONES) % DOMAINS}")
            ),
            free_bytes=(1 + number % 13) << 30,
        )
        for number in range(size)
    )


def without_zone(topology: Topology, zone: ZoneName) -> Topology:
    """Let the bookies of a zone be gone."""
    return topology.updated(
        put=[
            replace(bookie, registration=Registration.ABSENT)
            for bookie in topology
            if bookie.location is not None and bookie.location.zone == zone
        ]
    )


def cases() -> Iterator[Case]:
    """List what is measured."""
    whole = {size: cluster(size) for size in SIZES}
    lost = {size: without_zone(topology, ZONES[2]) for size, topology in whole.items()}
    for shape in SHAPES:
        yield Case(
            name=f"choose {shape[0]}/{shape[1]}",
            by_size={size: choosing(whole[size], shape) for size in SIZES},
        )
    yield Case(
        name="choose 6/3, a zone lost",
        by_size={size: choosing(lost[size], (6, 3)) for size in SIZES},
    )
    for shape in SHAPES:
        yield Case(
            name=f"replace one of {shape[0]}/{shape[1]}",
            by_size={size: replacing(whole[size], whole[size], shape, None) for size in SIZES},
        )
    yield Case(
        name="replace a lost zone of 6/3",
        by_size={size: replacing(whole[size], lost[size], (6, 3), ZONES[2]) for size in SIZES},
    )
    yield Case(
        name="topology: one bookie changes",
        by_size={size: changing(whole[size]) for size in SIZES},
    )


def request(topology: Topology, shape: tuple[int, int]) -> EnsembleRequest:
    """Ask with a few bookies excluded and a few in quarantine, as a busy writer does."""
    return EnsembleRequest(
        topology=topology,
        quorums=Quorums(ensemble=shape[0], write=shape[1], ack=2),
        rules=PlacementRules(zones=ZONES),
        avoid=Avoid(
            bookies=frozenset([BookieId("bookie-00000")]),
            quarantined=frozenset([BookieId("bookie-00001")]),
        ),
    )


def choosing(topology: Topology, shape: tuple[int, int]) -> Callable[[random.Random], object]:
    """Measure a new ensemble."""
    asked = request(topology, shape)
    return lambda chance: selector.choose(asked, chance)


def replacing(
    before: Topology, after: Topology, shape: tuple[int, int], zone: ZoneName | None
) -> Callable[[random.Random], object]:
    """Measure new members for the first position, or for all in a zone."""
    members = selector.choose(request(before, shape), random.Random(1)).ensemble
    places = [before.location(member) for member in members]
    leaving = [0] if zone is None else [at for at, where in enumerate(places)
                                        if where is not None and where.zone == zone]  # fmt: skip
    asked = request(after, shape)
    return lambda chance: selector.replace(asked, members, leaving, chance)


def changing(topology: Topology) -> Callable[[random.Random], object]:
    """Measure a snapshot in which one bookie has a little less room."""
    bookies = list(topology)

    def change(chance: random.Random) -> object:
        bookie = bookies[int(chance.random() * len(bookies))]
        return topology.updated(put=[replace(bookie, free_bytes=(bookie.free_bytes or 1) - 1)])

    return change


def measure(case: Case) -> dict[int, float]:
    """Give the best microseconds a call, by size."""
    best = dict.fromkeys(SIZES, float("inf"))
    for round_number in range(ROUNDS):
        for size, call in case.by_size.items():
            chance = random.Random(round_number)
            started = time.perf_counter()
            for _ in range(CALLS):
                call(chance)
            best[size] = min(best[size], (time.perf_counter() - started) / CALLS * 1e6)
    return best


def main() -> None:
    """Print a line for each case."""
    print(f"{'microseconds a call':<30}" + "".join(f"{size:>9,}" for size in SIZES) + "   growth")
    for case in cases():
        best = measure(case)
        growth = best[SIZES[-1]] / best[SIZES[0]]
        figures = "".join(f"{best[size]:>9.0f}" for size in SIZES)
        print(f"{case.name:<30}{figures}{growth:>8.2f}x")


if __name__ == "__main__":
    main()
