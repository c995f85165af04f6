"""What one look sees of a cluster, and what is kept of earlier looks."""
