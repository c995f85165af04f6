"""A time as a person writes it to name a place in a log: ``2026-11-27T03:00:00Z``."""

from datetime import UTC, datetime


def wall_ms(text: str) -> int | None:
    """Read a time; one without an offset is UTC. None for anything else, and before 1970."""
    if "-" not in text:
        return None
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    found_ms = round(when.timestamp() * 1_000)
    return found_ms if found_ms >= 0 else None
