"""Everything that is remembered outside bookies: ledgers, cookies, registration, policy, repair.

Formats and paths are Apache BookKeeper's where it has them. Every write is a compare-and-set, and
every answer is one of yes, no and unknown.
"""
