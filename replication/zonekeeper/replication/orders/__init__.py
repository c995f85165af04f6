"""What is to become of a bookie: orders in the store, each carried out by one process at a time."""
