"""The losses that a configuration survives, its cost, and what can be built in outages."""
