"""The ``zonekeeper`` command: hosts every component's commands, and has a few of its own."""
