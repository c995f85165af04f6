"""The metadata stores: ZooKeeper, SQLite for one machine, and memory as their model."""
