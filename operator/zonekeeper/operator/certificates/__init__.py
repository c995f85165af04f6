"""Certificates of a cluster: which there are, what was seen of them, when another is issued."""
