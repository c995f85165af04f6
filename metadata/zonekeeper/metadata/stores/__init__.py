"""The metadata stores: ZooKeeper, SQLite for one machine, and memory as a model of both."""
