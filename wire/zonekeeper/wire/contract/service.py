"""The service of a bookie for its clients: the contract, in domain values.

A bookie implements ``BookieService``. ``serving`` and a transport bring requests to it.
``links.BookieLink`` is the same contract as a client sees it. This module does not know gRPC.

An answer is yes, no, or an error of ``wire.formats.errors``. A bookie that is not sure (a ledger in
limbo, a failed read) raises an error, and never answers "there is no such entry". These errors
cross the wire unchanged. Any other exception is a bug of the bookie.

A ledger with a password has a secret key. A caller that wants something of the ledger shows it
(``formats.proofs``): a client gives its link the key, the link sends a proof where the bookie has
given it a nonce, and the host gives the bookie that proof.
"""

import enum
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.wire.formats import carriers, errors
from zonekeeper.wire.formats.frames import Frame
from zonekeeper.wire.formats.proofs import Shown


@dataclass(frozen=True, slots=True, kw_only=True)
class LacEvidence:
    """The evidence of a ledger's LAC at a bookie: packets, whose digests the client checks.

    Both are None if the bookie is sure that it has nothing of the ledger.
    """

    #: The LAC packet of the last explicit LAC; None if there was none.
    explicit_lac: bytes | None
    #: The packet of the highest entry that the bookie has; None if it has none.
    last_entry: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """Read ``first, first + step, ...`` up to ``last``: with E > Qw a bookie's share."""

    ledger_id: LedgerId
    first_entry_id: EntryId
    last_entry_id: EntryId
    step: int = 1
    #: The answer stops at about this many bytes of packets, but has at least one entry.
    bytes_max: int
    #: What shows the ledger's key, for a read that fences: the bookie then fences the ledger before
    #: it reads, and durably before it answers. Each read of a recovery must do so. None for a plain
    #: read.
    fence_key: Shown | None = field(default=None, repr=False)
    #: What shows the ledger's key, for a plain read.
    key: Shown | None = field(default=None, repr=False)
    #: The ledger's create token; 0: not known. A bookie that has another ledger under this id
    #: answers ``LedgerDeleted``. So does, to a read with a key, one that has collected the ledger.
    create_token: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadReply:
    """The entries that a bookie has of those asked for, up to where it stopped.

    The answer covers the requested entries before ``next_entry_id``: an entry of these that is in
    no frame is certainly not here, and was never acknowledged. About later entries the answer says
    nothing.
    """

    frames: tuple[Frame, ...]
    next_entry_id: EntryId
    #: The highest LAC that this bookie has been told; None if it does not say (a fencing read).
    last_add_confirmed: EntryId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TailRequest:
    """Follow a ledger from an entry on."""

    ledger_id: LedgerId
    #: The first entry that the reader does not have.
    first_entry_id: EntryId
    bytes_max: int
    #: The bookie sends an update at least this often, even without news. No update is a failure.
    quiet_ms: int
    key: Shown | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TailUpdate:
    """The LAC that the bookie knows, and confirmed entries that it has not sent before."""

    last_add_confirmed: EntryId
    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListEntriesRequest:
    """Ask for one page of the entries of a ledger that the bookie has."""

    ledger_id: LedgerId
    first_entry_id: EntryId
    ranges_max: int
    key: Shown | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryRanges:
    """Maximal runs of entries, ascending; each has its first and its last entry."""

    ranges: tuple[tuple[EntryId, EntryId], ...]
    #: No run follows. If False, the next page begins behind the last run.
    complete: bool


class BookieState(enum.Enum):
    """The state of a bookie: does it take new data?"""

    STARTING = "starting"
    WRITABLE = "writable"
    READ_ONLY = "read-only"
    DRAINING = "draining"


@dataclass(frozen=True, slots=True, kw_only=True)
class BookieInfo:
    """The answer of a bookie about itself."""

    bookie_id: BookieId
    state: BookieState
    #: Greater at each start. An answer of an earlier boot says nothing about the disk of this one.
    boot_epoch: int
    version: str
    total_bytes: int
    free_bytes: int


