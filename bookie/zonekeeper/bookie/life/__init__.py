"""The life of a bookie, from start to end: identity, boots, settings, process, pages."""
