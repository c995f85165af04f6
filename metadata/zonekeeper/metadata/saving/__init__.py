"""A root as text, and back; and ledgers' metadata rebuilt from the hints of bookies."""
