"""The operator's process: its turns look, decide, say and act."""
