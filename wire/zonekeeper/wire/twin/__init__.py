"""The transport of tests: a network in memory that delays, drops and partitions."""
