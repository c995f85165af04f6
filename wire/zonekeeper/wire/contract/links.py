"""A bookie as its clients see it: one link for each bookie, shared by all ledgers of a process.

**Appends** go through a *lane*: one ledger on one connection. ``open_fragment`` makes a lane by a
request on that connection, and the lane ends with the connection. Each thing that is put into a
lane gets exactly one outcome at its sink: ``acked``, or ``failed`` with an error. The error's
``maybe_applied`` tells *refused* (the bookie does not have it) from *unknown* (the bookie may have
it). After the connection is lost the lane refuses everything. The link never opens a fragment again
by itself and never sends a frame twice: whether to send again, to replace the bookie or to stop is
the ledger's decision. A lane belongs to one connection. So an ack can never come from an earlier
period of the same bookie's membership.

**Memory** is bounded in bytes. All that is in the lanes of a link without an outcome is at most
``budget_bytes``. ``append`` refuses more with ``TooManyRequests``, and the sink's ``room`` is
called when another attempt is worth while. The last eighth is kept for lanes that have little in
them, so that a ledger that floods a slow bookie does not shut out the others. The replies to reads
may bring at most ``read_budget_bytes``. A read without room waits, first come, first served. That
wait is no failure of the bookie, and is not reported as one.

**Connections** are made on demand and shared. During the back-off after a failed attempt, an
operation is not queued but fails at once with ``NotConnected``: its caller knows other bookies.
Each operation has a deadline; that of a read begins when it has room. It is always safe to cancel
an operation, but it may have been carried out.

All of this belongs to one event loop. Errors are those of ``wire.formats.errors``, and no others.
"""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, fields
from typing import Final, Protocol

from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import errors, versions
from zonekeeper.wire.formats.digests import MasterKey
from zonekeeper.wire.formats.frames import Frame
from zonekeeper.wire.formats.openings import FragmentOpening
from zonekeeper.wire.formats.versions import WireVersions

BUDGET_BYTES: Final = 64 << 20


class AppendSink(Protocol):
    """The ledger's end of a lane. It must not raise, and may put more into the lane."""

    def acked(self, number: int) -> None:
        """Note that the bookie has it on disk."""
        ...

    def failed(self, number: int, error: errors.ProtocolError) -> None:
        """Note that it is not acknowledged; with ``error.maybe_applied`` the bookie may have it."""
        ...

    def room(self) -> None:
        """Try again: the lane refused something, and now has budget, or is dead."""
        ...


class AppendLane(Protocol):
    """One ledger on one connection to one bookie."""

    @property
    def boot_epoch(self) -> int:
        """The boot epoch of the bookie at the other end of this lane."""
        ...

    @property
    def alive(self) -> bool:
        """Does this lane still take frames?"""
        ...

    def append(self, frame: Frame) -> int:
        """Put a frame in, and give its number in this lane: 0, 1, ...

        Raises TooManyRequests when the budget is spent, and NotOpened when the lane is dead; then
        there will be no outcome. No outcome is delivered during this call.
        """
        ...

    def write_lac(self, packet: bytes) -> int:
        """Put a LAC packet in, as a writer does when it has nothing to append. Like ``append``."""
        ...

    def close(self) -> None:
        """Take nothing more. All that was not sent fails with NotOpened, during this call."""
        ...


class BookieLink(Protocol):
    """All that a client can ask of one bookie."""

    @property
    def bookie_id(self) -> BookieId:
        """The bookie at the other end."""
        ...

    async def open_fragment(
        self, opening: FragmentOpening, sink: AppendSink, *, was_open: bool = False
    ) -> AppendLane:
        """Open a fragment on the present connection; without one, connect first.

        ``was_open``: the caller had the ledger open on this bookie before. A bookie that no longer
        knows the ledger then refuses with LedgerDeleted.
        """
        ...

    async def read(self, request: service.ReadRequest) -> service.ReadReply:
        """Read a range; with a key, fence first. Waits for room in the budget."""
        ...

    async def fence(
        self, ledger_id: LedgerId, master_key: MasterKey, create_token: int = 0
    ) -> service.LacEvidence:
        """Fence a ledger, and give what the bookie knows of its end."""
        ...

    async def read_lac(
        self, ledger_id: LedgerId, key: MasterKey | None = None
    ) -> service.LacEvidence:
        """Give what the bookie knows of a ledger's end, without fencing."""
        ...

    async def force(self, ledger_id: LedgerId, key: MasterKey | None = None) -> None:
        """Make every acknowledged entry of a ledger durable."""
        ...

    def tail(self, request: service.TailRequest) -> AsyncGenerator[service.TailUpdate, None]:
        """Follow a ledger; ends with an error, or when the iterator is closed.

        Raises Timeout if the bookie is silent for more than the request's ``quiet_ms`` and a grace.
        """
        ...

    async def list_entries(self, request: service.ListEntriesRequest) -> service.EntryRanges:
        """List a page of the entries that the bookie has of a ledger."""
        ...

    async def info(self) -> service.BookieInfo:
        """Give the bookie's state."""
        ...

    async def set_read_only(self, *, read_only: bool) -> None:
        """Make the bookie refuse appends, or take them again."""
        ...

    async def end_limbo(self, ledger_id: LedgerId, boot_epoch: int) -> None:
        """End the bookie's limbo of a ledger, once the bookie holds all that it should hold.

        ``boot_epoch`` is the start in which that was found out. In another one: StartedAgain.
        """
        ...

    async def compact(self, *, major: bool) -> None:
        """Start a compaction."""
        ...


class OwnedLink(BookieLink, Protocol):
    """A link as its owner has it: the code that made the link must close it."""

    async def close(self) -> None:
        """End the connection; everything without an outcome fails with ConnectionLost.

        A read that waits for room fails with NotConnected, and so does every later operation.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSettings:
    """Limits of one link."""

    #: Bytes in the lanes without an outcome.
    budget_bytes: int = BUDGET_BYTES
    #: Bytes that reads under way may bring: enough for 64 reads of the size that our client asks
    #: for. Other reads wait.
    read_budget_bytes: int = 2 * BUDGET_BYTES
    connect_timeout_ms: int = 2_000
    #: From ``append`` to its outcome; it may be noticed up to a quarter of this time late.
    append_timeout_ms: int = 5_000
    #: From the moment at which the read has room.
    read_timeout_ms: int = 5_000
    #: For every other request.
    call_timeout_ms: int = 5_000
    #: The pause after a failed attempt to connect; doubled after each further one.
    back_off_first_ms: int = 100
    back_off_max_ms: int = 10_000
    #: What this side says of its versions of the wire; None: nothing.
    speaks: WireVersions | None = versions.SPOKEN

    def __post_init__(self) -> None:
        limits = (getattr(self, each.name) for each in fields(self) if each.name != "speaks")
        if min(limits) <= 0:
            raise ValueError(f"a link's limits are positive: {self}")
