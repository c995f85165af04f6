"""The acts of one turn, the waits, and the conditions of a cluster; every module is pure."""
