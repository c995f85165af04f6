"""The rules for a ledger's requests, its records and its extents; every module is pure."""
