"""The bookies that may join an ensemble: from a topology to the search's units, and back again.

On the way there, bookies become counts by unit. That needs no look at each bookie: a pool knows its
size, and only the bookies to be avoided are looked up one by one. On the way back, a bookie is
drawn by weight from its unit's pool for each newcomer. So the work grows with the number of units
and positions, not with the number of bookies. Most of it is done once for a topology (``Ground``):
a client asks again and again while its view of the bookies stays the same.

The price of a newcomer decides what is given up first. The first is quarantine: it concerns one
bookie, and the writer finds out at once whether the quarantine was right. The second is the wish to
avoid a zone: all bookies of a zone share one fate. The last, and only without strict placement, is
the rule that a bookie stands in a zone that the policy names.
"""

import functools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from zonekeeper.placement.base.chance import Chance
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.pools import Pool, Weighting, draw_from
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.base.topology import Topology
from zonekeeper.placement.ensembles.search import NOWHERE, Board, Filling, Unit
from zonekeeper.placement.policy.rules import PlacementRules

#: So many grounds are remembered: for each one that is asked for, the topology stays in memory.
_GROUNDS_MAX: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Avoid:
    """The bookies and zones that new members should avoid."""

    #: Never chosen.
    bookies: frozenset[BookieId] = frozenset()
    #: Chosen only where nothing legal can be built without them.
    quarantined: frozenset[BookieId] = frozenset()
    #: Zones that are down: they get as few newcomers as the rules allow.
    zones: frozenset[ZoneName] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsembleRequest:
    """The question for the selector: the known bookies, and the rules for the ensemble."""

    topology: Topology
    quorums: Quorums
    rules: PlacementRules
    avoid: Avoid = field(default_factory=Avoid)

    @property
    def zones_required(self) -> int:
        """The number of zones that every write set must span; with fewer the ensemble is FAIL."""
        return min(self.quorums.write, self.rules.min_zones)

    @property
    def zones_desired(self) -> int:
        """The number of zones that every write set must span for STRICT."""
        return max(self.zones_required, min(self.quorums.write, self.rules.desired_zones))


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A bookie for every position, and what it took to find them."""

    ensemble: tuple[BookieId, ...]
    #: The numbers of newcomers that are quarantined, and that stand in an avoided zone.
    quarantined: int
    in_avoided_zones: int
    #: The number of units and bookies that were looked at.
    touched: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What follows from a topology and the rules alone; each tuple is by unit number."""

    #: None for the unit of the bookies without a location; it is the last one.
    locations: tuple[Location | None, ...]
    numbers: Mapping[Location | None, int]
    zones: tuple[ZoneName, ...]
    pools: tuple[Pool, ...]
    #: The sum of the weights of a unit's bookies.
    weights: tuple[int, ...]
    #: May newcomers come from there at all? Unresolved and unknown zones take one path.
    admits: tuple[bool, ...]
    #: The units as they are as long as no bookie is barred or in quarantine.
    units: tuple[Unit, ...]
    weighting: Weighting
    #: The price of a newcomer outside the zones that the policy names: it is more than any number
    #: of newcomers in avoided zones and in quarantine cost together.
    price_outside: int


@functools.lru_cache(maxsize=_GROUNDS_MAX)
def _ground(
    topology: Topology,
    rules: PlacementRules,
    avoided: frozenset[ZoneName],
    size: int,
    strangers: tuple[Location, ...],
) -> Ground:
    """Prepare what ensembles of this size have in common.

    ``strangers`` are the locations of members that stay, where no bookie accepts ensembles.
    """
    located = sorted([*topology.pools, *strangers]) if strangers else list(topology.pools)
    locations = (*located, None)
    zones = tuple(dict.fromkeys(home.zone for home in located))
    zone_numbers = {zone: number for number, zone in enumerate(zones)}
    weighting = topology.weighting(rules.weight_cap, rules.zones)
    # More than any number of quarantined newcomers cost together.
    price_avoided = size + 1
    price_outside = price_avoided**2
    pools, weights, admits, units = [], [], [], []
    for location in locations:
        pool = topology.unresolved if location is None else topology.pools.get(location, Pool())
        named = location is not None and location.zone in rules.zones
        if location is None or not named:
            price = price_outside
        else:
            price = price_avoided if location.zone in avoided else 0
        fresh = len(pool) if named or not rules.strict else 0
        pools.append(pool)
        weights.append(pool.total(weighting))
        admits.append(named or not rules.strict)
        units.append(
            Unit(
                zone=NOWHERE if location is None else zone_numbers[location.zone],
                fresh=fresh,
                price=price,
                weight=_mean_weight(weights[-1], fresh),
            )
        )
    return Ground(
        locations=locations,
        numbers={location: number for number, location in enumerate(locations)},
        zones=zones,
        pools=tuple(pools),
        weights=tuple(weights),
        admits=tuple(admits),
        units=tuple(units),
        weighting=weighting,
        price_outside=price_outside,
    )


def _mean_weight(weight: int, fresh: int) -> float:
    """Give the weight of the average bookie of a unit.

    Without a fresh bookie the share of the quarantined ones follows their number.
    """
    return weight / fresh if fresh else 1.0


