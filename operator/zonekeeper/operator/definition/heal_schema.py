"""The schema of ``status.replacing``. Pure."""

from typing import Any


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
