"""Kubernetes as the operator sees it: the interface, the real one and its twin."""
