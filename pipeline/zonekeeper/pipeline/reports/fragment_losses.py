"""What each loss would do to a fragment: that of a zone, an upgrade domain or a bookie. Pure.

A loss is judged on top of what is missing already: a bookie that is not registered, or whose
location is unknown, counts as lost in every answer. Only losses that take a member are answered:
any other one leaves the fragment as it is now.

The answers depend on the members' places and on which of them are missing, not on their names. They
are remembered by that, so the work grows with the distinct spreads, not with the fragments.
"""

import enum
import functools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.base.topology import Topology
from zonekeeper.replication.decisions import what_if
from zonekeeper.replication.decisions.what_if import LedgerOutcome

#: So many spreads are remembered.
SPREADS_MAX: Final = 100_000


class LossScope(enum.StrEnum):
    """What is lost."""

    ZONE = "zone"
    UPGRADE_DOMAIN = "upgradeDomain"
    BOOKIE = "bookie"


class NamedLoss(NamedTuple):
    """One loss; an upgrade domain is named with its zone, as ``/a/ud-0``."""

    kind: LossScope
    name: str


class Member(NamedTuple):
    """What the answers depend on of a member."""

    location: Location | None
    missing: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """The answers for one fragment."""

    #: With what is missing now.
    now: LedgerOutcome
    #: By loss; zones, upgrade domains and bookies, each sorted by name.
    by_loss: tuple[tuple[NamedLoss, LedgerOutcome], ...]


def members_of(ensemble: Sequence[BookieId], topology: Topology) -> tuple[Member, ...]:
    """Give the places of an ensemble; a bookie without a cookie is missing, at no place."""
    known = [topology.get(one) for one in ensemble]
    return tuple(
        Member(None, missing=True)
        if one is None
        else Member(one.location, missing=not one.readable)
        for one in known
    )


def of_fragment(
    quorums: Quorums,
    ensemble: Sequence[BookieId],
    members: tuple[Member, ...],
    *,
    grows: bool,
    empty: bool,
) -> Losses:
    """Judge each loss; ``members`` are the places of ``ensemble``."""
    now, answers = _by_places(quorums, members, grows, empty)
    named = [(_loss(kind, at, ensemble, members), outcome) for kind, at, outcome in answers]
    order = list(LossScope)
    named.sort(key=lambda one: (order.index(one[0].kind), one[0].name))
    return Losses(now=now, by_loss=tuple(named))


@functools.lru_cache(maxsize=SPREADS_MAX)
def _by_places(
    quorums: Quorums,
    members: tuple[Member, ...],
    grows: bool,
    empty: bool,
) -> tuple[LedgerOutcome, tuple[tuple[LossScope, int, LedgerOutcome], ...]]:
    zones = [None if one.location is None else one.location.zone for one in members]
    gone = frozenset(at for at, one in enumerate(members) if one.missing or one.location is None)

    def judged(lost: frozenset[int]) -> LedgerOutcome:
        return what_if.of_fragment(quorums, zones, gone | lost, grows=grows, empty=empty)

    return judged(frozenset()), tuple(
        (kind, min(lost), judged(lost)) for kind, lost in _losses(members)
    )


def _losses(members: Sequence[Member]) -> Iterator[tuple[LossScope, frozenset[int]]]:
    """Give the positions that each loss takes."""
    zones: defaultdict[ZoneName, set[int]] = defaultdict(set)
    units: defaultdict[Location, set[int]] = defaultdict(set)
    for at, (place, _) in enumerate(members):
        if place is not None:
            zones[place.zone].add(at)
            units[place].add(at)
        yield LossScope.BOOKIE, frozenset({at})
    yield from ((LossScope.ZONE, frozenset(lost)) for lost in zones.values())
    yield from ((LossScope.UPGRADE_DOMAIN, frozenset(lost)) for lost in units.values())


def _loss(
    kind: LossScope, at: int, ensemble: Sequence[BookieId], members: Sequence[Member]
) -> NamedLoss:
    place = members[at].location
    if kind is LossScope.BOOKIE or place is None:
        return NamedLoss(LossScope.BOOKIE, ensemble[at])
    return NamedLoss(kind, place.zone if kind is LossScope.ZONE else str(place))
