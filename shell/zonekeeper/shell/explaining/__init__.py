"""``placement explain``: every judgement of placement on a cluster file."""
