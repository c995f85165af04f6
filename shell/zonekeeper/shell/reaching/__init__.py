"""How commands reach a running cluster, and what their answers look like."""
