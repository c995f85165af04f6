"""The stored data of bookies: cookies, registrations, and records of our own."""
