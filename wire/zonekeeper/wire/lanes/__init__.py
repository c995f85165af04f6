"""What is sent when, and what came of it: the pure core of a link."""
