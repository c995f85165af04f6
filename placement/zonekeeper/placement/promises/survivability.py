"""Survivability: does a ledger survive the loss of bookies, upgrade domains and zones?

A loss is that of a bookie, an upgrade domain, a zone, or a zone and one more bookie. Three
questions are asked for every write set and every loss that can affect it. The answer is the worst
case:

- **reads**: is a copy left of each acknowledged entry? Any bookies that make an ack quorum may have
  acknowledged an entry, and it may have no other copy. A superset of an ack quorum is an ack quorum
  too. So some entry can be lost if and only if the lost members alone make an ack quorum.
- **recovery**: can a new reader fence the ledger and find its end? That is ``coverage``'s rule.
- **acks**: do the members that are left make an ack quorum, so that writing goes on unchanged?

A member whose location is unresolved is taken to stand where it does most harm: it is lost with
every zone and unit, and it adds no zone. Entries usually reach their whole write set before
anything is lost. The answers here hold even for entries that were acknowledged just before.
"""

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from zonekeeper.placement.base import coverage
from zonekeeper.placement.base.coverage import Coverage
from zonekeeper.placement.base.holds import Holds
from zonekeeper.placement.base.ids import EntryId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.quorums import Enough, Quorums
from zonekeeper.placement.policy.rules import PlacementRules

#: The locations of the members of one write set; None if unresolved.
WriteSet = tuple[Location | None, ...]

#: These stand for the zones of unresolved bookies. No zone has such a name: it is no DNS label.
_SOMEWHERE: Final = ZoneName("(unknown)")
_ELSEWHERE: Final = ZoneName("(another, unknown)")


