"""What is to be done for a cluster now, and what is true of it; every module is pure."""
