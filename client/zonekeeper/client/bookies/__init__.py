"""The bookies that one client knows, and the links to them."""