class Candidates:
    """The bookies that may take the open positions of an ensemble, by unit."""

    def __init__(
        self,
        request: EnsembleRequest,
        kept: Sequence[BookieId | None],
        leaving: frozenset[BookieId] = frozenset(),
    ) -> None:
        """Count the candidates; ``kept`` names the members that stay, None for open positions."""
        self._topology, self._avoid = request.topology, request.avoid
        stays = {bookie for bookie in kept if bookie is not None}
        self._barred = request.avoid.bookies | leaving | stays
        self._reserve = self._quarantined_by_unit()
        self._barred_from_fresh = self._barred.union(*self._reserve.values())

        homes = {request.topology.location(bookie) for bookie in stays}
        strangers = (
            home for home in homes if home is not None and home not in request.topology.pools
        )
        self._ground = _ground(
            request.topology,
            request.rules,
            request.avoid.zones,
            len(kept),
            tuple(sorted(strangers)),
        )
        #: By unit number; None for the unit of the bookies without a location.
        self.locations = self._ground.locations
        self.zones = self._ground.zones
        self.board = self._board(request.quorums.write, kept)

    def _quarantined_by_unit(self) -> dict[Location | None, list[BookieId]]:
        reserve: dict[Location | None, list[BookieId]] = defaultdict(list)
        for bookie_id in sorted(self._avoid.quarantined - self._barred):
            bookie = self._topology.get(bookie_id)
            if bookie is not None and bookie.accepts_ensembles:
                reserve[bookie.location].append(bookie_id)
        return reserve

    @property
    def placed_cost_max(self) -> int:
        """The highest cost of newcomers that all stand in zones that the policy names."""
        return self._ground.price_outside - 1

    @property
    def priced(self) -> bool:
        """Is there a bookie whose price is above 0?"""
        return any(unit.reserve or (unit.fresh and unit.price) for unit in self.board.units)

    def _board(self, write: int, kept: Sequence[BookieId | None]) -> Board:
        ground = self._ground
        units = list(ground.units)
        barred_weight, barred_count = self._barred_by_unit()
        for location in {**barred_count, **self._reserve}:
            number = ground.numbers[location]
            if not ground.admits[number]:
                continue
            fresh = len(ground.pools[number]) - barred_count[location]
            weight = ground.weights[number] - barred_weight[location]
            units[number] = Unit(
                zone=units[number].zone,
                fresh=fresh,
                reserve=len(self._reserve.get(location, ())),
                price=units[number].price,
                weight=_mean_weight(weight, fresh),
            )
        taken = tuple(
            None if bookie is None else ground.numbers[self._topology.location(bookie)]
            for bookie in kept
        )
        return Board(write=write, units=tuple(units), taken=taken)

    def _barred_by_unit(self) -> tuple[dict[Location | None, int], dict[Location | None, int]]:
        """Give the weight and the number of barred bookies that are in each unit's pool."""
        weights: dict[Location | None, int] = defaultdict(int)
        counts: dict[Location | None, int] = defaultdict(int)
        for bookie_id in self._barred_from_fresh:
            bookie = self._topology.get(bookie_id)
            if bookie is not None and bookie.accepts_ensembles:
                weights[bookie.location] += self._ground.weighting.of(bookie.pool_bytes)
                counts[bookie.location] += 1
        return weights, counts

    def draw(self, filling: Filling, kept: Sequence[BookieId | None], chance: Chance) -> Drawn:
        """Draw a bookie for each position without a kept member, from the unit of the filling.

        ``kept`` may name only members that were kept when the candidates were counted.
        """
        ground = self._ground
        barred = set(self._barred_from_fresh)
        fresh_left = [unit.fresh for unit in self.board.units]
        ensemble: list[BookieId] = []
        quarantined = avoided = 0
        touched = len(self.board.units)
        for bookie, number in zip(kept, filling.units, strict=True):
            location = self.locations[number]
            if bookie is not None:
                ensemble.append(bookie)
                continue
            if fresh_left[number]:
                fresh_left[number] -= 1
                drawn, looked_at = ground.pools[number].draw(chance, ground.weighting, barred)
                barred.add(drawn)
            else:
                quarantined += 1
                drawn, looked_at = self._draw_quarantined(location, ensemble, chance)
            avoided += location is not None and location.zone in self._avoid.zones
            touched += looked_at
            ensemble.append(drawn)
        return Drawn(
            ensemble=tuple(ensemble),
            quarantined=quarantined,
            in_avoided_zones=avoided,
            touched=touched,
        )

    def _draw_quarantined(
        self, location: Location | None, drawn: Sequence[BookieId], chance: Chance
    ) -> tuple[BookieId, int]:
        weights: dict[BookieId, int] = {}
        for bookie_id in self._reserve[location]:
            bookie = self._topology.get(bookie_id)
            if bookie is not None and bookie_id not in drawn:
                weights[bookie_id] = self._ground.weighting.of(bookie.pool_bytes)
        return draw_from(weights, chance), len(weights)
