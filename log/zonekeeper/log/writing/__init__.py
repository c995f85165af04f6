"""Decide what a writer of a log sends, what is acknowledged, and what is sent again. Pure."""
