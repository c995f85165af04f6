"""The volumes of bookies: they grow, and are told of where they are lost."""
