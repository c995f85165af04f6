"""What answers to a read or a recovery mean; every module is pure."""
