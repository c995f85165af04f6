"""The schemas of ``status.replacing``, ``status.growing`` and ``status.lostNodes``. Pure."""

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
            "journal": text | {"description": "The uid of the journal's claim, which goes, too."},
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


def of_lost_nodes() -> dict[str, Any]:
    """Give the schema of what is noted of bookies whose nodes are gone with their disks."""
    text, number = {"type": "string"}, {"type": "integer", "format": "int64"}
    return {
        "type": "array",
        "description": "The bookies whose nodes are gone with their disks.",
        "items": {
            "type": "object",
            "properties": {
                "bookie": text,
                "claim": text | {"description": "The uid of the claim of the disk."},
                "awayMs": number | {"description": "For so long the node was seen to be gone."},
                "atMs": number,
                "givenUp": {"type": "boolean", "description": "Its claim is deleted."},
            },
            "required": ["bookie", "claim", "awayMs", "atMs"],
        },
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["bookie"],
    }
