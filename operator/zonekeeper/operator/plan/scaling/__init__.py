"""Fewer bookies: which ones go, when the next one may, and what is noted of those that go. Pure."""
