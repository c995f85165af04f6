"""What a ledger's writer hears, and what it wants done: the two closed sets of ``writer_core``.

A *term* names one lane: one opening of a fragment on one bookie, for one membership of the
ensemble. Terms are never used again, so whatever comes late from a lane, or from a bookie that was
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
    """The application's next entries, to be written as one batch; only when there is room."""

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
    """A frame was not put into the lane, nor any of those that should have followed it."""

    term: Term
    first: EntryId
    error: ProtocolError


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomAgain:
    """A lane that had no room has some."""

    term: Term


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchAcked:
    """The bookie has its part of a batch on disk, or (deferred sync) written."""

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
    """What the bookie had acknowledged in this lane, up to this entry, is on its disk."""

    term: Term
    upto: EntryId


@dataclass(frozen=True, slots=True, kw_only=True)
class ForceFailed:
    """Nobody knows whether it is."""

    term: Term
    error: ProtocolError


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """The ensemble that metadata shows now, and where its members stand."""

    ensemble: tuple[BookieId, ...]
    zones: tuple[ZoneName | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeImpossible:
    """No bookies can be had in the place of those that failed; metadata is as it was."""

    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeUnknown:
    """Nobody knows whether metadata shows the new ensemble: it has to be asked for again."""

    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispossessed:
    """Metadata says that the ledger is no longer this writer's, or it is not there at all."""

    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """Where bookies stand, as it is known now; members of the ensemble among them."""

    zones: Mapping[BookieId, ZoneName | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticked:
    """Time has passed. Wanted about once a second while ``WriterCore.waits``."""

    now_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoodStill:
    """This process did nothing for so long: that time is nobody's fault."""

    late_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FellQuiet:
    """The application has appended nothing for a while."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForceWanted:
    """The application wants everything up to this entry on disk; all of it is written."""

    upto: EntryId


@dataclass(frozen=True, slots=True, kw_only=True)
class LacWanted:
    """The application wants readers to know now how far the ledger is confirmed."""


#: What comes of lanes.
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

#: What comes of ``ChangeEnsemble``: one of these, once.
ChangeEvent: TypeAlias = Changed | ChangeImpossible | ChangeUnknown | Dispossessed

#: What comes from the writer's own side.
OwnEvent: TypeAlias = Taken | Located | Ticked | StoodStill | FellQuiet | ForceWanted | LacWanted

Event: TypeAlias = LaneEvent | ChangeEvent | OwnEvent


# ── effects ──


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenLane:
    """Open the present fragment on a bookie: ``LaneOpened`` or ``LaneRefused`` follows."""

    term: Term
    bookie: BookieId
    first_entry: EntryId
    ensemble: tuple[BookieId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseLane:
    """Nothing more is wanted of a lane, open or being opened."""

    term: Term


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Put these into a lane, in order, each with the first entry of its batch."""

    term: Term
    frames: tuple[tuple[EntryId, Frame], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SendLac:
    """Tell a bookie the LAC."""

    term: Term
    confirmed: EntryId


@dataclass(frozen=True, slots=True, kw_only=True)
class Force:
    """Have a bookie sync what it acknowledged in a lane: ``Forced`` or ``ForceFailed`` follows."""

    term: Term
    upto: EntryId


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeEnsemble:
    """Give these positions other bookies, all at once, from ``first_entry`` on.

    Until ``Changed`` or a sibling answers, nothing is confirmed.
    """

    first_entry: EntryId
    failed: tuple[tuple[int, BookieId], ...]


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
    """Enough bookies know that entries up to this one are confirmed: every reader hears it."""

    last: EntryId


@dataclass(frozen=True, slots=True, kw_only=True)
class LacUntold:
    """Too few bookies could be told the LAC; what is confirmed is none the less."""

    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """So many bytes of the writer's budget are free again."""

    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A bookie failed this ledger: avoid it for a while."""

    bookie: BookieId
    error: ProtocolError


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """The writer is over; what is not confirmed never will be, by it.

    ``close``: the ledger is still its own, and had better be closed at the LAC.
    """

    error: Exception
    close: bool


#: What is to be done with lanes.
LaneEffect: TypeAlias = OpenLane | CloseLane | Send | SendLac | Force

#: What those who wait are waiting for.
News: TypeAlias = Confirmed | EntriesWritten | LacKnown | LacUntold

Effect: TypeAlias = LaneEffect | News | ChangeEnsemble | Released | Suspect | Stop
