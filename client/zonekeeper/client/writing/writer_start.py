"""The start of a writer: the state of its ledger, and the limits of its work. Pure."""

from dataclasses import dataclass

from zonekeeper.placement.base.ids import NO_ENTRY, BookieId, EntryId, ZoneName
from zonekeeper.wire.lanes import coalescing


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterLimits:
    """The limits of a writer."""

    budget_bytes: int
    #: The longest time from taking a batch to its acknowledgement.
    add_timeout_ms: int
    #: A batch that is not full is taken only while fewer batches than this wait for their acks. A
    #: batch that is not taken grows meanwhile.
    in_flight_max: int = coalescing.IN_FLIGHT_MAX
    #: The same limit for full batches. A full batch gains nothing by waiting, and so many of them
    #: fill the carriers.
    full_in_flight_max: int = 4 * coalescing.IN_FLIGHT_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterStart:
    """The point where a writer begins: after the entries that exist, in the last fragment."""

    fragment_first: EntryId
    ensemble: tuple[BookieId, ...]
    zones: tuple[ZoneName | None, ...]
    confirmed: EntryId = NO_ENTRY
    length: int = 0
    #: Does a recovery write?
    recovery: bool = False
    #: Deferred sync: may bookies acknowledge before they sync? They are then forced.
    deferred: bool = False
