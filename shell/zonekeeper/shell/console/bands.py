"""The bands of the timeline: in which state each zone was when, from the events that say it. Pure.

An event of kind ``changed`` about a zone has one of two texts (``zone_alerts``)::

    up → suspect: 0 of 3 bookies available        the observation, from what to what
    repair open → held: 0 of 3 bookies available  what the gate says, from what to what

The last band ends now, in the state that the zone's record says. An event that cannot be read
changes no band. The time before the first event of a zone has the state that this event leaves.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from zonekeeper.placement.zones.gate import Permission
from zonekeeper.placement.zones.observation import Observation
from zonekeeper.shell.console.snapshot import BandPart, EventPart

#: More bands of a zone than these are not drawn; the newest stay.
BANDS_MAX: Final = 200

_CHANGED: Final = "changed"
_TEXT: Final = re.compile(r"(repair )?(?:(\w+) → )?(\w+)[:,]")
_OBSERVATIONS: Final = frozenset(map(str, Observation))
_PERMISSIONS: Final = frozenset(map(str, Permission))


def of_zones(
    events: Sequence[EventPart], now: Mapping[str, tuple[str, str]], *, now_ms: int
) -> dict[str, tuple[BandPart, ...]]:
    """Give the bands of each zone of ``now``, which says observation and permission of each.

    ``events`` are the newest ones, the newest first.
    """
    if not events:
        return {}
    ordered = sorted(events, key=lambda one: one.at_ms)
    begin_ms = min(ordered[0].at_ms, now_ms)
    return {
        zone: _bands(
            [one for one in ordered if one.subject == f"zone {zone}"], state, begin_ms, now_ms
        )
        for zone, state in now.items()
    }


@dataclass(frozen=True, slots=True)
class _Change:
    """What an event says: of the gate or of the observation, from what to what."""

    of_gate: bool
    was: str | None
    becomes: str


def _read(event: EventPart) -> _Change | None:
    read = _TEXT.match(event.reason) if event.kind == _CHANGED else None
    if read is None:
        return None
    known = _PERMISSIONS if read[1] else _OBSERVATIONS
    if read[3] not in known:
        return None
    return _Change(bool(read[1]), read[2] if read[2] in known else None, read[3])


def _bands(
    events: Iterable[EventPart], state: tuple[str, str], begin_ms: int, now_ms: int
) -> tuple[BandPart, ...]:
    found: list[BandPart] = []
    last = BandPart(observation=None, permission=None, from_ms=begin_ms, to_ms=now_ms)
    for event in events:
        change = _read(event)
        if change is None:
            continue
        found = [_filled(one, change) for one in found]
        last = _filled(last, change)
        at_ms = min(max(event.at_ms, last.from_ms), now_ms)
        if at_ms > last.from_ms:
            found.append(replace(last, to_ms=at_ms))
        if change.of_gate:
            last = replace(last, from_ms=at_ms, permission=change.becomes)
        else:
            last = replace(last, from_ms=at_ms, observation=change.becomes)
    observation, permission = state
    now = _Change(False, observation, ""), _Change(True, permission, "")
    for one in now:  # a zone of which no event tells is as it was all the time
        found = [_filled(band, one) for band in found]
    found.append(replace(last, observation=observation, permission=permission))
    return tuple(_joined(found)[-BANDS_MAX:])


def _joined(bands: Iterable[BandPart]) -> list[BandPart]:
    """Make one band of neighbours that say the same."""
    found: list[BandPart] = []
    for one in bands:
        before = found[-1] if found else None
        if before and replace(before, from_ms=one.from_ms, to_ms=one.to_ms) == one:
            found[-1] = replace(before, to_ms=one.to_ms)
        else:
            found.append(one)
    return found


def _filled(band: BandPart, change: _Change) -> BandPart:
    """Give a band before a change what the change says of the time before it."""
    if change.of_gate and band.permission is None:
        return replace(band, permission=change.was)
    if not change.of_gate and band.observation is None:
        return replace(band, observation=change.was)
    return band
