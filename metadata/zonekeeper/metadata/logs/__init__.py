"""Logs in the store: their records and pages, and listings of them."""
