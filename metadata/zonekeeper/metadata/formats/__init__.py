"""The bytes of what is remembered, Apache BookKeeper's where it has them; every module is pure."""
