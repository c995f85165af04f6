"""What a writer begins with: where its ledger stands, and what it allows itself. Pure."""

from dataclasses import dataclass

from zonekeeper.placement.base.ids import NO_ENTRY, BookieId, EntryId, ZoneName
from zonekeeper.wire.lanes import coalescing


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterLimits:
    """What a writer allows itself."""

    budget_bytes: int = 64 << 20
    #: From taking a batch to its acknowledgement.
    add_timeout_ms: int = 60_000
    #: Batches without an acknowledgement; more wait to be taken, and grow meanwhile ...
    in_flight_max: int = coalescing.IN_FLIGHT_MAX
    #: ... but for full ones, which would gain nothing by that: enough of them to fill the carriers.
    full_in_flight_max: int = 4 * coalescing.IN_FLIGHT_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterStart:
    """Where a writer begins: behind the entries that are there, in the last fragment."""

    fragment_first: EntryId
    ensemble: tuple[BookieId, ...]
    zones: tuple[ZoneName | None, ...]
    confirmed: EntryId = NO_ENTRY
    length: int = 0
    recovery: bool = False
    #: Bookies may acknowledge before they sync, and are forced.
    deferred: bool = False
