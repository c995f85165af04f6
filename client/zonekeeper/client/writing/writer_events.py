"""The events and effects of ``writer_core``: two closed sets.

A *term* names one lane: one opening of a fragment on one bookie, for one membership of the
ensemble. A term is never used again. So a late event of an earlier lane, or of a bookie that was
replaced, is known by its term and changes nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NewType, TypeAlias

from zonekeeper.placement.base.ids import BookieId, EntryId, ZoneName
from zonekeeper.wire.formats.errors import ProtocolError
from zonekeeper.wire.formats.frames import Frame

Term = NewType("Term", int)


# ── events ──


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """The application's next entries, to be written as one batch; given only if there is room."""

    payloads: Sequence[bytes]
    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneOpened:
    """The bookie takes frames."""

    term: Term


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRefused:
    """The fragment could not be opened."""

    term: Term
    error: ProtocolError


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """A frame was not put into the lane, and no later frame of the same ``Send`` was."""

    term: Term
    first: EntryId
    error: ProtocolError


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomAgain:
    """A lane that had no room has room again."""

    term: Term


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchAcked:
    """The bookie has its part of a batch on disk; with deferred sync: written."""

    term: Term
    first: EntryId


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The bookie has not acknowledged its part of a batch."""

    term: Term
    first: EntryId
    error: ProtocolError


@dataclass(frozen=True, slots=True, kw_only=True)
class LacAcked:
    """The bookie has this LAC on disk."""

    term: Term
    lac: EntryId


@dataclass(frozen=True, slots=True, kw_only=True)
class LacFailed:
    """The bookie has not acknowledged this LAC, or it was not put into the lane."""

    term: Term
    lac: EntryId
    error: ProtocolError


@dataclass(frozen=True, slots=True, kw_only=True)
class Forced:
    """The bookie has on disk all that it acknowledged in this lane up to this entry."""

    term: Term
    upto: EntryId


@dataclass(frozen=True, slots=True, kw_only=True)
class ForceFailed:
    """A force failed: whether the bookie's entries are on disk is unknown."""

    term: Term
    error: ProtocolError


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """The ensemble that metadata shows now, and the zones of its members."""

    ensemble: tuple[BookieId, ...]
    zones: tuple[ZoneName | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeImpossible:
    """There are no bookies to replace the failed ones; metadata is unchanged."""

    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeUnknown:
    """It is unknown whether metadata shows the new ensemble: repeat ``ChangeEnsemble``."""

    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispossessed:
    """The writer may not write the ledger any more: it is taken, deleted or cannot be changed."""

    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerStands:
    """Metadata shows this writer's ledger, open: a bookie that does not know it has lost it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerGone:
    """The ledger is not this writer's any more: it was deleted, or another client has taken it."""

    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerUnknown:
    """The metadata store gave no answer."""

    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """The zones of bookies as known now; the ensemble's members are among these bookies."""

    zones: Mapping[BookieId, ZoneName | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticked:
    """Time has passed. Wanted about every ``write_session.TICK_MS`` while ``WriterCore.waits``."""

    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoodStill:
    """This process stood still for this time; the time counts against no bookie."""

    late_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FellQuiet:
    """The application has appended nothing for the time ``quiet_ms``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForceWanted:
    """The application wants everything up to this entry on disk; all of it is written already."""

    upto: EntryId


@dataclass(frozen=True, slots=True, kw_only=True)
class LacWanted:
    """The application wants readers to know the present LAC now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LanesWanted:
    """The application wants a lane to each member before it appends."""


#: Events of lanes.
LaneEvent: TypeAlias = (
    LaneOpened
    | LaneRefused
    | Blocked
    | RoomAgain
    | BatchAcked
    | Failed
    | LacAcked
    | LacFailed
    | Forced
    | ForceFailed
)

#: The outcome of ``ChangeEnsemble``: exactly one of these.
ChangeEvent: TypeAlias = Changed | ChangeImpossible | ChangeUnknown | Dispossessed

#: The outcome of ``LookUpLedger``: exactly one of these.
StandingEvent: TypeAlias = LedgerStands | LedgerGone | LedgerUnknown

#: Events of the writer's own side.
OwnEvent: TypeAlias = (
    Taken | Located | Ticked | StoodStill | FellQuiet | ForceWanted | LacWanted | LanesWanted
)

Event: TypeAlias = LaneEvent | ChangeEvent | StandingEvent | OwnEvent


# ── effects ──


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLane:
    """Open the present fragment on a bookie: ``LaneOpened`` or ``LaneRefused`` follows."""

    term: Term
    bookie: BookieId
    first_entry: EntryId
    ensemble: tuple[BookieId, ...]
    #: Was a lane to the bookie open before, in this membership?
    was_open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseLane:
    """Close a lane, which is open or being opened."""

    term: Term


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Put frames into a lane, in order; each is given with the first entry of its batch."""

    term: Term
    frames: tuple[tuple[EntryId, Frame], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SendLac:
    """Tell a bookie the LAC, in a lane."""

    term: Term
    confirmed: EntryId


@dataclass(frozen=True, slots=True, kw_only=True)
class Force:
    """Make a bookie sync what it acknowledged in a lane: ``Forced`` or ``ForceFailed`` follows."""

    term: Term
    upto: EntryId


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeEnsemble:
    """Replace the bookies of these positions, all at once, from ``first_entry`` on.

    One ``ChangeEvent`` answers it. Until then nothing is confirmed.
    """

    first_entry: EntryId
    failed: tuple[tuple[int, BookieId], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LookUpLedger:
    """Read the ledger's metadata: is it still this writer's? One ``StandingEvent`` answers it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmed:
    """Entries up to this one are acknowledged, for good."""

    last: EntryId


@dataclass(frozen=True, slots=True, kw_only=True)
class EntriesWritten:
    """Deferred sync: entries up to this one have an ack quorum that a power loss may undo."""

    last: EntryId


@dataclass(frozen=True, slots=True, kw_only=True)
class LacKnown:
    """Enough bookies know this LAC: every reader that asks hears it."""

    last: EntryId


@dataclass(frozen=True, slots=True, kw_only=True)
class LacUntold:
    """Too few bookies could be told the LAC; the entries stay confirmed."""

    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """This many bytes of the writer's budget are free again."""

    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A bookie failed this ledger: avoid it for a while."""

    bookie: BookieId
    error: ProtocolError


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """The writer has ended; it confirms no further entry.

    ``close``: the ledger still belongs to this writer, and should be closed at the LAC.
    """

    error: Exception
    close: bool


#: Effects on lanes.
LaneEffect: TypeAlias = OpenLane | CloseLane | Send | SendLac | Force

#: Effects that end the waiting of a call of the application.
News: TypeAlias = Confirmed | EntriesWritten | LacKnown | LacUntold

Effect: TypeAlias = LaneEffect | News | ChangeEnsemble | LookUpLedger | Released | Suspect | Stop
