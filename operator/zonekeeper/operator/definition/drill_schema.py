"""The schema of ``status.drill``. Pure."""

from typing import Any, Final

#: The field of the status.
_MOMENTS: Final = ("begunMs", "awayMs", "backMs", "endedMs", "heldMs", "forMs", "generation")
_TEXTS: Final = ("token", "zone", "by", "why", "secret", "probe")


def of_status() -> dict[str, Any]:
    """Give the schema of a drill, which stays as its report until the next one begins."""
    text, count = {"type": "string"}, {"type": "integer"}
    return {
        "type": "object",
        "description": "The last drill: a zone that is away for a while, on a person's order.",
        "properties": {
            **dict.fromkeys(_TEXTS, text),
            **dict.fromkeys(_MOMENTS, count | {"format": "int64"}),
            "bookies": count,
            "phase": text | {"enum": ["Probing", "Away", "Returning", "Ended"]},
            "outcome": text | {"enum": ["Completed", "Aborted", "NotBegun"]},
        },
        "required": ["token", "zone", "phase"],
    }
