"""The requests of a client to a bookie: the service, its messages, links and streams."""
