"""The bookie's service: it admits, stores and reads entries, measures, and collects garbage."""
