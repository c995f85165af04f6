"""Completion of words by the user's shell, without loading a command or asking a store."""
