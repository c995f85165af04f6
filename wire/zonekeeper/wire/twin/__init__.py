"""The twin of the network, in memory: it delays, drops and partitions."""
