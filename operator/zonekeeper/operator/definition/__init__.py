"""The custom resource as the API server knows it: its schema, its rules, and its words."""