class Replies(Protocol):
    """Takes the outcomes of one stream's requests: exactly one for each number.

    The methods may be called at any later time, but only from the loop's thread. After the end of
    the stream they do nothing: what was written stays written.
    """

    @property
    def peer(self) -> object:
        """The stream; the same object for all its requests, and for no other stream."""
        ...

    def acked(self, numbers: Sequence[int]) -> None:
        """Note that these requests are on disk."""
        ...

    def refused(self, number: int, error: errors.ProtocolError) -> None:
        """Note that a request is not acknowledged; the error says whether it may be applied."""
        ...


class BookieService(Protocol):
    """A bookie, as its clients can use it."""

    @property
    def bookie_id(self) -> BookieId:
        """The bookie's id."""
        ...

    @property
    def boot_epoch(self) -> int:
        """See ``BookieInfo.boot_epoch``."""
        ...

    async def owner(self, ledger_id: LedgerId, *, also_unknown: bool, create_token: int = 0) -> str:
        """Give the principal that a ledger belongs to; "": it has no owner.

        What is not known here is read in the metadata store; raises MetadataAway or LedgerDeleted.
        Of a ledger of which nothing is here there is nothing to protect, and the answer is "",
        unless ``also_unknown``: the request that follows, a fence, would leave something here. If
        that means another ledger under this id (``create_token``), the answer is "", too: the fence
        is refused by that, and by it the bookie learns that its own ledger was perhaps deleted.
        """
        ...

    def append(self, items: Sequence[carriers.Request], replies: Replies) -> None:
        """Take the requests of one carrier, in order; never blocks, and answers later.

        An opening is stored durably before it is acknowledged, and is refused if its key is wrong.
        A fenced ledger can be opened too, because a recovery writes to it. The host has made sure
        that the ledgers of frames and LACs were opened on this stream, and that checksums are
        right. A frame with the recovery flag may be written to a fenced ledger. An opening with a
        judge is decided only once its judge was told the ledger's owner.
        """
        ...

    async def read(self, request: ReadRequest) -> ReadReply:
        """Give the entries of a range that are here, or raise NoSuchLedger, or an unknown error.

        A bookie that is not certain about an entry stops before it. If nothing is left to answer,
        it raises.
        """
        ...

    async def fence(
        self, ledger_id: LedgerId, master_key: Shown, create_token: int = 0
    ) -> LacEvidence:
        """Fence a ledger, known or unknown, durably before the answer."""
        ...

    async def read_lac(self, ledger_id: LedgerId, key: Shown | None = None) -> LacEvidence:
        """Give what is known of the LAC, and change nothing."""
        ...

    async def force(self, ledger_id: LedgerId, key: Shown | None = None) -> None:
        """Return once every acknowledged entry of the ledger is on disk."""
        ...

    def tail(self, request: TailRequest) -> AsyncGenerator[TailUpdate, None]:
        """Send updates until the caller closes the iterator, each within ``quiet_ms``."""
        ...

    async def list_entries(self, request: ListEntriesRequest) -> EntryRanges:
        """List the entries that are here, or raise if that is not known for certain."""
        ...

    async def info(self) -> BookieInfo:
        """Give the bookie's state."""
        ...

    async def set_read_only(self, *, read_only: bool) -> None:
        """Refuse appends, or take them again; the setting outlives a restart."""
        ...

    async def end_limbo(self, ledger_id: LedgerId, boot_epoch: int) -> None:
        """End a ledger's limbo, durably; the ledger stays fenced. Without limbo nothing changes.

        The caller must have made sure of two things. The ledger was recovered if it was open. And
        every entry of it that belongs here was written here again. Only then may this bookie deny
        an entry that it does not have. ``boot_epoch`` is that of the start in which this was true.
        In another start the disk may be another one, and may lack those entries: then StartedAgain
        is raised, and nothing is changed. The bookie reads a repair's voucher for that start in the
        metadata store itself. Without one it raises NotVouched; if it cannot read, MetadataAway.
        """
        ...

    async def compact(self, *, major: bool) -> None:
        """Start a compaction, unless one is running; return once it has started."""
        ...
