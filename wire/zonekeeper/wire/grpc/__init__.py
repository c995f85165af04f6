"""The production transport: gRPC, with TLS."""
