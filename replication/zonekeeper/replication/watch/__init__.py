"""The zone watch at work: elected, it judges zones and writes their records."""
