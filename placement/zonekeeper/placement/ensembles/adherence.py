"""The checker: does an ensemble keep the placement rules?

The checker says what *is true* of an ensemble, however the ensemble came about. The policy says
what is required, and the selector chooses. The three share no code, so a mistake in the selector
cannot be repeated here.

An ensemble is judged by its write sets. The level is FAIL unless each write set spans ``min_zones``
zones, and unless in each write set two or more members of one zone stand in at least two upgrade
domains. The level is STRICT if each write set also spans ``desired_zones`` (a smaller write set:
as many zones as it has members). Otherwise it is SOFT. The topology says where a member stands. An
ensemble with a member that is unresolved, or that the topology does not know, is FAIL, because
nothing can be promised about it. It does not matter whether a member is up.
"""

import enum
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from zonekeeper.placement.base.ids import BookieId, EntryId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.base.topology import Topology
from zonekeeper.placement.policy.rules import PlacementRules


class Level(enum.IntEnum):
    """The degree to which an ensemble keeps the rules; the numbers are Apache BookKeeper's."""

    FAIL = 1
    SOFT = 3
    STRICT = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Adherence:
    """A level, and the reasons why it is not the best one."""

    level: Level
    reasons: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        raise TypeError("a judgement has three levels: compare `.level`")


def judge(
    ensemble: Sequence[BookieId], quorums: Quorums, rules: PlacementRules, topology: Topology
) -> Adherence:
    """Judge an ensemble against the placement rules."""
    failures = tuple(_shape_failures(ensemble, quorums, rules))
    if failures:
        return Adherence(level=Level.FAIL, reasons=failures)
    distinct = 1 if quorums.ensemble == quorums.write else quorums.ensemble
    write_sets = [
        tuple(ensemble[position] for position in quorums.write_set(EntryId(first)))
        for first in range(distinct)
    ]
    failures = (
        *_unresolved(ensemble, topology),
        *(reason for members in write_sets for reason in _failures(members, rules, topology)),
    )
    if failures:
        return Adherence(level=Level.FAIL, reasons=failures)
    desired = min(quorums.write, rules.desired_zones)
    shortfalls = tuple(
        f"write set {', '.join(members)}: in {_zones_in_words(members, topology)}, "
        f"{desired} are desired"
        for members in write_sets
        if len(_domains_by_zone(members, topology)) < desired
    )
    if shortfalls:
        return Adherence(level=Level.SOFT, reasons=shortfalls)
    return Adherence(level=Level.STRICT)


def _shape_failures(
    ensemble: Sequence[BookieId], quorums: Quorums, rules: PlacementRules
) -> Iterator[str]:
    """Give the faults that no choice of bookies could mend."""
    if not ensemble:
        yield "the ensemble is empty"
    elif len(ensemble) != quorums.ensemble:
        yield f"the ensemble has {len(ensemble)} members, its quorums say {quorums.ensemble}"
    for bookie in sorted({bookie for bookie in ensemble if ensemble.count(bookie) > 1}):
        yield f"{bookie} is named more than once: its copies are lost together"
    if quorums.ensemble % quorums.write:
        yield (
            f"ensemble {quorums.ensemble} is not a multiple of write quorum {quorums.write}: "
            "write sets that wrap around lose the zone rotation"
        )
    if quorums.write <= rules.min_zones:
        yield (
            f"write quorum {quorums.write} is not above the {rules.min_zones} zones required: "
            "after a zone is lost there is no legal replacement"
        )


def _unresolved(ensemble: Sequence[BookieId], topology: Topology) -> Iterator[str]:
    for bookie in ensemble:
        if topology.location(bookie) is None:
            yield f"{bookie} has no known location"


def _failures(
    members: Sequence[BookieId], rules: PlacementRules, topology: Topology
) -> Iterator[str]:
    """Give the faults of one write set."""
    domains_by_zone = _domains_by_zone(members, topology)
    if len(domains_by_zone) < rules.min_zones:
        yield (
            f"write set {', '.join(members)}: in {_zones_in_words(members, topology)}, "
            f"{rules.min_zones} are required"
        )
    for zone, domains in sorted(domains_by_zone.items()):
        if len(domains) > 1 and len(set(domains)) == 1:
            yield (
                f"write set {', '.join(members)}: {len(domains)} members in zone {zone}, "
                f"all in upgrade domain {domains[0]}"
            )


def _domains_by_zone(
    members: Sequence[BookieId], topology: Topology
) -> dict[ZoneName, list[UpgradeDomain]]:
    """Give the upgrade domain of each located member, by zone."""
    domains: dict[ZoneName, list[UpgradeDomain]] = defaultdict(list)
    for member in members:
        location = topology.location(member)
        if location is not None:
            domains[location.zone].append(location.upgrade_domain)
    return domains


def _zones_in_words(members: Sequence[BookieId], topology: Topology) -> str:
    zones = sorted(_domains_by_zone(members, topology))
    return f"{len(zones)} zones ({', '.join(zones)})" if len(zones) != 1 else f"1 zone ({zones[0]})"
