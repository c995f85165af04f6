"""How far a mirror is, from Spark's reports of progress. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorProgress:
    """What is copied, and what the log that is followed had at the last look."""

    #: The sequence behind the last message that is copied, and behind the last one that there is.
    copied: int
    end: int

    @property
    def lag(self) -> int:
        """The messages that are not copied yet."""
        return max(0, self.end - self.copied)

    def __str__(self) -> str:
        return f"copied up to sequence {self.copied}; lag: {self.lag} messages"


def seen(progress: Mapping[str, object] | None) -> MirrorProgress | None:
    """Read a report of a query with one source; None: it does not say how far the query is."""
    sources = None if progress is None else progress.get("sources")
    if not isinstance(sources, Sequence) or len(sources) != 1:
        return None
    copied = _sequence(sources[0], "endOffset")
    if copied is None:
        return None
    latest = _sequence(sources[0], "latestOffset")
    return MirrorProgress(copied=copied, end=max(copied, latest or 0))


def _sequence(source: object, name: str) -> int | None:
    """Give the sequence of an offset, which is a text in JSON or what it says."""
    offset = source.get(name) if isinstance(source, Mapping) else None
    if isinstance(offset, str):
        try:
            offset = json.loads(offset)
        except ValueError:
            return None
    sequence = offset.get("sequence") if isinstance(offset, Mapping) else None
    return sequence if isinstance(sequence, int) else None
