"""What is stored for bookies: cookies, registrations, and records of our own."""
