"""All that a bookie keeps, put together: its memory, its segments, the rewrite, compaction."""
