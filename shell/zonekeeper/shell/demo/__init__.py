"""The demonstration: its story, the entries that it writes, what it observes and shows."""
