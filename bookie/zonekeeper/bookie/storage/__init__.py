"""The storage of a bookie: its memory and its segments, with the rewrite and compaction."""
