"""The auditor: finds lost copies and marks them; checks placement and replicas."""
