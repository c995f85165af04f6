"""``zonekeeper log``: logs from the command line."""
