"""What a number of bookies is good for, before it runs: warnings about losses. Pure.

The bookies are those that the resource will run: so many in each zone, in upgrade domains by their
ordinals. Placement itself is asked, as for ``placement explain``. A cluster that is too small is
legal, because its owner may mean it, but they must know.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from zonekeeper.placement.base import upgrade_domains
from zonekeeper.placement.base.holds import Holds
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.topology import Bookie, Topology
from zonekeeper.placement.base.upgrade_domains import RoundRobin
from zonekeeper.placement.ensembles import selector
from zonekeeper.placement.ensembles.candidates import EnsembleRequest
from zonekeeper.placement.ensembles.failures import NotEnoughBookies
from zonekeeper.placement.policy.rules import Policy
from zonekeeper.placement.promises import outages
from zonekeeper.placement.promises.survivability import LossKind

#: The losses after which new ledgers should still be possible.
_EXPECTED: Final = (LossKind.BOOKIE, LossKind.ZONE)


@dataclass(frozen=True, slots=True)
class _First:
    """No chance at all: whether an ensemble can be built depends on none."""

    def random(self) -> float:
        return 0.0


def warnings(policy: Policy, bookies_per_zone: int) -> tuple[str, ...]:
    """Say what is not possible with so many bookies in each zone of a legal policy."""
    said = f"spec.bookiesPerZone: {bookies_per_zone}:"
    found = _found(policy, min(bookies_per_zone, _most(policy)))
    return tuple(f"{said} {what}" for what in found)


def losses(policy: Policy, bookies_per_zone: int) -> tuple[str, ...]:
    """Say what no ledger survives, or is not created after, with so many bookies in each zone."""
    return _broken_at(policy, min(bookies_per_zone, _most(policy)))


@functools.lru_cache(maxsize=64)
def _broken_at(policy: Policy, bookies_per_zone: int) -> tuple[str, ...]:
    found = tuple(_broken(policy, bookies_per_zone))
    return tuple(f"{what}; {_way_out(policy, bookies_per_zone)}" for what in found)


def _most(policy: Policy) -> int:
    """Give a number of bookies in a zone beyond which one more changes nothing.

    An ensemble takes at most its size from an upgrade domain, beside one bookie that is lost.
    """
    return (policy.quorums.ensemble + 1) * policy.placement.upgrade_domains


@functools.lru_cache(maxsize=64)
def _found(policy: Policy, bookies_per_zone: int) -> tuple[str, ...]:
    """Judge once: a turn reads the resource again and again."""
    return tuple(_findings(policy, bookies_per_zone))


def _findings(policy: Policy, bookies_per_zone: int) -> Iterator[str]:
    domains = policy.placement.upgrade_domains
    if bookies_per_zone < domains:
        yield (
            f"fewer than placement.upgradeDomains ({domains}), so that some upgrade domains stay "
            f"empty; set it to {domains} or more, or lower upgradeDomains before the cluster is "
            "built"
        )
    broken = tuple(_broken(policy, bookies_per_zone))
    for what in broken:
        yield f"{what}; {_way_out(policy, bookies_per_zone)}"


def _broken(policy: Policy, bookies_per_zone: int) -> Iterator[str]:
    """Say when no ledger can be created with so many bookies in each zone."""
    topology = Topology(_bookies(policy, bookies_per_zone))
    request = EnsembleRequest(topology=topology, quorums=policy.quorums, rules=policy.placement)
    try:
        choice = selector.choose(request, _First())
    except NotEnoughBookies as failure:
        yield f"no ledger can be created: {failure}"
        return
    for found in outages.of_ensemble(
        policy.quorums, policy.placement, topology, choice.ensemble, _First()
    ):
        if found.loss in _EXPECTED and found.new.holds is not Holds.YES:
            yield f"while {found.loss} is lost, no ledger can be created: {found.new.why}"


def _way_out(policy: Policy, bookies_per_zone: int) -> str:
    """Give the fewest bookies with which nothing is broken; more break nothing that fewer keep.

    With the number of ``_most`` nothing of a legal policy is broken.
    """
    broken, whole = bookies_per_zone, _most(policy)
    while whole - broken > 1:
        middle = (broken + whole) // 2
        if any(True for _ in _broken(policy, middle)):
            broken = middle
        else:
            whole = middle
    return f"set it to {whole} or more, or lower policy.quorums.ensemble"


def _bookies(policy: Policy, bookies_per_zone: int) -> Iterator[Bookie]:
    formula = RoundRobin(upgrade_domains=policy.placement.upgrade_domains)
    for zone in policy.placement.zones:
        for ordinal in range(bookies_per_zone):
            yield _bookie(zone, ordinal, formula)


def _bookie(zone: ZoneName, ordinal: int, formula: RoundRobin) -> Bookie:
    place = Location(zone, upgrade_domains.of_ordinal(ordinal, formula))
    return Bookie(id=BookieId(f"{zone}-{ordinal}"), location=place)
