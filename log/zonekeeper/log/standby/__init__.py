"""Candidates for the writing of a log: who writes, who waits, and who gives the log back."""
