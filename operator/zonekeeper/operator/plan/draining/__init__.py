"""Drains of nodes by others: one zone at a time is let in, also while the operator is down."""
