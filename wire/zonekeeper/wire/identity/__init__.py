"""Principals and roles: which code asks a bookie, and what its role may ask. All of it is pure."""
