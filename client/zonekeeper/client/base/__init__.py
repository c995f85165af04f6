"""The base of the client: errors, settings, counters, tasks."""
