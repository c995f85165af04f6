"""What is remembered of bookies: cookies, registrations, and records of our own."""
