"""The bytes on a bookie's disk, and where they are; every module is pure."""
