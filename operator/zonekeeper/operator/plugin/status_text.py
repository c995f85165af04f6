"""A resource's status for people: lines of text, and the same as data.

Everything is the operator's last word, from the resource alone. So it may be old: the age of the
operator's last look is not in it, but a spec that the operator has not looked at yet is told.
"""

import datetime
from collections.abc import Iterator, Sequence

from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.operator.people import repair_shown
from zonekeeper.operator.plugin import drills
from zonekeeper.placement.zones import counted_time


def lines(resource: Json, now_ms: int) -> Iterator[str]:
    """Give the status as lines of text."""
    data = plain(resource)
    spoken = "ready" if data["ready"] else "not ready"
    yield f"{data['namespace']}/{data['name']}: {spoken}; instance {data['instance'] or 'none yet'}"
    if data["isBehind"]:
        yield "the operator has not looked at the newest spec yet"
    if data["units"]:
        yield ""
        yield from _map(data["units"])
    yield ""
    yield from _conditions(data["conditions"], now_ms)
    yield from _unwell(data["unwell"])
    yield from _repair(data["repair"], now_ms)
    yield from _orders(data)
    if (drill := drills.of(resource)) is not None:
        yield drills.line(drill)
    yield from plan_lines(resource, is_part=True)


def plan_lines(resource: Json, *, is_part: bool = False) -> Iterator[str]:
    """Give what the operator does next, as lines of text."""
    data = plan(resource)
    if data["paused"]:
        yield "spec.paused: the operator does nothing before it is false"
    if not is_part:
        for one in repair_shown.held(resource.get("status") or {}) or ():
            yield (
                f"held: {gate_words(one['gate'])}: {one['reason']}; what a release would copy is "
                "counted by `zonekeeper operator plan`"
            )
    roll = data["roll"]
    if not roll or (roll["phase"] == "Settled" and is_part):
        if not is_part:
            yield "nothing is known of a roll"
        return
    yield f"roll: {roll['phase']}, {roll['updated']} of {roll['total']} bookies up to date"
    if "doing" in roll:
        yield f"  doing: {roll['doing']}"
    for one in roll.get("waitingFor", ()):
        yield f"  waits for {one['gate']}: {one['what']} ({one['runbook']})"
    if (halt := roll.get("step", {}).get("halt")) is not None:
        yield f"  halted at {halt['pod']}: {halt['words']}"
    yield from (f"  {number}. {step}" for number, step in enumerate(roll.get("plan", ()), 1))
    if not is_part and not roll.get("plan") and roll["phase"] == "Settled":
        yield "  nothing is to be rolled"


def plain(resource: Json) -> Json:
    """Give the status as data; every key is always there."""
    meta, status = resource["metadata"], resource.get("status") or {}
    conditions: list[Json] = status.get("conditions") or []
    is_ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return {
        "name": meta["name"],
        "namespace": meta["namespace"],
        "ready": is_ready,
        "isBehind": status.get("observedGeneration") != meta.get("generation"),
        "instance": status.get("instance"),
        "zones": status.get("zones") or [],
        "units": status.get("units") or [],
        "unwell": status.get("unwell") or [],
        "conditions": conditions,
        "repair": _whole(status),
        "bookieOrders": status.get("bookieOrders") or [],
        "order": status.get("order"),
        "roll": status.get("roll"),
        "drill": None if (found := drills.of(resource)) is None else drills.plain(found),
    }


def _whole(status: Json) -> Json | None:
    held = repair_shown.held(status)
    return None if held is None else {**status["repair"], "held": held}


def plan(resource: Json) -> Json:
    """Give what the operator does next, as data."""
    status, spec = resource.get("status") or {}, resource.get("spec") or {}
    return {
        "paused": spec.get("paused") is True,
        "rollPaused": (spec.get("update") or {}).get("paused") is True,
        "roll": status.get("roll"),
        "bookieOrders": status.get("bookieOrders") or [],
    }


def _map(units_shown: Sequence[Json]) -> Iterator[str]:
    """Draw zones by upgrade domains: ready bookies of all, and those that run an old template."""
    zones = list(dict.fromkeys(one["zone"] for one in units_shown))
    domains = sorted({one["domain"] for one in units_shown})
    cells = {(one["zone"], one["domain"]): _cell(one) for one in units_shown}
    table = [["zone", *domains]]
    table += [[zone, *(cells.get((zone, one), "-") for one in domains)] for zone in zones]
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    for row in table:
        padded = (word.ljust(width) for word, width in zip(row, widths, strict=True))
        yield "  ".join(padded).rstrip()


def _cell(unit: Json) -> str:
    old = unit["bookies"] - unit["updated"]
    return f"{unit['ready']}/{unit['bookies']}" + (f" ({old} old)" if old else "")


def _conditions(conditions: Sequence[Json], now_ms: int) -> Iterator[str]:
    for one in conditions:
        since = _age(_ms(one["lastTransitionTime"]), now_ms)
        told = f": {one['message']}" if one["status"] != "True" else ""
        yield f"{one['type']}={one['status']} {one['reason']}, for {since}{told}"


def _unwell(unwell: Sequence[Json]) -> Iterator[str]:
    for one in unwell:
        yield f"not well: {one['pod']} (zone {one['zone']}): {one['reason']}: {one['message']}"


def _repair(repair: Json | None, now_ms: int) -> Iterator[str]:
    if repair is None:
        yield "repair: not known: the operator has not read the records of the zone watch"
        return
    if not repair["enabled"]:
        yield "repair: automatic replication is switched off"
    held = repair.get("held") or ()
    for one in held:
        since = _age(one.get("sinceMs"), now_ms)
        incident = one.get("incident", "none")
        yield f"held: {gate_words(one['gate'])}, for {since}: {one['reason']} (incident {incident})"
    if repair["enabled"] and not held:
        yield "repair: nothing is held"


def gate_words(gate: str) -> str:
    """Name a gate of the status for people."""
    if gate == repair_shown.CLUSTER:
        return "the cluster"
    return f"zone {gate.removeprefix(repair_shown.ZONES)}"


def _orders(data: Json) -> Iterator[str]:
    for one in data["bookieOrders"]:
        how = f", {one['phase']}: {one['ledgersLeft']} ledgers left" if "phase" in one else ""
        why = f" ({one['why']})" if "why" in one else ""
        back = f", taken back by {one['takenBackBy']}" if "takenBackBy" in one else ""
        yield f"order: {one['kind']} {one['bookie']}, by {one.get('by', 'unknown')}{back}{how}{why}"
    if (answer := data["order"]) is not None:
        what = answer.get("order") or "an order"
        yield f"last order: {what}: {answer['phase']}: {answer['message']}"


def _ms(text: str) -> int | None:
    try:
        return int(datetime.datetime.fromisoformat(text).timestamp() * 1_000)
    except ValueError:
        return None


def _age(since_ms: int | None, now_ms: int) -> str:
    if since_ms is None:
        return "an unknown time"
    return counted_time.spelled(max(0, now_ms - since_ms))
