"""The formats of a bookie's disk, and the locations in it; every module is pure."""
