"""The counters of a storage since its start: each field is a metric on ``/metrics``.

``docs/bookie.md`` says what each means.
"""

from dataclasses import dataclass

from zonekeeper.wire.formats.exposition import number


@dataclass(slots=True, kw_only=True)
class StorageCounters:
    """Counters since the start; none ever falls."""

    rewritten_segments: int = number("Arrival segments that were rewritten.")
    rewritten_bytes: int = number("Bytes that the rewrite wrote into sorted segments.")
    compacted_segments: int = number("Sorted segments that were compacted.")
    compacted_bytes: int = number("Bytes that compactions wrote.")
    compactions_failed: int = number("Compactions that ended with an error.")
    compactions_without_room: int = number("Compactions that were not begun for want of room.")
    swept_ledgers: int = number("Forgotten ledgers whose entries were taken out of the index.")
    tombstones_dropped: int = number(
        "Tombstones that were dropped before their time, because of their number."
    )
    waits_for_room: int = number("How often a step waited because a device was full.")
    waits_for_segments: int = number("How often the log stopped because it had no segment.")
    throttled_seconds: float = number("Time that the log paused because the rewrite lagged behind.")
