"""The interface of a metadata store: nodes, versions, watches, and safe changes of one node."""
