"""Decide what a log keeps: what retention trims, what nobody needs, what a lost record was."""
