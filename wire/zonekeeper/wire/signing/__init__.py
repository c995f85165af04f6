"""Certificates that are made: an authority, what it signs, and the files of both."""
