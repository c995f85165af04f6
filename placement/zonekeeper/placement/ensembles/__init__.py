"""The choice of the bookies that hold a ledger's entries, and the order of reading them."""
