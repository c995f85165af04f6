"""Ledgers: write, read and recover them through quorums of bookies.

In this family the client is the protocol: it alone decides what is acknowledged, in which order,
and where a ledger ends. Bookies keep what they are told and honour a fence.
"""
