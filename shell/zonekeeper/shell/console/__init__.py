"""The zone console: one page for a browser, live, and only for looking."""
