"""Decide what the answers to a read, a survey or a recovery mean; every module is pure."""
