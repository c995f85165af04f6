"""What is seen of a simulated world, as a list of events: all that the checker knows.

Applications record what they asked for and what they were told; an observer, which sees everything,
adds what stands in the metadata store and on the disks at that moment. Entries carry their ledger,
writer and number in their payload, so that two of them are compared by their bytes.

``copies`` of an entry: how many bookies of the write set that metadata shows for it have it on
disk, as seen by the observer at the moment of the event.
"""

import hashlib
from dataclasses import dataclass
from typing import TypeAlias

from tests.simulation.log_sights import LogSight
from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.placement.zones.gate import Permission


@dataclass(frozen=True, slots=True, kw_only=True)
class Created:
    """A writer was told that its ledger is there, with what it had asked for."""

    ledger: LedgerId
    password: bytes
    digest: Digest
    custom: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """A writer gave an entry an id; whether it gets into the ledger is open."""

    ledger: LedgerId
    entry: EntryId
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Acked:
    """A writer was told that entries up to ``last`` are acknowledged; ``first`` is the new one.

    With deferred sync an entry is acknowledged when it is confirmed, which takes a force: what is
    written before that promises nothing.
    """

    ledger: LedgerId
    first: EntryId
    last: EntryId
    copies: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forced:
    """A writer's wait for acknowledgements returned; ``last`` was appended before it.

    That is a force, and the one that closing begins with; without deferred sync also a flush.
    """

    ledger: LedgerId
    last: EntryId


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A writer was told that a reader that asks from now on gets this LAC."""

    ledger: LedgerId
    last: EntryId


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedByWriter:
    """A writer's close returned."""

    ledger: LedgerId
    last: EntryId


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """A recovery told its caller the end of a ledger."""

    ledger: LedgerId
    last: EntryId


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A handle begins to ask for the LAC."""

    handle: str
    ledger: LedgerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmed:
    """A handle learned a LAC; ``copies`` are those of the entries that are new to this handle."""

    handle: str
    ledger: LedgerId
    first: EntryId
    last: EntryId
    copies: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Got:
    """A handle read an entry, and expected the one with the id ``wanted``."""

    handle: str
    ledger: LedgerId
    wanted: EntryId
    entry: EntryId
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A handle was told that there is nothing more to read; ``following`` would be the next entry.

    ``last`` is what it had asked for. None: all up to the ledger's end, however far it grows.
    """

    handle: str
    ledger: LedgerId
    following: EntryId
    last: EntryId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Glimpsed:
    """A handle read an entry that it knows is not confirmed, and expected the one ``wanted``."""

    handle: str
    ledger: LedgerId
    wanted: EntryId
    entry: EntryId
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """An actor got an error of the client; ``error`` is its kind. No ledger: of a creation."""

    who: str
    ledger: LedgerId | None
    error: str
    retryable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Denied:
    """A reader was told that an entry within the confirmed end does not exist."""

    handle: str
    ledger: LedgerId
    entry: EntryId


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The metadata of a ledger as it stands from now on; None: it was deleted.

    ``copies`` are those of all entries of a closed ledger, and of those of another before its last
    fragment, which began behind what was confirmed.
    """

    ledger: LedgerId
    metadata: LedgerMetadata | None
    copies: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A closed ledger's copies on some bookies were replaced, all in one fragment."""

    ledger: LedgerId
    bookies: tuple[BookieId, ...]
    #: How long the gates of all of them were held; 0: one is open or released.
    held_ms: int
    #: Entries that newcomers should have, and have not.
    lacking: int
    #: Of the members that were there before, and of all members after.
    zones_before: int
    zones_after: int
    #: How long all bookies that leave have been there.
    there_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """A carrier of a repair came to a bookie, for members of a closed ledger that are missing.

    ``held_ms``: the gates of all their zones have been held for so long. ``failing_ms``: all of the
    zones have been failing for so long, and were not released.
    """

    ledger: LedgerId
    bookie: BookieId
    zones: tuple[str, ...]
    size_bytes: int
    held_ms: int
    failing_ms: int
    #: How many there were that came late, this one included, since the hold began.
    carriers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Permitted:
    """A zone's gate, or the cluster's, has another permission."""

    zone: str
    before: Permission
    after: Permission
    by: str
    #: The zone is failing since; 0: it is not.
    failing_ms: int
    #: So long the gate was held.
    held_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """Something that ought to end has lasted so long, without trouble for its process."""

    what: str
    who: str
    for_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What a bookie answers for: told to a client before a crash, or found on its disk after it."""

    bookie: BookieId
    ledger: LedgerId
    entries: frozenset[EntryId]
    confirmed: EntryId
    fenced: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Crashed:
    """A bookie died; what it answered for until then. ``fenced``: it had said so to a client."""

    kept: tuple[Kept, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarted:
    """A bookie came back; what it answers for now."""

    bookie: BookieId
    kept: tuple[Kept, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """When all is over: what a bookie that is still there answers for."""

    kept: tuple[Kept, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Disowned:
    """A bookie denied entries that it had when it was asked, or on the disk that it lost."""

    bookie: BookieId
    ledger: LedgerId
    entries: tuple[EntryId, ...]
    lost: tuple[EntryId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """A bookie forgets a ledger for good."""

    bookie: BookieId
    ledger: LedgerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Mended:
    """The mark of a ledger was removed by the repair that held its claim.

    ``lacking``: the members that have not every entry, and how many they lack. A member is left out
    if it lost a disk since the claim was made, and was not started again. ``in_limbo``: the members
    that the mark named, and that are there and in limbo for the ledger.
    """

    ledger: LedgerId
    lacking: tuple[tuple[BookieId, int], ...]
    in_limbo: tuple[BookieId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SetBack:
    """The metadata store was set back to a backup.

    ``ledgers`` are those that the backup names. ``young`` are those of which perhaps nobody knows
    that they were lost, or that their ids were given out: no bookie has looked at the store since.
    """

    ledgers: tuple[LedgerId, ...]
    young: tuple[LedgerId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Redrawn:
    """An id was given out behind a set-back that no bookie had found yet: it may be given twice."""

    ledger: LedgerId


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskLost:
    """A bookie has lost everything that it ever answered for."""

    bookie: BookieId


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """A person is about to delete a ledger that is closed at this end."""

    ledger: LedgerId
    last: EntryId


@dataclass(frozen=True, slots=True, kw_only=True)
class OfLog:
    """Something was seen of the log."""

    sight: LogSight


@dataclass(frozen=True, slots=True, kw_only=True)
class Broke:
    """Something ended that must not: a process by a bug, or the patience of the liveness phase."""

    what: str


Event: TypeAlias = (
    Created
    | Appended
    | Acked
    | Forced
    | Told
    | ClosedByWriter
    | Recovered
    | Asked
    | Confirmed
    | Got
    | Ended
    | Glimpsed
    | Failed
    | Denied
    | Recorded
    | Moved
    | Copied
    | Permitted
    | Waited
    | Crashed
    | Restarted
    | Looked
    | Disowned
    | Collected
    | Mended
    | SetBack
    | Redrawn
    | DiskLost
    | Deleted
    | OfLog
    | Broke
)


class History:
    """Events in their order, and one number that two equal histories share."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._hash = hashlib.sha256()

    def add(self, event: Event, at_ms: int) -> None:
        """Note an event."""
        self.events.append(event)
        self.trace(f"{at_ms} {_spelled(event)}")

    def trace(self, text: str) -> None:
        """Let something count for the hash that no check looks at, such as a fault."""
        self._hash.update(text.encode())

    @property
    def digest(self) -> str:
        """The hash of everything so far."""
        return self._hash.hexdigest()[:16]


def _spelled(event: Event) -> str:
    """Spell an event, without the order that a frozen set happens to have."""
    if isinstance(event, Crashed | Restarted | Looked):
        return type(event).__name__ + "".join(
            f"{kept.bookie} {kept.ledger} {sorted(kept.entries)} {kept.confirmed} {kept.fenced}"
            for kept in event.kept
        )
    return repr(event)
