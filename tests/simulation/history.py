"""What is seen of a simulated world, as a list of events: all that the checker knows.

Applications record what they asked for and what they were told; an observer, who sees through
walls, adds what stands in the metadata store and on the disks at that moment. Entries carry their
ledger, writer and number in their payload, so that two of them are compared by their bytes.

``copies`` of an entry: how many bookies of the write set that metadata shows for it have it on
disk, as seen by the observer at the moment of the event.
"""

import hashlib
from dataclasses import dataclass
from typing import TypeAlias

from zonekeeper.metadata.ledger_metadata import LedgerMetadata
from zonekeeper.placement.ids import BookieId, EntryId, LedgerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """A writer gave an entry an id; whether it gets into the ledger is open."""

    ledger: LedgerId
    entry: EntryId
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Acked:
    """A writer was told that entries up to ``last`` are acknowledged; ``first`` is the new one."""

    ledger: LedgerId
    first: EntryId
    last: EntryId
    copies: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedByWriter:
    """A writer's close returned."""

    ledger: LedgerId
    last: EntryId


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """A recovery told somebody the end of a ledger."""

    ledger: LedgerId
    last: EntryId


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
class Denied:
    """A reader was told that an entry within the confirmed end does not exist."""

    handle: str
    ledger: LedgerId
    entry: EntryId


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The metadata of a ledger as it stands from now on; None: it was deleted.

    ``copies`` are those of all entries of a closed ledger.
    """

    ledger: LedgerId
    metadata: LedgerMetadata | None
    copies: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A closed ledger's copies on a bookie were replaced, while its zone's gate was held so long.

    ``held_ms`` is 0 where the gate is open or released.
    """

    ledger: LedgerId
    bookie: BookieId
    held_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What a bookie answers for: told to somebody before a crash, or found on its disk after it."""

    bookie: BookieId
    ledger: LedgerId
    entries: frozenset[EntryId]
    confirmed: EntryId
    fenced: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Crashed:
    """A bookie died; what it answered for until then. ``fenced``: it had said so to somebody."""

    kept: tuple[Kept, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarted:
    """A bookie came back; what it answers for now."""

    bookie: BookieId
    kept: tuple[Kept, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Broke:
    """Something ended that must not: a process by a bug, or the patience of the liveness phase."""

    what: str


Event: TypeAlias = (
    Appended
    | Acked
    | ClosedByWriter
    | Recovered
    | Confirmed
    | Got
    | Denied
    | Recorded
    | Moved
    | Crashed
    | Restarted
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
    if isinstance(event, Crashed | Restarted):
        return type(event).__name__ + "".join(
            f"{kept.bookie} {kept.ledger} {sorted(kept.entries)} {kept.confirmed} {kept.fenced}"
            for kept in event.kept
        )
    return repr(event)
