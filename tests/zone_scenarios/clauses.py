"""Reads one clause of a transcript: an act, or an expectation. ``README.txt`` shows all of them.

Nothing is guessed: a word that is not known here, a bookie that was never added, a zone that is not
there and a name that is given twice are errors. ``Cast`` is what is known so far.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Final, TypeAlias

from tests.zone_scenarios import steps
from tests.zone_scenarios.steps import Act, Expectation, GateName, Kind, State
from zonekeeper.placement.base import units
from zonekeeper.placement.base.ids import BookieId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.zones.freeze import ClusterObservation
from zonekeeper.placement.zones.gate import Permission
from zonekeeper.placement.zones.losses import HeldBy
from zonekeeper.placement.zones.observation import Observation
from zonekeeper.placement.zones.zone_counts import Count
from zonekeeper.placement.zones.zone_effects import Alert

#: Units of all zones; a bookie stands in the one of its number's remainder.
UPGRADE_DOMAINS: Final = 3

_CLUSTER: Final = "cluster"
_COUNTED: Final = {each.name.replace("_", " "): each.name for each in fields(Count)}


class UnknownError(ValueError):
    """A clause that says nothing which is known here."""


@dataclass(slots=True)
class Cast:
    """The zones and bookies that there are at a line of a transcript."""

    zones: set[ZoneName] = field(default_factory=set)
    bookies: set[BookieId] = field(default_factory=set)


def duration_ms(text: str) -> int:
    """Read a time: ``90s``, ``4m59s``, ``12h``; the larger unit comes first."""
    parts = re.findall(r"\d+[a-z]+", text)
    each_ms = [units.duration_ms(part) for part in parts]
    worth_ms = [units.duration_ms(re.sub(r"\d+", "1", part)) or 0 for part in parts]
    if not parts or "".join(parts) != text or None in each_ms:
        raise UnknownError(f"no time: {text!r} (like 90s, 4m59s or 12h)")
    if worth_ms != sorted(set(worth_ms), reverse=True):
        raise UnknownError(f"no time: {text!r} (the larger unit comes first)")
    return sum(each for each in each_ms if each is not None)


def read(text: str, cast: Cast) -> Act | Expectation:
    """Read a clause; raises ``UnknownError`` with what is wrong."""
    for pattern, build in _CLAUSES:
        if match := re.fullmatch(pattern, text):
            return build(cast, match.groups())
    raise UnknownError(f"nobody knows what this means: {text!r} (see README.txt)")


# ── parts ──


def _bookies(cast: Cast, text: str, *, new: bool = False) -> tuple[BookieId, ...]:
    """Read ``a-0 b-3..5 c-*``."""
    named: list[BookieId] = []
    for word in text.split():
        if match := re.fullmatch(r"([a-z]+)-(\d+)(?:\.\.(\d+))?", word):
            zone, first, last = match[1], int(match[2]), int(match[3] or match[2])
            if last < first:
                raise UnknownError(f"a range goes up: {word!r}")
            named += [BookieId(f"{zone}-{number}") for number in range(first, last + 1)]
        elif (match := re.fullmatch(r"([a-z]+)-\*", word)) and not new:
            there = [one for one in cast.bookies if one.rpartition("-")[0] == match[1]]
            if not there:
                raise UnknownError(f"no bookie is {word!r}")
            named += sorted(there, key=_by_number)
        else:
            raise UnknownError(f"no bookie: {word!r} (like a-0, a-0..4 or a-*)")
    if not named or len(set(named)) < len(named):
        raise UnknownError(f"name each bookie once: {text!r}")
    for one in named:
        if (one in cast.bookies) is new:
            raise UnknownError(f"{one} is there already" if new else f"there is no bookie {one}")
    return tuple(named)


def _by_number(bookie: BookieId) -> tuple[str, int]:
    zone, _, number = bookie.rpartition("-")
    return zone, int(number)


def _zone(cast: Cast, text: str) -> ZoneName:
    if text not in cast.zones:
        raise UnknownError(f"nobody knows a zone {text!r}")
    return ZoneName(text)


def _gate(cast: Cast, text: str) -> GateName:
    return None if text == _CLUSTER else _zone(cast, text)


def _unit(cast: Cast, text: str) -> Location:
    zone, _, domain = text.partition(".")
    if domain not in {f"ud-{number}" for number in range(UPGRADE_DOMAINS)}:
        raise UnknownError(f"no unit: {text!r} (like a.ud-0)")
    return Location(_zone(cast, zone), UpgradeDomain(domain))


def _state(gate: GateName, text: str) -> State | None:
    kinds: type[Observation] | type[ClusterObservation]
    kinds = ClusterObservation if gate is None else Observation
    return kinds(text) if text in set(kinds) else None


def _permission(text: str) -> Permission | None:
    return Permission(text) if text in set(Permission) else None


def _alert(text: str) -> Alert:
    if text not in set(Alert):
        raise UnknownError(f"no alert: {text!r}")
    return Alert(text)


def _number(text: str) -> int:
    if not re.fullmatch(r"\d{1,6}", text):
        raise UnknownError(f"no number: {text!r}")
    return int(text)


def _once_each(words: Sequence[str]) -> Sequence[str]:
    if len(set(words)) < len(words):
        raise UnknownError(f"each once: {' '.join(words)!r}")
    return words


# ── acts ──


def _lose(cast: Cast, said: Sequence[str]) -> Act:
    return steps.Lose(bookies=_bookies(cast, said[0]))


def _return(cast: Cast, said: Sequence[str]) -> Act:
    return steps.Return(bookies=_bookies(cast, said[0]))


def _add(cast: Cast, said: Sequence[str]) -> Act:
    placed = not said[1]
    bookies = _bookies(cast, said[0], new=True)
    cast.bookies.update(bookies)
    if placed:
        cast.zones.update(ZoneName(one.rpartition("-")[0]) for one in bookies)
    return steps.Add(bookies=bookies, placed=placed)


def _decommission(cast: Cast, said: Sequence[str]) -> Act:
    bookies = _bookies(cast, said[0])
    cast.bookies.difference_update(bookies)
    return steps.Decommission(bookies=bookies)


def _drain(cast: Cast, said: Sequence[str]) -> Act:
    return steps.Drain(bookies=_bookies(cast, said[0]))


def _release(cast: Cast, said: Sequence[str]) -> Act:
    return steps.Release(gate=_gate(cast, said[0]))


def _hold(cast: Cast, said: Sequence[str]) -> Act:
    return steps.Hold(gate=_gate(cast, said[0]))


def _turn(cast: Cast, said: Sequence[str]) -> Act:
    del cast
    return steps.Turn(on=said[0] == "on")


def _declare(cast: Cast, said: Sequence[str]) -> Act:
    return steps.Declare(unit=_unit(cast, said[0]), lasts_ms=duration_ms(said[1]))


def _lift(cast: Cast, said: Sequence[str]) -> Act:
    return steps.Lift(unit=_unit(cast, said[0]))


def _dies(cast: Cast, said: Sequence[str]) -> Act:
    del cast, said
    return steps.WatchDies()


def _begins(cast: Cast, said: Sequence[str]) -> Act:
    del cast, said
    return steps.WatchBegins()


# ── expectations ──


def _stands(cast: Cast, said: Sequence[str]) -> Expectation:
    gate = _gate(cast, said[0])
    words = [word for word in said[1:] if word]
    if len(words) == 2:
        state, permission = _state(gate, words[0]), _permission(words[1])
        known = state is not None and permission is not None
    else:
        state, permission = _state(gate, words[0]), _permission(words[0])
        known = (state is None) is not (permission is None)
    if not known:
        raise UnknownError(f"no state of {said[0]}: {', '.join(words)!r} (like down, held)")
    return steps.Stands(gate=gate, state=state, permission=permission)


def _passed(cast: Cast, said: Sequence[str]) -> Expectation:
    gate = _gate(cast, said[0])
    passed = []
    for step in said[1].split(" > "):
        word, _, allowed = step.partition(" ")
        state, permission = _state(gate, word), _permission(allowed)
        if state is None or permission is None:
            raise UnknownError(f"no state of {said[0]}: {step!r} (like down held)")
        passed.append((state, permission))
    return steps.Passed(gate=gate, states=tuple(passed))


def _published(cast: Cast, said: Sequence[str]) -> Expectation:
    at_ms: dict[BookieId, int | None] = {}
    for group in [] if said[0] == "none" else said[0].split(", "):
        names, _, at = group.partition(" at ")
        for bookie in _bookies(cast, names):
            if bookie in at_ms:
                raise UnknownError(f"name each bookie once: {bookie}")
            at_ms[bookie] = duration_ms(at) if at else None
    return steps.Published(at_ms=at_ms)


def _is_held(cast: Cast, said: Sequence[str]) -> Expectation:
    (bookie,) = _bookies(cast, said[0])
    if said[1] != "nothing" and said[1] not in set(HeldBy):
        raise UnknownError(f"nothing holds by the name of {said[1]!r}")
    return steps.IsHeld(bookie=bookie, by=None if said[1] == "nothing" else HeldBy(said[1]))


def _alerts(cast: Cast, said: Sequence[str]) -> Expectation:
    words = [] if said[1] == "none" else _once_each(said[1].split(", "))
    return steps.Alerts(gate=_gate(cast, said[0]), alerts=frozenset(map(_alert, words)))


def _counted(cast: Cast, said: Sequence[str]) -> Expectation:
    numbers: dict[str, int] = {}
    for part in said[1].split(", "):
        name, _, number = part.rpartition(" ")
        if name not in _COUNTED or _COUNTED[name] in numbers:
            raise UnknownError(f"no count: {part!r} (like total 9, written off 1)")
        numbers[_COUNTED[name]] = _number(number)
    return steps.Counted(zone=_zone(cast, said[0]), numbers=numbers)


def _hold_up(cast: Cast, said: Sequence[str]) -> Expectation:
    return steps.HoldUp(zone=_zone(cast, said[0]), ms=duration_ms(said[1]))


def _held_time(cast: Cast, said: Sequence[str]) -> Expectation:
    return steps.HeldTime(gate=_gate(cast, said[0]), ms=duration_ms(said[1]))


def _incidents(cast: Cast, said: Sequence[str]) -> Expectation:
    return steps.Incidents(gate=_gate(cast, said[0]), number=_number(said[1]))


def _switched(cast: Cast, said: Sequence[str]) -> Expectation:
    del cast
    return steps.Switched(on=said[0] == "on")


def _declared(cast: Cast, said: Sequence[str]) -> Expectation:
    words = [] if said[0] == "none" else _once_each(said[0].split(", "))
    return steps.Declared(units=frozenset(_unit(cast, word) for word in words))


def _happened(cast: Cast, said: Sequence[str]) -> Expectation:
    kind, what, how = Kind(said[0]), said[1] or "", said[2]
    match kind:
        case Kind.RAISED | Kind.CLEARED:
            what = _alert(what)
        case Kind.ENDED:
            what = str(_unit(cast, what))
        case _ if what:
            raise UnknownError(f"nothing more belongs to {kind!r}: {what!r}")
    if how.startswith("at "):
        at_ms = tuple(duration_ms(word) for word in how.removeprefix("at ").split(", "))
        return steps.Happened(kind=kind, what=what, times=len(at_ms), at_ms=at_ms)
    often = {"never": 0, "once": 1}.get(how)
    if often is None and (match := re.fullmatch(r"(\d+) times", how)):
        often = int(match[1])
    if often is None:
        raise UnknownError(f"how often? {how!r} (never, once, 3 times, or at 1h, 2h)")
    return steps.Happened(kind=kind, what=what, times=often, at_ms=None)


def _told_nothing(cast: Cast, said: Sequence[str]) -> Expectation:
    del cast, said
    return steps.ToldNothing()


def _noted(cast: Cast, said: Sequence[str]) -> Expectation:
    text = None if said[1] == "no more" else said[1]
    return steps.Noted(gate=_gate(cast, said[0]), text=text)


_Build: TypeAlias = Callable[[Cast, Sequence[str]], Act | Expectation]


def _clauses() -> Iterable[tuple[str, _Build]]:
    """Give the form of each clause; the first that fits reads it."""
    kinds = "|".join(Kind)
    return (
        (r"lose (.+)", _lose),
        (r"return (.+)", _return),
        (r"add (.+?)( without a place)?", _add),
        (r"decommission (.+)", _decommission),
        (r"drain (.+)", _drain),
        (r"release (\w+)", _release),
        (r"hold (\w+)", _hold),
        (r"switch replication (on|off)", _turn),
        (r"declare (\S+) for (\w+)", _declare),
        (r"lift (\S+)", _lift),
        (r"the watch dies", _dies),
        (r"another watch begins", _begins),
        (r"replication is (on|off)", _switched),
        (r"(\w+-\d+) is held by (\w+)", _is_held),
        (r"(\w+) is (\w+)(?:, (\w+))?", _stands),
        (r"(\w+) passed: (.+)", _passed),
        (r"published: (.+)", _published),
        (r"alerts of (\w+): (.+)", _alerts),
        (r"counted in (\w+): (.+)", _counted),
        (r"hold-up of (\w+): (\w+)", _hold_up),
        (r"held time of (\w+): (\w+)", _held_time),
        (r"incidents of (\w+): (\w+)", _incidents),
        (r"in maintenance: (.+)", _declared),
        (rf"({kinds})(?: (\S+))?: (.+)", _happened),
        (r"told: nothing", _told_nothing),
        (r"noted of (\w+): (.+)", _noted),
    )


_CLAUSES: Final = tuple(_clauses())
