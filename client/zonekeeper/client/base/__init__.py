"""What all of a client stands on: errors, settings, counters, tasks."""
