"""The optional webhook: it refuses an edit at the API server, in the operator's own words."""
