"""Keeps the logs of a cluster where no writer does: retention, half-done deletions, orphans."""
