"""The shells around the pure machines: they write, read, follow and recover ledgers."""
