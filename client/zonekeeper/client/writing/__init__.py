"""A ledger's writer as a machine: events in, effects out; every module is pure."""
