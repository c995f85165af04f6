"""Auto-replication: who finds lost copies, judges zones, permits repair, and copies."""
