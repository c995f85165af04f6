"""The stages of a removal: no bookie ever runs without its volume or its root."""
