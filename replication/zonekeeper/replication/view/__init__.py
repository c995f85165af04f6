"""What one process knows of the cluster, and how it asks, lists and paces."""
