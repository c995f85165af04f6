"""The roll: in which order, and when, a changed template reaches the pods. Pure."""
