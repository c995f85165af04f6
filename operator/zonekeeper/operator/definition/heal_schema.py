"""The schemas of ``status.replacing`` and ``status.growing``. Pure."""

from typing import Any

from zonekeeper.operator.cluster import heal_rules


def of_status() -> dict[str, Any]:
    """Give the schema of what is noted of a bookie that gets another volume."""
    text = {"type": "string"}
    return {
        "type": "object",
        "description": "The bookie that gets another volume, or has got one, on a person's word.",
        "properties": {
            "bookie": text,
            "claim": text | {"description": "The uid of the claim that goes."},
            "pod": text | {"description": "The uid of the pod that ran on it last."},
            "phase": text | {"enum": ["Replacing", "Done"]},
        },
        "required": ["bookie", "claim", "phase"],
    }


def of_growing() -> dict[str, Any]:
    """Give the schema of what is noted of volumes that grew by themselves."""
    text = {"type": "string"}
    claim = {
        "type": "object",
        "properties": {"name": text, "uid": text, "size": text},
        "required": ["name", "uid", "size"],
    }
    return {
        "type": "object",
        "description": "The last time that volumes grew by themselves, and the sizes that their "
        "claims were told to ask for.",
        "properties": {
            "atMs": {"type": "integer", "format": "int64"},
            "claims": {"type": "array", "items": claim, "maxItems": heal_rules.GROWN_MAX},
        },
        "required": ["atMs"],
    }
