"""The autorecovery process, which runs auditor, zone watch and replicator."""
