"""The schema of the resource's status. Pure.

The operator alone writes it. What it forgets at a restart it reads again from here.
"""

from typing import Final

from zonekeeper.operator.definition import drill_schema, heal_schema
from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.operator.shapes import schemas

#: The API server needs a limit to know what a rule on a list costs.
_CONDITIONS_MAX: Final = 32


def of_status() -> Json:
    """Give the schema of the whole status."""
    text, count = {"type": "string"}, {"type": "integer"}
    condition = schemas.object_of(
        {
            "type": text,
            "status": text | {"enum": ["True", "False", "Unknown"]},
            "reason": text,
            "message": text,
            "observedGeneration": count,
            "lastTransitionTime": text | {"format": "date-time"},
        },
        description="A statement on the cluster that is true, false or not known now.",
        required=["type", "status", "reason", "message", "lastTransitionTime"],
    )
    zone = schemas.object_of(
        {"name": text, "bookies": count, "ready": count},
        description="The number of bookies that a zone shall have, and of those that are ready.",
        required=["name", "bookies", "ready"],
    )
    unit = schemas.object_of(
        {"zone": text, "domain": text, "bookies": count, "ready": count, "updated": count},
        description="A unit: an upgrade domain of a zone. The number of bookies that it shall "
        "have, of those that are ready, and of those that run the newest template.",
        required=["zone", "domain", "bookies", "ready", "updated"],
    )
    unwell = schemas.object_of(
        {"pod": text, "zone": text, "reason": text, "message": text, "since": text},
        description="A pod that is not ready, the reason, and what Kubernetes and the container's "
        "last words say of it.",
        required=["pod", "zone", "reason", "message"],
    )
    return schemas.object_of(
        {
            "observedGeneration": count,
            "conditions": schemas.by_key(condition, "type") | {"maxItems": _CONDITIONS_MAX},
            "zones": schemas.by_key(zone, "name"),
            "units": schemas.by_key(unit, "zone", "domain"),
            "bookies": count,
            "bookiesPerZone": count
            | {"description": "The most bookies that a zone runs, for kubectl scale."},
            "readyBookies": count,
            "updatedBookies": count,
            "unwell": schemas.by_key(unwell, "pod"),
            "instance": text | {"description": "The INSTANCEID of the cluster in its root."},
            "image": text | {"description": "The image that bookies shall run."},
            "defaults": text | {"description": "The defaults that the resource was made under."},
            "version": text | {"description": "The version of the operator that wrote this."},
            "roll": _roll(),
            "scaling": _scaling(),
            "replacing": heal_schema.of_status(),
            "growing": heal_schema.of_growing(),
            "lostNodes": heal_schema.of_lost_nodes(),
            "order": _answered(),
            "drill": drill_schema.of_status(),
            "repair": _repair(),
            "bookieOrders": schemas.by_key(_bookie_order(), "bookie"),
        },
        description="The state of the cluster, as the operator saw it last.",
    )


def _roll() -> Json:
    text, count, flag = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
    moment = count | {"format": "int64"}
    gate = schemas.object_of(
        {"gate": text, "what": text, "since": text | {"format": "date-time"}, "runbook": text},
        description="A gate that the next step waits for.",
        required=["gate", "what", "since", "runbook"],
    )
    bookie = schemas.object_of(
        {"name": text, "uid": text, "bootEpoch": moment},
        description="A bookie of the step, with the uid of the pod that is made anew.",
        required=["name", "uid"],
    )
    halt = schemas.object_of(
        {"pod": text, "words": text},
        description="Why the roll has stopped by itself.",
        required=["pod", "words"],
    )
    step = schemas.object_of(
        {
            "unit": text,
            "bookies": {"type": "array", "items": bookie},
            "brings": text,
            "begunMs": moment,
            **dict.fromkeys(("canary", "unready", "away", "overridden"), flag),
            "halt": halt,
        },
        description="The step that has begun. The operator goes on with it after a crash.",
        required=["unit", "bookies", "brings", "begunMs"],
    )
    return schemas.object_of(
        {
            "phase": text,
            "updated": count | {"description": "The bookies that run what is asked for."},
            "total": count,
            "doing": text,
            "waitingFor": schemas.by_key(gate, "gate"),
            "plan": {"type": "array", "items": text, "description": "The steps that are left."},
            "step": step,
            "endedMs": moment | {"description": "When the last step ended."},
            "proven": text | {"description": "Names the templates whose canary was well."},
            "overrideUsed": text,
        },
        description="How a changed template reaches the bookies.",
        required=["phase", "updated", "total"],
    )


def _scaling() -> Json:
    text, count = {"type": "string"}, {"type": "integer"}
    texts = {"type": "array", "items": text}
    claim = schemas.object_of(
        {"name": text, "uid": text},
        description="A claim of the bookie.",
        required=["name", "uid"],
    )
    bookie = schemas.object_of(
        {"bookie": text, "claims": {"type": "array", "items": claim}},
        description="A bookie that goes. The operator settles these claims once it is removed.",
        required=["bookie", "claims"],
    )
    return schemas.object_of(
        {
            "phase": text,
            "zones": texts | {"description": "The zones that leave, with all their bookies."},
            "target": count | {"description": "The number that bookies are removed for."},
            "doing": text,
            "plan": texts | {"description": "The bookies that are left to go, in order."},
            "leaving": schemas.by_key(bookie, "bookie"),
        },
        description="How the bookies go that are not asked for any more.",
        required=["phase"],
    )


def _answered() -> Json:
    text = {"type": "string"}
    return schemas.object_of(
        {
            "token": text | {"description": "Names the order."},
            "phase": text | {"enum": ["Accepted", "Done", "Refused", "Failed"]},
            "message": text,
            "order": text,
            "by": text,
        },
        description="The answer to the last order of a person on this resource.",
        required=["token", "phase", "message"],
    )


def _repair() -> Json:
    text, flag = {"type": "string"}, {"type": "boolean"}
    held = schemas.object_of(
        {
            "gate": text | {"description": "cluster, or zones/ and the name of a zone."},
            "reason": text,
            "sinceMs": {"type": "integer", "format": "int64"},
            "incident": text | {"description": "What a release must name."},
            "heldBy": text | {"description": "The person who holds, with their reason."},
        },
        description="A gate that keeps losses from being repaired.",
        required=["gate", "reason"],
    )
    return schemas.object_of(
        {
            "enabled": flag | {"description": "The switch of all automatic replication."},
            "held": schemas.by_key(held, "gate"),
        },
        description="What the records of the zone watch say of repair.",
        # No list of a map's kind is required: the API server drops one that an apply empties.
        required=["enabled"],
    )


def _bookie_order() -> Json:
    text, count = {"type": "string"}, {"type": "integer", "format": "int64"}
    return schemas.object_of(
        {
            **dict.fromkeys(("bookie", "kind", "by", "takenBackBy", "phase", "why"), text),
            **dict.fromkeys(("ledgersLeft", "bytesLeft"), count),
        },
        description="What is to become of a bookie, and how far that is.",
        required=["bookie", "kind"],
    )
