"""What a query writes into a log: attempts of its tasks, and batches that are published at once."""
