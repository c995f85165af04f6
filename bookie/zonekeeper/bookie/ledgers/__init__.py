"""What a bookie lets happen to a ledger, and what it notes of it; every module is pure."""
