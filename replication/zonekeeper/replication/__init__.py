"""Auto-replication: auditor, zone watch, gate and replicator.

The auditor finds what is lost, the zone watch judges zones, the gate permits repair, the replicator
copies. Each has a room of its name; ``decisions`` holds what they decide by, and is pure.
"""