class LossKind(enum.StrEnum):
    """The things that are lost together."""

    BOOKIE = "a bookie"
    UPGRADE_DOMAIN = "an upgrade domain"
    ZONE = "a zone"
    ZONE_AND_BOOKIE = "a zone and a bookie"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The worst case of one question under one kind of loss."""

    holds: Holds
    #: The number of copies, answers or bookies that are left, and the number that is needed.
    left: int
    needed: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LossRow:
    """One kind of loss, and the answers to the three questions."""

    loss: LossKind
    reads: Answer
    recovery: Answer
    acks: Answer


@dataclass(frozen=True, slots=True)
class _Hit:
    """One loss that affects a write set: the lost members, and the zones of all members then."""

    words: str
    lost: frozenset[int]
    zones: tuple[ZoneName | None, ...]

    def zones_of(self, *, lost: bool) -> list[ZoneName | None]:
        return [zone for place, zone in enumerate(self.zones) if (place in self.lost) is lost]


def of_ensemble(quorums: Quorums, members: Sequence[Location | None]) -> tuple[LossRow, ...]:
    """Judge one ensemble by the locations of its members; one row a kind of loss."""
    assert len(members) == quorums.ensemble
    positions = map(quorums.write_set, map(EntryId, range(quorums.ensemble)))
    return of_write_sets(quorums, {tuple(members[place] for place in each) for each in positions})


def of_write_sets(quorums: Quorums, write_sets: Iterable[WriteSet]) -> tuple[LossRow, ...]:
    """Judge at least one write set; each row has the worst case of all, one row a kind of loss."""
    ordered = sorted(set(write_sets), key=str)
    assert ordered
    return tuple(_row(quorums, loss, ordered) for loss in LossKind)


def least_spread(
    quorums: Quorums, rules: PlacementRules, bookies: Mapping[Location, int]
) -> frozenset[WriteSet]:
    """Give the write sets that survive least, of all that the rules allow.

    ``bookies`` is the number of bookies in each place. The result has one write set for each zone
    and each number of zones that the rules allow. This write set has as many members as possible in
    that zone, and as many of them as possible in one upgrade domain; its other members are as close
    together as possible. Every other legal write set survives at least what one of these survives.
    The result is empty if no write set is legal.

    Rules that are not strict allow every write set. Then these are the closest that the bookies
    allow.
    """
    units = _units(bookies)
    room = {zone: _room(held, rules) for zone, held in units.items()}
    least = max(1, rules.min_zones) if rules.strict else 1
    found = set()
    for distinct in range(least, min(quorums.write, len(room)) + 1):
        for fullest in sorted(room):
            others = sorted(room.keys() - {fullest}, key=lambda zone: (-room[zone], zone))
            chosen = [fullest, *others][:distinct]
            counts = _concentrated(quorums.write, {zone: room[zone] for zone in chosen})
            if counts:
                found.add(_members(counts, units, rules))
    return frozenset(found)


def _units(bookies: Mapping[Location, int]) -> dict[ZoneName, list[tuple[int, Location]]]:
    """Give the units of each zone that has bookies, the largest first."""
    units: dict[ZoneName, list[tuple[int, Location]]] = {}
    for place, count in sorted(bookies.items()):
        if count:
            units.setdefault(place.zone, []).append((count, place))
    return {
        zone: sorted(held, key=lambda unit: (-unit[0], unit[1])) for zone, held in units.items()
    }


def _concentrated(write: int, room: Mapping[ZoneName, int]) -> dict[ZoneName, int]:
    """Divide members over just these zones, as many as possible in the first; {} if impossible."""
    rest = write - len(room)
    counts = {}
    for zone, most in room.items():
        more = min(rest, most - 1)
        counts[zone] = 1 + more
        rest -= more
    return {} if rest else counts


def _room(units: Sequence[tuple[int, Location]], rules: PlacementRules) -> int:
    """Give the most members that one zone may have in a write set."""
    return 1 if rules.strict and len(units) == 1 else sum(count for count, _ in units)


def _members(
    counts: Mapping[ZoneName, int],
    units: Mapping[ZoneName, Sequence[tuple[int, Location]]],
    rules: PlacementRules,
) -> WriteSet:
    """Choose units for the members of each zone, as many as the rules allow in the largest one."""
    members: list[Location] = []
    for zone, count in counts.items():
        (room, fullest), *others = units[zone]
        together = min(room, count - 1) if rules.strict and count > 1 else min(room, count)
        members += [fullest] * together
        rest = [place for held, place in others for _ in range(held)]
        members += rest[: count - together]
    return tuple(members)


def _row(quorums: Quorums, loss: LossKind, write_sets: Sequence[WriteSet]) -> LossRow:
    hits = [hit for write_set in write_sets for hit in _hits(loss, write_set)]
    return LossRow(
        loss=loss,
        reads=_worst(quorums, hits, _reads),
        recovery=_worst(quorums, hits, _recovery),
        acks=_worst(quorums, hits, _acks),
    )


def _worst(
    quorums: Quorums, hits: Sequence[_Hit], ask: Callable[[Quorums, _Hit], Answer]
) -> Answer:
    answers = [ask(quorums, hit) for hit in hits]
    return min(answers, key=lambda answer: (answer.holds, answer.left - answer.needed))


def _hits(loss: LossKind, write_set: WriteSet) -> Iterator[_Hit]:
    """Give every way in which a kind of loss can affect a write set, with unresolved members."""
    zones = tuple(None if place is None else place.zone for place in write_set)
    if loss is LossKind.BOOKIE:
        for index, place in enumerate(write_set):
            yield _Hit(f"the bookie in {place or 'an unknown place'}", frozenset({index}), zones)
        return
    if loss is LossKind.UPGRADE_DOMAIN:
        for unit in _distinct(write_set):
            lost = frozenset(i for i, place in enumerate(write_set) if place in (unit, None))
            yield _Hit(f"unit {unit}", lost, _placed(zones, unit.zone))
    if loss in (LossKind.ZONE, LossKind.ZONE_AND_BOOKIE):
        for zone in dict.fromkeys(unit.zone for unit in _distinct(write_set)):
            lost = frozenset(i for i, name in enumerate(zones) if name in (zone, None))
            yield _Hit(f"zone {zone}", lost, _placed(zones, zone))
            if loss is LossKind.ZONE_AND_BOOKIE:
                yield from _one_more(write_set, zone, lost)


def _one_more(write_set: WriteSet, zone: ZoneName, lost: frozenset[int]) -> Iterator[_Hit]:
    """Lose one more member outside the lost zone; an unresolved member may be outside as well."""
    for index, place in enumerate(write_set):
        if place is None or place.zone != zone:
            elsewhere = _ELSEWHERE if place is None else place.zone
            zones = [p.zone if p else None for p in write_set]
            zones[index] = elsewhere
            words = f"zone {zone} and a bookie of zone {elsewhere}"
            yield _Hit(words, lost | {index}, _placed(zones, zone))


def _distinct(write_set: WriteSet) -> list[Location]:
    """Give the places of a write set, each once; or one stand-in for all if none is known."""
    known = sorted({place for place in write_set if place is not None})
    return known or [Location(_SOMEWHERE, UpgradeDomain("unknown"))]


def _placed(zones: Sequence[ZoneName | None], zone: ZoneName) -> tuple[ZoneName | None, ...]:
    """Put the unresolved members into the zone that is lost."""
    return tuple(name or zone for name in zones)


def _reads(quorums: Quorums, hit: _Hit) -> Answer:
    lost = hit.zones_of(lost=True)
    spread = len(set(lost) - {None})
    left = max(0, quorums.ack - len(lost), quorums.ack_zones - spread)
    alone = quorums.suffice(lost)
    if alone is Enough.YES:
        why = f"{hit.words} may hold every copy of an acknowledged entry"
        return Answer(holds=Holds.NO, left=0, needed=1, why=why)
    if alone is Enough.UNKNOWN:
        why = f"{hit.words} may hold every copy of an entry, if unresolved zones differ"
        return Answer(holds=Holds.PERHAPS, left=0, needed=1, why=why)
    copies = "1 copy" if left == 1 else f"{left} copies"
    why = f"with {hit.words} lost, each acknowledged entry keeps at least {copies}"
    return Answer(holds=Holds.YES, left=left, needed=1, why=why)


def _recovery(quorums: Quorums, hit: _Hit) -> Answer:
    answering = frozenset(range(quorums.write)) - hit.lost
    one_set = replace(quorums, ensemble=quorums.write)
    found = coverage.of_entry(
        one_set, EntryId(0), denied=answering, pending=frozenset(), zones=hit.zones
    )
    needed = quorums.write - quorums.ack + 1
    why = f"with {hit.words} lost, {len(answering)} of {quorums.write} answer, {needed} are needed"
    if found is Coverage.BY_ZONES:
        why += "; provable only where the writer kept to this ackZones"
        return Answer(holds=Holds.PERHAPS, left=len(answering), needed=needed, why=why)
    holds = Holds.YES if found is Coverage.YES else Holds.NO
    return Answer(holds=holds, left=len(answering), needed=needed, why=why)


def _acks(quorums: Quorums, hit: _Hit) -> Answer:
    left = hit.zones_of(lost=False)
    found = quorums.suffice(left)
    why = (
        f"with {hit.words} lost, {len(left)} of {quorums.write} are left, {quorums.ack} are needed"
    )
    if len(left) >= quorums.ack and found is not Enough.YES:
        spread = len(set(left) - {None})
        why += f", in {quorums.ack_zones} zones where they stand in {spread}"
    holds = {Enough.YES: Holds.YES, Enough.UNKNOWN: Holds.PERHAPS}.get(found, Holds.NO)
    return Answer(holds=holds, left=len(left), needed=quorums.ack, why=why)
