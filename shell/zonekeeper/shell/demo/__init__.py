"""The demonstration: what it does, what it writes, what it sees and shows."""
