"""Absences: what an ensemble loses while some of its bookies are away together.

This is asked before planned work on a unit (an upgrade domain of a zone), for each ledger with
members there. The answers are computed over every write set and every ack quorum, not by formula:

- an entry stays readable if the bookies that are away contain no ack quorum;
- entries can be acknowledged without an ensemble change if the bookies that stay contain an ack
  quorum;
- the ledger of a dead writer can be recovered if the bookies that stay cover the ensemble.

Let ``g`` be the largest number of members of one write set that are away. Then the three conditions
are ``ack > g``, ``write - g >= ack`` and again ``ack > g``. If acknowledgements need two zones, the
first condition holds for every ``g`` as long as only members of the unit are away: a unit is in one
zone. The third condition gains nothing by that: for a recovery, a proof by zones does not count.

A member whose location is unresolved may be in the unit or not. If the answer depends on it, the
answer is *perhaps*. For planned work that means the same as no.
"""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import assert_never

from zonekeeper.placement.base import coverage
from zonekeeper.placement.base.coverage import Coverage
from zonekeeper.placement.base.holds import Holds
from zonekeeper.placement.base.ids import EntryId, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.quorums import Enough, Quorums


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """The price of bookies that are away, in the worst write set of an ensemble."""

    quorums: Quorums
    #: Ensemble positions that are certainly away.
    away: frozenset[int]
    #: Positions that may be away too, because their location is unresolved.
    perhaps: frozenset[int]
    #: The most members of one write set that are away, including those that may be.
    worst: int
    reads: Holds
    #: Acknowledgements without an ensemble change.
    acks: Holds
    recovery: Holds
    #: Reads, if another zone is lost meanwhile.
    reads_if_zone_lost: Holds

    @property
    def harmless(self) -> bool:
        """Is only redundancy lost, so that reads, acknowledgements and recovery go on?"""
        return all(each is Holds.YES for each in (self.reads, self.acks, self.recovery))

    def words(self) -> tuple[str, ...]:
        """Say it in words, one sentence each."""
        quorums = self.quorums
        lines = [f"at most {self.worst} of the {quorums.write} copies of an entry are away"]
        if self.perhaps:
            lines.append(f"unresolved, and counted as away: position {_join(self.perhaps)}")
        lines += [
            _say(self.reads, "acknowledged entries stay readable"),
            _say(self.acks, f"{quorums.ack} can acknowledge without an ensemble change"),
            _say(self.recovery, "a ledger whose writer dies can be recovered"),
            _say(self.reads_if_zone_lost, "entries stay readable if another zone is lost too"),
        ]
        return tuple(lines)


def of_unit(
    quorums: Quorums,
    ensemble: Sequence[Location | None],
    unit: Location,
    *,
    already: AbstractSet[int] = frozenset(),
) -> Absence:
    """Compute what an ensemble loses while a unit is away; it is given by its members' locations.

    ``already`` are the positions that are away before the work begins.
    """
    assert len(ensemble) == quorums.ensemble, (
        f"{len(ensemble)} members of an ensemble of {quorums.ensemble}"
    )
    everyone = range(quorums.ensemble)
    away = frozenset(p for p in everyone if p in already or ensemble[p] == unit)
    perhaps = frozenset(p for p in everyone if ensemble[p] is None) - away
    zones = [None if location is None else location.zone for location in ensemble]
    others = {zone for zone in zones if zone is not None} - {unit.zone}
    reads = _reads(quorums, zones, away, perhaps)
    return Absence(
        quorums=quorums,
        away=away,
        perhaps=perhaps,
        worst=max(len((away | perhaps) & members) for members in _write_sets(quorums)),
        reads=reads,
        acks=_acks(quorums, zones, away, perhaps),
        recovery=_recovery(quorums, zones, away, perhaps),
        reads_if_zone_lost=min(
            [
                reads,
                *(_reads(quorums, zones, away | _members(zones, zone), perhaps) for zone in others),
            ]
        ),
    )


_Zones = Sequence[ZoneName | None]


def _reads(
    quorums: Quorums, zones: _Zones, away: AbstractSet[int], perhaps: AbstractSet[int]
) -> Holds:
    def of(members: AbstractSet[int]) -> Holds:
        if _suffice(quorums, zones, members & (away | perhaps)) is Enough.NO:
            return Holds.YES
        lost = _suffice(quorums, zones, members & away) is Enough.YES
        return Holds.NO if lost else Holds.PERHAPS

    return min(of(members) for members in _write_sets(quorums))


def _acks(
    quorums: Quorums, zones: _Zones, away: AbstractSet[int], perhaps: AbstractSet[int]
) -> Holds:
    def of(members: AbstractSet[int]) -> Holds:
        if _suffice(quorums, zones, members - away - perhaps) is Enough.YES:
            return Holds.YES
        stuck = _suffice(quorums, zones, members - away) is Enough.NO
        return Holds.NO if stuck else Holds.PERHAPS

    return min(of(members) for members in _write_sets(quorums))


def _recovery(
    quorums: Quorums, zones: _Zones, away: AbstractSet[int], perhaps: AbstractSet[int]
) -> Holds:
    everyone = frozenset(range(quorums.ensemble))
    # A bookie that may be away counts as one whose answer is still to come.
    covered = coverage.of_ensemble(
        quorums, answered=everyone - away - perhaps, pending=perhaps, zones=zones
    )
    match covered:
        case Coverage.YES:
            return Holds.YES
        case Coverage.NOT_YET:
            return Holds.PERHAPS
        case Coverage.BY_ZONES | Coverage.NO:
            return Holds.NO
        case _:
            assert_never(covered)


def _suffice(quorums: Quorums, zones: _Zones, positions: Iterable[int]) -> Enough:
    return quorums.suffice([zones[position] for position in positions])


def _write_sets(quorums: Quorums) -> list[frozenset[int]]:
    return [frozenset(quorums.write_set(EntryId(start))) for start in range(quorums.ensemble)]


def _members(zones: _Zones, zone: ZoneName) -> frozenset[int]:
    return frozenset(position for position, each in enumerate(zones) if each == zone)


def _say(answer: Holds, what: str) -> str:
    return f"{what}: {answer.word}"


def _join(positions: Iterable[int]) -> str:
    return ", ".join(str(position) for position in sorted(positions))
