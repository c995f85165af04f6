"""The transport of production: gRPC, with TLS."""
