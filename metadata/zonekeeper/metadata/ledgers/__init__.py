"""The stored data of ledgers: their metadata, their ids, and the marks of lost copies."""
