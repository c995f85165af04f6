"""A zone is taken away on a person's order, for a while, to see what becomes of its cluster."""
