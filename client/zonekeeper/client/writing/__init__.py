"""A ledger's writer as a state machine: events in, effects out; every module is pure."""
