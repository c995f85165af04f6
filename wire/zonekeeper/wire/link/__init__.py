"""A client's link to one bookie, over any transport."""
