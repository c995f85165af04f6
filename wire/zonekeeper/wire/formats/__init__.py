"""Bytes and texts that two processes must spell in the same way; every module is pure."""
