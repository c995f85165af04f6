"""What is remembered of ledgers: their metadata, their ids, and which of them lack copies."""
