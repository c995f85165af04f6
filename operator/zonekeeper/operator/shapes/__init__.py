"""The structures of a resource's spec: each is one table, for its schema and for its reader."""
