"""The socket lane: our messages over plain TCP or TLS, without gRPC between."""
