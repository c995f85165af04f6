"""What a link needs of a network, and what a bookie's host offers to one.

A transport connects one client to one bookie: two kinds of streams of messages, and calls. It
moves and translates, and decides nothing: lanes, budgets, deadlines of appends and reads, and the
matching of replies are the link's and the host's, the same for gRPC and for the simulated network.

Every failure is an error of ``wire.errors``; no foreign exception passes.
"""

from collections.abc import AsyncGenerator
from typing import Protocol

from zonekeeper.wire.contract.pipes import ClientPipe, StreamKind
from zonekeeper.wire.host.methods import Call, Q, R, Subscription


class Transport(Protocol):
    """The way from one client to one bookie."""

    def stream(self, kind: StreamKind) -> ClientPipe:
        """Start a stream. Whether anybody is there shows at the first ``receive``."""
        ...

    async def call(self, method: Call[Q, R], request: Q, timeout_ms: int) -> R:
        """Ask, and wait for the answer, or raise Timeout."""
        ...

    def subscribe(self, method: Subscription[Q, R], request: Q) -> AsyncGenerator[R, None]:
        """Ask, and get answers until the iterator is closed."""
        ...

    async def close(self) -> None:
        """Give up the connection."""
        ...
