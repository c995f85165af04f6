"""The storage server: takes entries, keeps what it acknowledged, and gives it back.

What may happen to a ledger is decided by pure code; what happens to the disk goes through
``files.FileSystem``, whose in-memory twin forgets what was not synced.
"""
