"""Compression of batches, by the libraries that this process has."""
