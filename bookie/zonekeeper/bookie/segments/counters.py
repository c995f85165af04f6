"""The counters of a storage since its start: each field is a metric on ``/metrics``.

``docs/bookie.md`` says what each means.
"""

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class StorageCounters:
    """Counters since the start; none ever falls."""

    rewritten_segments: int = 0
    rewritten_bytes: int = 0
    compacted_segments: int = 0
    compacted_bytes: int = 0
    compactions_failed: int = 0
    compactions_without_room: int = 0
    swept_ledgers: int = 0
    #: Tombstones of collected ledgers that were dropped before their time, because of their number.
    tombstones_dropped: int = 0
    #: How often a step waited because a device was full.
    waits_for_room: int = 0
    #: How often the log stopped because it had no segment.
    waits_for_segments: int = 0
    #: The time that the log paused because the rewrite lagged behind.
    throttled_seconds: float = 0.0
