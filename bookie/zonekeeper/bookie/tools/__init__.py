"""The tools for a stopped bookie: look, check, rebuild, export, prepare.

Every tool takes the lock that a bookie's process takes, so no tool works beside a running bookie. A
tool that only looks changes nothing that counts. It may bring the index up to date, like each
start; the index can always be built again.
"""
