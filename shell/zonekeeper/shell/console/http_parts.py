"""The parts of a snapshot that come from processes over HTTP, while the store is away.

A bookie says itself whether it is writable; one that does not answer is ``no answer``, and not
absent: only the store knows which bookies are registered. Zones come from the page of an
autorecovery process, as it read them last. Text of another process is cut and may be anything.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from zonekeeper.placement.base.fields import Plain
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.shell.console import zone_parts
from zonekeeper.shell.console.snapshot import BookiePart, GatePart, HoldPart
from zonekeeper.shell.console.zone_parts import PlacedBookie, ToldZone
from zonekeeper.shell.reaching.last_seen import KnownProcess
from zonekeeper.wire.running.page_identity import ProcessKind

NO_ANSWER: Final = "no answer"
_UNKNOWN: Final = "unknown"
_CHARS_MAX: Final = 300
_STATES: Final = ("writable", "read-only")

States = Mapping[BookieId, Mapping[str, Plain] | None]


def over(placed: Sequence[PlacedBookie], states: States) -> list[PlacedBookie]:
    """Give bookies that the store showed, each with the state that it says itself now."""
    return [replace(one, bookie=_told(one.bookie, states)) for one in placed]


def remembered(processes: Sequence[KnownProcess], states: States) -> list[PlacedBookie]:
    """Give the bookies that are remembered, each with the state that it says itself now."""
    return [
        PlacedBookie(
            bookie=_told(BookiePart(id=one.name, state=_UNKNOWN), states),
            zone=one.zone,
            upgrade_domain=one.upgrade_domain,
        )
        for one in processes
        if one.kind is ProcessKind.BOOKIE
    ]


def _told(bookie: BookiePart, states: States) -> BookiePart:
    name = BookieId(bookie.id)
    if name not in states:
        return bookie
    said = states[name]
    if said is None:
        return replace(bookie, state=NO_ANSWER, answers=False)
    state = _text(said, "state")
    free, total = _number(said, "freeBytes"), _number(said, "totalBytes")
    return replace(
        bookie,
        state=state if state in _STATES else _UNKNOWN,
        answers=True,
        remarks=bookie.remarks or tuple(_restrictions(said)),
        free_bytes=bookie.free_bytes if free is None else free,
        total_bytes=bookie.total_bytes if total is None else total,
    )


def _restrictions(said: Mapping[str, Plain]) -> list[str]:
    """Give what keeps a bookie from new data, as it says it itself."""
    found = said.get("restrictions")
    return [
        f"{_text(one, 'what')} (by {_text(one, 'by') or 'a person'}: {_text(one, 'reason')})"
        for one in (found if isinstance(found, list) else [])
        if isinstance(one, dict)
    ]


def told(said: Mapping[str, Plain]) -> tuple[dict[str, ToldZone], GatePart | None]:
    """Give the zones, and the cluster, as an autorecovery process shows them."""
    records, held = said.get("records"), said.get("heldBy")
    holds = held if isinstance(held, dict) else {}
    zones: dict[str, ToldZone] = {}
    whole: GatePart | None = None
    for name, record in records.items() if isinstance(records, dict) else ():
        if not isinstance(record, dict):
            continue
        if not name:
            whole = _gate(record)
        else:
            zones[name] = ToldZone(gate=_gate(record), held=_hold(holds.get(name)))
    return zones, whole


def _hold(said: Plain) -> HoldPart | None:
    if not isinstance(said, dict):
        return None
    by = _text(said, "predicate")
    return HoldPart(by=by, text=_text(said, "text"), runbook=by)


def _gate(record: Mapping[str, Plain]) -> GatePart:
    permission = _text(record, "permission") or zone_parts.NO_RECORD.permission
    held_ms = _number(record, "heldMs") or 0
    return GatePart(
        observation=_text(record, "observation") or _UNKNOWN,
        because=_text(record, "because"),
        since_ms=None,
        available=_number(record, "available"),
        counted=_number(record, "counted"),
        not_counted="",
        permission=permission,
        reason=_text(record, "reason"),
        set_by=_text(record, "setBy"),
        permission_since_ms=None,
        held_ms=held_ms if permission == "held" else 0,
        token=_text(record, "token") or None,
        evaluation=_number(record, "evaluation"),
    )


def _text(said: Mapping[str, Plain], key: str) -> str:
    text = said.get(key)
    return text[:_CHARS_MAX] if isinstance(text, str) else ""


def _number(said: Mapping[str, Plain], key: str) -> int | None:
    number = said.get(key)
    return number if type(number) is int and number >= 0 else None
