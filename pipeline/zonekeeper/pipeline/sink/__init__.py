"""The way of rows into a log: each batch of a query once."""
