"""Bytes and texts that two processes must spell alike; every module is pure."""
