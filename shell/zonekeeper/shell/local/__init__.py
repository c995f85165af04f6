"""A cluster on one machine: its folder, its processes, its state."""
