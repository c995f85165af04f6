"""A root as text, and back; and ledgers' metadata rebuilt from what bookies remember."""
