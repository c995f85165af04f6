"""Writes while a zone is away for a drill, and says what an application would have seen."""
