"""The bookies as one client knows them, and the links to them."""
