"""``zonekeeper bookie``: run a bookie, and work on one that stands still."""
