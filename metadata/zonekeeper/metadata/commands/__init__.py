"""The commands on the metadata store alone, and the parts that all components' commands share."""
