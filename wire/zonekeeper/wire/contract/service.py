"""What a bookie does for its clients: the contract, in domain values.

``BookieService`` is what a bookie implements; ``serving`` and a transport bring requests to it, and
``links.BookieLink`` is the same contract seen from the client. Nothing here knows gRPC.

Answers are yes, no, or an error of ``wire.errors``; a bookie that is not sure (a ledger in limbo, a
read that failed) raises and never answers "there is no such entry". Errors raised here cross the
wire as they are; anything else that is raised is a bug of the bookie.
"""

import enum
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Protocol

from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.wire.formats import carriers, errors
from zonekeeper.wire.formats.digests import MasterKey
from zonekeeper.wire.formats.frames import Frame


@dataclass(frozen=True, slots=True, kw_only=True)
class LacEvidence:
    """What a bookie knows of a ledger's LAC: packets, whose digests the client checks.

    Both None: the bookie is sure that it has nothing of the ledger.
    """

    #: The LAC packet of the last explicit LAC.
    explicit_lac: bytes | None
    #: The packet of the highest entry here.
    last_entry: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """The entries ``first, first + step, ...`` up to ``last``: with E > Qw, a bookie's share."""

    ledger_id: LedgerId
    first_entry_id: EntryId
    last_entry_id: EntryId
    step: int = 1
    #: Stop at about this many bytes of packets, but never before one entry.
    bytes_max: int
    #: The ledger's master key: fence before looking, durably before answering, as recovery must
    #: on each of its reads. None: a plain read, which needs no key.
    fence_key: MasterKey | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadReply:
    """What a bookie has of the entries asked for, as far as it went.

    It speaks for the entries asked for before ``next_entry_id``: one that is not in a frame is not
    here, for sure, and was never acknowledged. Of the others it says nothing.
    """

    frames: tuple[Frame, ...]
    next_entry_id: EntryId
    #: The highest LAC that this bookie has heard of; None: it does not say (a fencing read).
    last_add_confirmed: EntryId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TailRequest:
    """Follow a ledger from an entry on."""

    ledger_id: LedgerId
    #: The first entry that the reader does not have.
    first_entry_id: EntryId
    bytes_max: int
    #: The bookie sends an update at least this often, if without news: silence means trouble.
    quiet_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TailUpdate:
    """The LAC as the bookie knows it, and confirmed entries that were not sent before."""

    last_add_confirmed: EntryId
    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListEntriesRequest:
    """One page of the entries of a ledger that are here."""

    ledger_id: LedgerId
    first_entry_id: EntryId
    ranges_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryRanges:
    """Maximal runs of entries, first and last included, ascending."""

    ranges: tuple[tuple[EntryId, EntryId], ...]
    #: Nothing follows. False: the next page starts behind the last range.
    complete: bool


class BookieState(enum.Enum):
    """What a bookie takes."""

    STARTING = "starting"
    WRITABLE = "writable"
    READ_ONLY = "read-only"
    DRAINING = "draining"


@dataclass(frozen=True, slots=True, kw_only=True)
class BookieInfo:
    """A bookie's word about itself."""

    bookie_id: BookieId
    state: BookieState
    #: Grows with each start; an answer of an older boot says nothing about this one's disk.
    boot_epoch: int
    version: str
    total_bytes: int
    free_bytes: int


class Replies(Protocol):
    """Where the outcomes of one stream's requests go: exactly one for each number.

    May be called at any later time, from the loop's thread only. After the stream's end the calls
    do nothing: what was written stays written.
    """

    def acked(self, numbers: Sequence[int]) -> None:
        """It is on disk."""
        ...

    def refused(self, number: int, error: errors.ProtocolError) -> None:
        """It is not acknowledged, and the error says whether it may be there nevertheless."""
        ...


class BookieService(Protocol):
    """A bookie, as its clients can use it."""

    @property
    def boot_epoch(self) -> int:
        """See ``BookieInfo.boot_epoch``."""
        ...

    def append(self, items: Sequence[carriers.Request], replies: Replies) -> None:
        """Take the requests of one carrier, in order; never blocks, answers later.

        An opening is noted durably, and refused with a wrong key; a fenced ledger is opened, too,
        for a recovery writes to it. The ledgers of frames and LACs were opened on this stream, and
        their checksums are right. A frame with the recovery flag may go to a fenced ledger.
        """
        ...

    async def read(self, request: ReadRequest) -> ReadReply:
        """Give what is here of a range, or NoSuchLedger, or an error that says: unknown.

        Uncertain of an entry, stop before it; raise if that leaves nothing to say.
        """
        ...

    async def fence(self, ledger_id: LedgerId, master_key: MasterKey) -> LacEvidence:
        """Fence, known ledger or not, durably before the answer."""
        ...

    async def read_lac(self, ledger_id: LedgerId) -> LacEvidence:
        """Say what is known of the LAC, and change nothing."""
        ...

    async def force(self, ledger_id: LedgerId) -> None:
        """Return once what was acknowledged for the ledger is on disk."""
        ...

    def tail(self, request: TailRequest) -> AsyncGenerator[TailUpdate, None]:
        """Send updates until the caller closes the iterator; keep to ``quiet_ms``."""
        ...

    async def list_entries(self, request: ListEntriesRequest) -> EntryRanges:
        """List what is here, or raise if that is not known for sure."""
        ...

    async def info(self) -> BookieInfo:
        """Speak about itself."""
        ...

    async def set_read_only(self, *, read_only: bool) -> None:
        """Take no more appends, or take them again; stays over a restart."""
        ...

    async def end_limbo(self, ledger_id: LedgerId, boot_epoch: int) -> None:
        """Answer for a ledger again, durably, and leave it fenced; out of limbo, nothing changes.

        Who asks has made sure of it: the ledger was recovered if it was open, and what belongs
        here of it was written here again. Then, and not before, is what is not here a "no".
        ``boot_epoch`` says in which start that was so. In another one the disk may be another one,
        too, and knows nothing of it: StartedAgain, and nothing is changed.
        """
        ...

    async def compact(self, *, major: bool) -> None:
        """Start a compaction, unless one is running; returns once it has started."""
        ...
