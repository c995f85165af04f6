"""The operator at work: look, decide, act, say."""
