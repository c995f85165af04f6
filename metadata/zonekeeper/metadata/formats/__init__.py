"""The bytes of stored values, Apache BookKeeper's where it has them; every module is pure."""
