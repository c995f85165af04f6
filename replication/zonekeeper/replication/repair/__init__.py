"""The replicator: claims a marked ledger, copies what is missing, swaps the ensemble."""
