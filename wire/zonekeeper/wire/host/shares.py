"""What the streams of one principal take of a host together, so that others get their part.

A limit of each stream bounds who opens one, and not who opens a thousand. So the streams of all
connections whose certificates name the same principal count together, over both transports. One
whose certificate names no principal counts by the name that the certificate has. Without TLS nobody
knows who is at the other end: then only the limits of streams count.

Once the bytes of appends reach the limit, all Append streams of the principal are held, until half
of them have been answered. What was received before that is taken still; an append far above the
limit is refused. A fragment's opening never is: a writer would take the bookie for a broken one.

A stream keeps the share that it began with. When the map of foreign names changes, only streams
that begin later count for the other name.
"""

import dataclasses
import enum
import sys
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

#: What was received before streams were held may come on top. So appends are refused only above
#: this multiple of the bytes at which streams are held.
_REFUSED_ABOVE: Final = 1.5


class Shared(enum.Enum):
    """What a principal has a number of; the value is its name in the metrics."""

    #: Append and Read streams, and connections of the socket lane for calls.
    STREAMS = "streams"
    TAILS = "tails"


class Holdable(Protocol):
    """A stream that can be held: it is not read further until it finds room again."""

    def look_for_room(self) -> None:
        """Take requests if there is room, and let none come otherwise."""
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
        #: Bytes of requests that the bookie has and has not answered.
        self.append_bytes = 0
        #: Are its Append streams held?
        self.is_full = False
        self._appending: dict[Holdable, None] = {}
        #: Bytes of answers to reads and tails that have not left.
        self.replies = ReplyBudget(limits.principal_reply_bytes_max)

    @property
    def is_empty(self) -> bool:
        """Has the principal nothing here any more?"""
        return not self.append_bytes and not self.counts.total()

    @property
    def appending(self) -> int:
        """The number of its Append streams."""
        return len(self._appending)

    def refusal(self, coming_bytes: int, size_bytes: int) -> errors.TooManyRequests | None:
        """Give the error for an append for which there is no room; None: there is.

        ``coming_bytes`` were admitted before it, and the bookie does not have them yet. What comes
        alone is never too large.
        """
        most = int(_REFUSED_ABOVE * self._append_bytes_max)
        before = self.append_bytes + coming_bytes
        if not before or before + size_bytes <= most:
            return None
        self._figures.over_share["appends"] += 1
        return errors.TooManyRequests(
            f"{before} bytes of {self.name} wait for an answer on all its streams, and "
            f"the limit is {most}; nothing was done: come again later, or give each application "
            "a certificate with a name of its own"
        )

    def take(self, size_bytes: int) -> None:
        """Count bytes that the bookie gets now; at the limit all Append streams are held."""
        self.append_bytes += size_bytes
        if not self.is_full and self.append_bytes > self._append_bytes_max:
            self.is_full = True
            self._look()

    def give(self, size_bytes: int) -> None:
        """Give bytes back that the bookie has answered; below half of the limit streams go on."""
        self.append_bytes -= size_bytes
        if self.is_full and self.append_bytes <= self._append_bytes_max // 2:
            self.is_full = False
            self._look()
        if not self.append_bytes:
            self._emptied(self)

    def follow(self, stream: Holdable) -> None:
        """Hold this stream with the others, until it leaves."""
        self._appending[stream] = None

    def leave(self, stream: Holdable) -> None:
        """Follow a stream no more: it has ended."""
        self._appending.pop(stream, None)

    def _look(self) -> None:
        for stream in list(self._appending):
            stream.look_for_room()


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
        #: Of a caller that nobody knows: only its streams have limits.
        self._no_limits = dataclasses.replace(
            limits, principal_append_bytes_max=sys.maxsize, principal_reply_bytes_max=sys.maxsize
        )
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
    def joined(self, guard: Guard, kind: Shared) -> Iterator[PrincipalShare]:
        """Give the caller's share, and count one of this kind during the block.

        Raises TooManyRequests.
        """
        if (name := guard.known_as) is None:
            yield PrincipalShare("nobody", self._no_limits, self._figures, self._dismiss)
            return
        self.check(guard, kind)
        share = self._shares.get(name)
        if share is None:
            share = PrincipalShare(name, self._limits, self._figures, self._dismiss)
            self._shares[name] = share
        share.counts[kind] += 1
        try:
            yield share
        finally:
            share.counts[kind] -= 1
            self._dismiss(share)

    def check(self, guard: Guard, kind: Shared) -> None:
        """Raise TooManyRequests if the caller has its share of this kind already."""
        share = self._shares.get(guard.known_as or "")
        if share is not None and share.counts[kind] >= (most := self._most[kind]):
            self._figures.over_share[kind.value] += 1
            raise errors.TooManyRequests(
                f"{share.name} has {most} {kind.value} here, over all its connections, which is "
                "the limit; nothing was done: end some, or give each application a certificate "
                "with a name of its own"
            )

    def _dismiss(self, share: PrincipalShare) -> None:
        """Forget a share of which nothing is left: so names take no memory."""
        if share.is_empty and self._shares.get(share.name) is share:
            del self._shares[share.name]
