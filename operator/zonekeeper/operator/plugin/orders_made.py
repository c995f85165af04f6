"""The order that a person asks for, made of what the resource shows. Pure.

A release names the incident that the status shows at that moment, because that is what its person
has seen. If the status shows no hold, there is nothing to release, as far as is known.
"""

from dataclasses import dataclass

from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.operator.people import repair_shown
from zonekeeper.operator.plan.drills import drill_record
from zonekeeper.operator.plan.drills.drill_record import DrillRecord
from zonekeeper.operator.roots.resource_orders import AskedFor, ResourceOrder
from zonekeeper.placement.base import units
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.troubles import Refusal
from zonekeeper.placement.zones.gate import Person, Token


class NoDrillError(Refusal):
    """The status shows no drill that could be ended."""


class NothingHeldError(Refusal):
    """The status shows nothing that a release could end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedByPerson:
    """What a command line asks for."""

    asked: AskedFor
    #: None: the cluster, where a gate is meant.
    zone: str | None = None
    bookie: str | None = None
    is_forced: bool = False
    #: Of a drill: for so long the zone is away.
    for_ms: int | None = None
    #: Of a drill: the Secret that its probe shows.
    secret: str | None = None


def made(
    resource: Json, asked: AskedByPerson, person: Person, *, token: str, until_ms: int
) -> ResourceOrder:
    """Make the order; raises ``NothingHeldError`` or ``NoDrillError``."""
    held = _held(resource, asked) if asked.asked is AskedFor.RELEASE else {}
    incident = held.get("incident")
    if asked.asked is AskedFor.END_DRILL:
        incident = _drill(resource, asked).token
    return ResourceOrder(
        token=token,
        asked=asked.asked,
        uid=str(resource["metadata"]["uid"]),
        person=person,
        until_ms=until_ms,
        zone=None if asked.zone is None else ZoneName(asked.zone),
        incident=None if incident is None else Token(incident),
        held_by=held.get("heldBy"),
        bookie=None if asked.bookie is None else BookieId(asked.bookie),
        is_forced=asked.is_forced,
        for_ms=asked.for_ms,
        secret=asked.secret,
    )


def question(resource: Json, asked: AskedByPerson) -> str:  # noqa: PLR0911 one for each kind
    """Say what will be ordered, before a person says yes; raises ``NothingHeldError``."""
    name = resource["metadata"]["name"]
    what = "the cluster" if asked.zone is None else f"zone {asked.zone}"
    match asked.asked:
        case AskedFor.ENABLE:
            return f"{name}: losses that nothing holds are repaired from now on."
        case AskedFor.DISABLE:
            return f"{name}: nothing is repaired until automatic replication is enabled again."
        case AskedFor.HOLD:
            return f"{name}: losses of {what} are not repaired until a person releases them."
        case AskedFor.RELEASE:
            held = _held(resource, asked)
            return f"{name}: {what} is held: {held['reason']}. Its losses are copied from now on."
        case AskedFor.DRAIN:
            return f"{name}: {asked.bookie} gets no new data, and every ledger leaves it."
        case AskedFor.TAKE_BACK:
            return f"{name}: {asked.bookie} gets new data again."
        case AskedFor.DRILL | AskedFor.END_DRILL:
            return f"{name}: {_of_drill(resource, asked)}"


def _of_drill(resource: Json, asked: AskedByPerson) -> str:
    if asked.asked is AskedFor.END_DRILL:
        _drill(resource, asked)
        return f"zone {asked.zone} comes back now."
    return (
        f"all bookies of zone {asked.zone} are away for {units.duration_text(asked.for_ms or 0)}."
    )


def _drill(resource: Json, asked: AskedByPerson) -> DrillRecord:
    found = drill_record.read(resource.get("status") or {})
    if found is None or not found.is_on or found.zone != asked.zone:
        on = f"zone {found.zone}" if found is not None and found.is_on else "no zone"
        raise NoDrillError(f"there is no drill of zone {asked.zone}: {on} is away for one")
    return found


def _held(resource: Json, asked: AskedByPerson) -> Json:
    held = repair_shown.held(resource.get("status") or {})
    if held is None:
        raise NothingHeldError(
            "the status does not show what is held: the operator has not read the records of the "
            "zone watch; see `kubectl zonekeeper status`"
        )
    zones, cluster = repair_shown.ZONES, repair_shown.CLUSTER
    gate = cluster if asked.zone is None else f"{zones}{asked.zone}"
    found: list[Json] = [one for one in held if one["gate"] == gate]
    if not found:
        others = ", ".join(one["gate"] for one in held) or "nothing"
        raise NothingHeldError(f"{gate} is not held, as the operator saw last; held: {others}")
    return found[0]
