"""A place in a log, as an option says it: an edge, the id of a message, a sequence, a time.

The forms are told apart by how they look: ``17:204:3`` is the id of a message, ``sequence:204`` a
sequence, and ``2026-11-27T03:00:00Z`` a time. A time without an offset is UTC.
"""

import re
from typing import Final

from zonekeeper.log.api import moments
from zonekeeper.metadata.formats import message_ids
from zonekeeper.metadata.formats.message_ids import LONG_MAX, BadMessageIdError
from zonekeeper.pipeline.reading.wanted import AtSequence, AtTime, ReadEdge, ReadPlace

_SEQUENCE: Final = re.compile("sequence:([0-9]{1,19})")
_ID: Final = re.compile("[0-9]+:[0-9]+:[0-9]+")
_NUMBER: Final = re.compile("[0-9]{1,19}")
FORMS: Final = "earliest, latest, 17:204:3 (an id), sequence:204, or 2026-11-27T03:00:00Z (a time)"


def parse(text: str) -> ReadPlace:
    """Read a place; ``ValueError`` says the rule and what to do."""
    if text.lower() in ("earliest", "latest"):
        return ReadEdge(text.lower())
    found = _SEQUENCE.fullmatch(text)
    if found is not None and int(found[1]) <= LONG_MAX:
        return AtSequence(int(found[1]))
    if _ID.fullmatch(text):
        try:
            return message_ids.parse(text)
        except BadMessageIdError:
            raise ValueError(f"is not the id of a message; write {FORMS}") from None
    if _NUMBER.fullmatch(text):
        raise ValueError(f"is no place in a log; write sequence:{text} for a sequence")
    wall_ms = moments.wall_ms(text)
    if wall_ms is None:
        raise ValueError(f"is no place in a log; write {FORMS}")
    return AtTime(wall_ms)
