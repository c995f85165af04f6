"""The bookie's service: what is asked is admitted, stored, read, counted and collected."""
