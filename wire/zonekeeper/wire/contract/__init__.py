"""What a client may ask of a bookie: the service, its messages, links and streams."""
