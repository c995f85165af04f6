"""The ways to a bookie that a client may be set to use."""

import enum


class BookieWay(enum.Enum):
    """Over what a client reaches bookies."""

    GRPC = "grpc"
    #: The socket lane alone: a bookie without one is not reached.
    SOCKET = "socket"
    #: The socket lane of each bookie that has one and is reached over it, and gRPC to the others.
    OFFERED = "offered"
