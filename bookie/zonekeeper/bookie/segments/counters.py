"""What a storage has done since its start, in numbers; ``docs/bookie.md`` says what they mean."""

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class StorageCounters:
    """What was done since the start."""

    rewritten_segments: int = 0
    rewritten_bytes: int = 0
    compacted_segments: int = 0
    compacted_bytes: int = 0
    compactions_failed: int = 0
    compactions_without_room: int = 0
    swept_ledgers: int = 0
    #: How often a step waited because a device was full.
    waits_for_room: int = 0
    #: How often the writer stopped because it had no segment.
    waits_for_segments: int = 0
    #: How long the writer paused because the rewrite was behind.
    throttled_seconds: float = 0.0
