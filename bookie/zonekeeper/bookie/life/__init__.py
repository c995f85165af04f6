"""A bookie from its start to its end: identity, boots, settings, process, pages."""
