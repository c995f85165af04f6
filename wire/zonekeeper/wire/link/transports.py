"""The interface between a link and a network.

A transport connects one client to one bookie: two kinds of streams of messages, and calls. It moves
and translates messages, and decides nothing. Lanes, budgets, deadlines of appends and reads, and
the matching of replies belong to the link and the host. They are the same for gRPC and for the
simulated network.

Every failure is raised as an error of ``wire.formats.errors``, and never as another exception.
"""

from collections.abc import AsyncGenerator
from typing import Protocol

from zonekeeper.wire.contract.inlets import ClientPipe
from zonekeeper.wire.contract.pipes import StreamKind
from zonekeeper.wire.host.methods import Call, Q, R, Subscription


class Transport(Protocol):
    """The way from one client to one bookie."""

    @property
    def place(self) -> str:
        """Say where it leads, for error messages."""
        ...

    def stream(self, kind: StreamKind) -> ClientPipe:
        """Start a stream. Only the first ``receive`` shows whether the bookie is there."""
        ...

    async def call(self, method: Call[Q, R], request: Q, timeout_ms: int) -> R:
        """Send a request and wait for the answer; raises Timeout."""
        ...

    def subscribe(self, method: Subscription[Q, R], request: Q) -> AsyncGenerator[R, None]:
        """Send a request, and give its answers until the iterator is closed."""
        ...

    async def close(self) -> None:
        """End the connection."""
        ...
