"""The metadata store as an interface: nodes, versions, watches, and changing one node safely."""
