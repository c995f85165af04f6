"""The stored data of a cluster as a whole: policy, zones, timeline, elections, switches."""
