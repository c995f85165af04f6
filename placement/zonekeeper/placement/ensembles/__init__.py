"""Which bookies hold a ledger's entries, and in which order they are read."""
