"""What stands in the ledgers of a log: messages, batches of them, and opening entries. Pure."""
