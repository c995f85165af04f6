"""The bookie, the storage server: it takes entries, keeps those it acknowledged, and serves them.

Pure code decides which requests for a ledger are allowed. All access to the disk goes through
``files.FileSystem``. Its in-memory twin loses bytes that were not synced, like a disk.
"""
