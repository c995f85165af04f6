"""What is stored for a cluster as a whole: policy, zones, timeline, elections, switches."""
