"""The commands of ``zonekeeper`` that no other component publishes."""
