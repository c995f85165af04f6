"""``zonekeeper bookie``: run a bookie, and work on a stopped one."""
