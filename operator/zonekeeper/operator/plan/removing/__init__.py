"""The stages of a removal, in an order in which no bookie ever runs without volume or root."""
