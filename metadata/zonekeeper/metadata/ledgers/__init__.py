"""What is stored for ledgers: their metadata, their ids, and the marks of lost copies."""
