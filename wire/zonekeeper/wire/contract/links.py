"""A bookie as its clients see it: one link for each bookie, shared by all ledgers of a process.

**Appends** go through a *lane*: one ledger on one connection. ``open_fragment`` makes it, by a
request on that connection, and it ends with the connection. Each thing put into a lane gets exactly
one outcome at its sink: ``acked``, or ``failed`` with an error whose ``maybe_applied`` tells
*refused* (it is not there) from *unknown* (it may be). After a lost connection the lane is dead and
refuses. The link never opens a fragment again by itself and never sends a frame twice: whether to
resend, to replace the bookie or to stop is the ledger's decision, and as a lane belongs to one
connection, an ack can never come from an earlier period of the same bookie's membership.

**Memory** is bounded by bytes. What is in the lanes of a link and has no outcome yet is at most
``budget_bytes``; ``append`` refuses more with ``TooManyRequests``, and the sink hears ``room`` when
it is worth trying again. The last eighth is kept for lanes that have little in it, so that a ledger
that floods a slow bookie does not shut out the others. What the replies to reads may bring is at
most ``read_budget_bytes``: a read for which there is no room waits, first come, first served. That
many read at once is no failure of the bookie, and is not told as one.

**Connections** are made on demand and shared. While a failed attempt is backed off from, an
operation fails at once with ``NotConnected`` and is not queued: its caller knows other bookies.
Each operation has a deadline, a read from when it has room. Cancelling an operation is always safe;
it may have been carried out.

All of this belongs to one event loop. Errors are those of ``wire.errors``, and no others.
"""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, fields
from typing import Final, Protocol

from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import errors
from zonekeeper.wire.formats.digests import MasterKey
from zonekeeper.wire.formats.frames import Frame
from zonekeeper.wire.formats.openings import FragmentOpening

BUDGET_BYTES: Final = 64 << 20


class AppendSink(Protocol):
    """The ledger's ear at a lane. It must not raise, and may put more into the lane."""

    def acked(self, number: int) -> None:
        """The bookie has it on disk."""
        ...

    def failed(self, number: int, error: errors.ProtocolError) -> None:
        """It is not acknowledged; ``error.maybe_applied``: it may be there nevertheless."""
        ...

    def room(self) -> None:
        """Try again: the lane refused something, and has budget now, or is dead."""
        ...


class AppendLane(Protocol):
    """One ledger on one connection to one bookie."""

    @property
    def boot_epoch(self) -> int:
        """The bookie's boot that this lane talks to."""
        ...

    @property
    def alive(self) -> bool:
        """Does it still take frames?"""
        ...

    def append(self, frame: Frame) -> int:
        """Put a frame in, and give its number: 0, 1, ... in this lane.

        Raises TooManyRequests when the budget is spent, NotOpened when the lane is dead; then
        there will be no outcome. Outcomes are never delivered from within this call.
        """
        ...

    def write_lac(self, packet: bytes) -> int:
        """Put a LAC packet in: what a writer does that falls quiet. Like ``append``."""
        ...

    def close(self) -> None:
        """Take nothing more. What was not sent fails with NotOpened, from within this call."""
        ...


class BookieLink(Protocol):
    """All that a client can ask of one bookie."""

    @property
    def bookie_id(self) -> BookieId:
        """Who is at the other end."""
        ...

    async def open_fragment(self, opening: FragmentOpening, sink: AppendSink) -> AppendLane:
        """Open a fragment on the present connection, making one if need be."""
        ...

    async def read(self, request: service.ReadRequest) -> service.ReadReply:
        """Read a range; with a key, fence first. Waits for room in the budget."""
        ...

    async def fence(self, ledger_id: LedgerId, master_key: MasterKey) -> service.LacEvidence:
        """Fence a ledger, and hear what the bookie knows of its end."""
        ...

    async def read_lac(self, ledger_id: LedgerId) -> service.LacEvidence:
        """Hear what the bookie knows of a ledger's end, without fencing."""
        ...

    async def force(self, ledger_id: LedgerId) -> None:
        """Make durable what was acknowledged."""
        ...

    def tail(self, request: service.TailRequest) -> AsyncGenerator[service.TailUpdate, None]:
        """Follow a ledger; ends with an error, or when the iterator is closed.

        A bookie that is silent for more than the request's ``quiet_ms`` and a grace is a Timeout.
        """
        ...

    async def list_entries(self, request: service.ListEntriesRequest) -> service.EntryRanges:
        """List a page of what the bookie has of a ledger."""
        ...

    async def info(self) -> service.BookieInfo:
        """Hear how the bookie is."""
        ...

    async def set_read_only(self, *, read_only: bool) -> None:
        """Make the bookie refuse appends, or take them again."""
        ...

    async def end_limbo(self, ledger_id: LedgerId, boot_epoch: int) -> None:
        """Let the bookie answer for a ledger again, once it holds what it should.

        ``boot_epoch``: the start in which that was found out; in another one, StartedAgain.
        """
        ...

    async def compact(self, *, major: bool) -> None:
        """Start a compaction."""
        ...


class OwnedLink(BookieLink, Protocol):
    """A link as its owner has it: who made it ends it."""

    async def close(self) -> None:
        """End the connection; everything outstanding fails with ConnectionLost.

        A read that waits for room fails with NotConnected, as every later one does.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSettings:
    """Limits of one link."""

    #: Bytes in the lanes without an outcome.
    budget_bytes: int = BUDGET_BYTES
    #: Bytes that outstanding reads may bring, 64 of those that a client asks for; others wait.
    read_budget_bytes: int = 2 * BUDGET_BYTES
    connect_timeout_ms: int = 2_000
    #: From ``append`` to its outcome; found out at most a quarter late.
    append_timeout_ms: int = 5_000
    #: From when there is room.
    read_timeout_ms: int = 5_000
    #: Of everything else.
    call_timeout_ms: int = 5_000
    #: Waited after a failed attempt to connect, doubled with each further one.
    back_off_first_ms: int = 100
    back_off_max_ms: int = 10_000

    def __post_init__(self) -> None:
        if min(getattr(self, each.name) for each in fields(self)) <= 0:
            raise ValueError(f"a link's limits are positive: {self}")
