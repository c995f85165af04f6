"""Carry out what writers and readers of logs decide, on ledgers and the metadata store."""
