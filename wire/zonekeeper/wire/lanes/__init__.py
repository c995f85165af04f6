"""What is sent, when, and with what outcome: the pure core of a link."""
