"""The commands on the metadata store alone; and what the commands of all components share."""
