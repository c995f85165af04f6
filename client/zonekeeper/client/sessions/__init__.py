"""The shells around the machines: writing, reading, following and recovering for real."""
