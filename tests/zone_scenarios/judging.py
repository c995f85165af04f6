"""Says whether an expectation is met by what is to be seen at one moment. Both players ask it.

``late_ms`` is how much later than its line something may have come about: nothing on the machine;
on a watch that runs, what its rhythm takes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from tests.zone_scenarios import steps
from tests.zone_scenarios.steps import (
    Expectation,
    GateName,
    Kind,
    OfHistory,
    OfState,
    State,
)
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.zones.gate import Permission, Token
from zonekeeper.placement.zones.losses import HeldBy
from zonekeeper.placement.zones.zone_records import ClusterRecord, Record, ZoneRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """Something that a person was told, or the watch did, and when."""

    at_ms: int
    kind: Kind
    what: str = ""


@dataclass(slots=True)
class Passing:
    """What a gate has gone through since the beginning; fed by each look at its record."""

    states: list[tuple[State, Permission]]
    tokens: set[Token]

    @classmethod
    def begun(cls) -> "Passing":
        """Give what was not looked at."""
        return cls([], set())

    def look(self, record: Record) -> None:
        """Note what a record says, where it is new."""
        now = (record.observed.state, record.gate.permission)
        if self.states[-1:] != [now]:
            self.states.append(now)
        if record.gate.token is not None:
            self.tokens.add(record.gate.token)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What is to be seen at one moment; times are since the beginning."""

    zones: Mapping[ZoneName, ZoneRecord]
    cluster: ClusterRecord
    replication_on: bool
    in_maintenance: frozenset[Location]
    passed: Mapping[GateName, Passing]
    published: Mapping[BookieId, int]
    holds: Callable[[BookieId], HeldBy | None]
    happened: Sequence[Happening]
    #: The timeline's lines that no expectation has named yet, by what they are about.
    noted: Mapping[GateName, Sequence[str]]

    def record(self, gate: GateName) -> Record:
        """Give a zone's record, or the cluster's."""
        return self.cluster if gate is None else self.zones[gate]


def unmet(expected: Expectation, seen: Seen, *, late_ms: int) -> str | None:
    """Say what is to be seen instead; None: it is as expected."""
    if isinstance(expected, OfHistory):
        return _unmet_history(expected, seen, late_ms)
    return _unmet_state(expected, seen, late_ms)


def _unmet_state(expected: OfState, seen: Seen, late_ms: int) -> str | None:
    found: str | None
    match expected:
        case steps.Stands():
            found = _stands(expected, seen.record(expected.gate))
        case steps.Published():
            found = _published(expected, seen, late_ms)
        case steps.IsHeld():
            by = seen.holds(expected.bookie)
            found = _unless(by is expected.by, f"held by {by or 'nothing'}")
        case steps.Alerts():
            alerts = seen.record(expected.gate).alerts
            found = _unless({*alerts} == expected.alerts, ", ".join(alerts) or "none")
        case steps.Counted():
            count = seen.zones[expected.zone].evidence
            as_told = all(getattr(count, name) == n for name, n in expected.numbers.items())
            found = _unless(as_told, repr(count))
        case steps.HoldUp():
            hold_up_ms = seen.zones[expected.zone].observed.hold_up_ms
            found = _unless(hold_up_ms == expected.ms, f"{hold_up_ms} ms")
        case steps.HeldTime():
            held_ms = seen.record(expected.gate).gate.held_ms
            found = _unless(abs(held_ms - expected.ms) <= late_ms, f"{held_ms} ms")
        case steps.Switched():
            found = _unless(seen.replication_on is expected.on, "the other way")
        case steps.Declared():
            units, counted = seen.in_maintenance, len(seen.cluster.maintenance)
            as_told = units == expected.units and counted == len(units)
            found = _unless(as_told, f"{sorted(map(str, units))}, and {counted} are counted")
        case _:
            assert_never(expected)
    return found


def _unmet_history(expected: OfHistory, seen: Seen, late_ms: int) -> str | None:
    found: str | None
    match expected:
        case steps.Passed():
            passed = tuple(seen.passed[expected.gate].states)
            found = _unless(passed == expected.states, " > ".join(f"{s} {p}" for s, p in passed))
        case steps.Incidents():
            tokens = seen.passed[expected.gate].tokens
            found = _unless(len(tokens) == expected.number, f"{len(tokens)}: {sorted(tokens)}")
        case steps.Happened():
            found = _happened(expected, seen, late_ms)
        case steps.ToldNothing():
            noted = [text for texts in seen.noted.values() for text in texts]
            found = _unless(not noted and not seen.happened, f"{noted} and {seen.happened}")
        case steps.Noted():
            following = next(iter(seen.noted.get(expected.gate, ())), None)
            found = _unless(following == expected.text, following or "no more")
        case _:
            assert_never(expected)
    return found


def _unless(as_expected: bool, found: str) -> str | None:
    return None if as_expected else found


def _stands(expected: steps.Stands, record: Record) -> str | None:
    state, permission = record.observed.state, record.gate.permission
    as_expected = expected.state in (None, state) and expected.permission in (None, permission)
    return _unless(
        as_expected, f"{state}, {permission} ({record.observed.reason}; {record.gate.reason})"
    )


def _published(expected: steps.Published, seen: Seen, late_ms: int) -> str | None:
    as_expected = expected.at_ms.keys() == seen.published.keys() and all(
        at_ms is None or _in_time([at_ms], [seen.published[bookie]], late_ms)
        for bookie, at_ms in expected.at_ms.items()
    )
    found = ", ".join(f"{bookie} at {ms} ms" for bookie, ms in sorted(seen.published.items()))
    return _unless(as_expected, found or "none")


def _happened(expected: steps.Happened, seen: Seen, late_ms: int) -> str | None:
    times = [
        each.at_ms
        for each in seen.happened
        if each.kind is expected.kind and each.what == expected.what
    ]
    as_expected = len(times) == expected.times and (
        expected.at_ms is None or _in_time(expected.at_ms, times, late_ms)
    )
    return _unless(as_expected, f"{len(times)} times, at (ms) {times}")


def _in_time(told_ms: Iterable[int], seen_ms: Iterable[int], late_ms: int) -> bool:
    """Did each come about at its time, or at most so much later?"""
    return all(
        told <= found <= told + late_ms for told, found in zip(told_ms, seen_ms, strict=True)
    )
