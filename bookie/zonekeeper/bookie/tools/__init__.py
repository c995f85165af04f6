"""What a person does to a bookie that stands still: look, check, rebuild, export, prepare.

Every tool holds the lock that a bookie's process holds, so none works beside a running bookie. The
tools that look change nothing that counts: the index, which can always be built again, may be
brought up to date, as each start does.
"""
