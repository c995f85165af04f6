"""What jobs make of what they read: rows, sums and a page. Pure."""
