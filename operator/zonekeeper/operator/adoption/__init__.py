"""A resource for bookies that run already, read off what runs."""
