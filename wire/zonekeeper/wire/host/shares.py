"""What the streams of one principal take of a host together, so that others get their part.

A limit of each stream bounds who opens one, and not who opens a thousand. So the streams of all
connections whose certificates name the same principals count together, over both transports. A
principal may take half of what the host has; the other half is there for the others. Without TLS
nobody knows who is at the other end: then each stream is counted alone.

A stream keeps the share that it began with. When the map of foreign names changes, only streams
that begin later count for the other name.
"""

import enum
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from zonekeeper.wire.formats import errors
from zonekeeper.wire.host.access import Access, AccessFigures, Guard
from zonekeeper.wire.host.host_limits import HostLimits
from zonekeeper.wire.host.packing import ReplyBudget
from zonekeeper.wire.host.proving import ProofSession
from zonekeeper.wire.identity import callers
from zonekeeper.wire.identity.callers import Caller

#: A held stream takes one more carrier when it goes on, and a principal may have many of them. So
#: requests are refused only above this multiple of the bytes at which streams are held.
_REFUSED_ABOVE: Final = 1.5


class Shared(enum.Enum):
    """What a principal has a number of; the value is its name in the metrics."""

    #: Append and Read streams, and connections of the socket lane for calls.
    STREAMS = "streams"
    TAILS = "tails"


class HeldStream(Protocol):
    """A stream that is not read further until its share has room."""

    def look_for_room(self) -> None:
        """Take requests again, if there is room."""
        ...


class PrincipalShare:
    """What one principal takes of a host, now."""

    def __init__(
        self,
        name: str,
        limits: HostLimits,
        figures: AccessFigures,
        emptied: Callable[["PrincipalShare"], None],
    ) -> None:
        self.name: Final = name
        self._figures = figures
        self._append_bytes_max = limits.principal_append_bytes_max
        self._emptied = emptied
        self.counts = Counter[Shared]()
        #: Bytes of requests on Append streams that the bookie has not answered.
        self.append_bytes = 0
        #: The streams that wait until there are fewer of them.
        self._held: dict[HeldStream, None] = {}
        #: Bytes of answers to reads and tails that have not left.
        self.replies = ReplyBudget(limits.principal_reply_bytes_max)

    @property
    def has_append_room(self) -> bool:
        """May its Append streams be read further?"""
        return self.append_bytes <= self._append_bytes_max

    @property
    def held(self) -> int:
        """The number of its streams that are not read further now."""
        return len(self._held)

    @property
    def is_empty(self) -> bool:
        """Has the principal nothing here any more?"""
        return not self.append_bytes and not self.counts.total()

    def refusal(self, size_bytes: int) -> errors.TooManyRequests | None:
        """Give the error for a request for which there is no room at all; None: there is."""
        most = int(_REFUSED_ABOVE * self._append_bytes_max)
        if not self.append_bytes or self.append_bytes + size_bytes <= most:
            return None
        self._figures.over_share["appends"] += 1
        return errors.TooManyRequests(
            f"{self.append_bytes} bytes of {self.name} wait for an answer on all its streams, "
            f"the limit is {most}; nothing was done, come again later"
        )

    def take(self, size_bytes: int) -> None:
        """Count bytes of a request."""
        self.append_bytes += size_bytes

    def give(self, size_bytes: int) -> None:
        """Give the bytes of a request back; streams that waited for that go on."""
        self.append_bytes -= size_bytes
        if self._held and self.has_append_room:
            held, self._held = self._held, {}
            for stream in held:
                stream.look_for_room()
        if not self.append_bytes:
            self._emptied(self)

    def hold(self, stream: HeldStream) -> None:
        """Let a stream look for room again once there is some."""
        self._held[stream] = None

    def leave(self, stream: HeldStream) -> None:
        """Wake a stream no more: it has ended."""
        self._held.pop(stream, None)


@dataclass(frozen=True, slots=True)
class StreamCaller:
    """Who is at the other end of a stream: its rights, its proofs, and its share."""

    guard: Guard
    session: ProofSession
    share: PrincipalShare


class PrincipalShares:
    """The shares of all principals that have something here now."""

    def __init__(self, limits: HostLimits, access: Access) -> None:
        self._limits = limits
        self._figures = access.figures
        self._shares: dict[str, PrincipalShare] = {}
        self._most = {
            Shared.STREAMS: limits.principal_streams_max,
            Shared.TAILS: limits.principal_tails_max,
        }

    def __len__(self) -> int:
        """Give the number of principals that have something here now."""
        return len(self._shares)

    @contextmanager
    def joined(self, caller: Caller, kind: Shared) -> Iterator[PrincipalShare]:
        """Give the caller's share, and count one of this kind during the block.

        Raises TooManyRequests.
        """
        if caller is callers.UNKNOWN:
            yield self._new("a peer without TLS")
            return
        self.check(caller, kind)
        name = str(caller)
        share = self._shares.get(name)
        if share is None:
            share = self._shares[name] = self._new(name)
        share.counts[kind] += 1
        try:
            yield share
        finally:
            share.counts[kind] -= 1
            self._dismiss(share)

    def check(self, caller: Caller, kind: Shared) -> None:
        """Raise TooManyRequests if the caller has its share of this kind already."""
        share = self._shares.get(str(caller))
        if share is not None and share.counts[kind] >= self._most[kind]:
            self._figures.over_share[kind.value] += 1
            raise errors.TooManyRequests(
                f"{share.name} has {share.counts[kind]} {kind.value} here, over all its "
                "connections, and gets no more; nothing was done: end some, or go elsewhere"
            )

    def _new(self, name: str) -> PrincipalShare:
        return PrincipalShare(name, self._limits, self._figures, self._dismiss)

    def _dismiss(self, share: PrincipalShare) -> None:
        """Forget a share of which nothing is left: so names take no memory."""
        if share.is_empty and self._shares.get(share.name) is share:
            del self._shares[share.name]
