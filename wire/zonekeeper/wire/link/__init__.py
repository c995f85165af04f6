"""A client's way to one bookie, over any transport."""
