"""What is seen of a log in a simulated world: one part of the history.

Each message carries the name of the writer that appended it, and a number, so no two are alike.
"""

from dataclasses import dataclass
from typing import TypeAlias

from zonekeeper.metadata.formats.log_record import LogRecord
from zonekeeper.metadata.logs.log_cursor import CursorMark
from zonekeeper.placement.base.ids import LedgerId


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOpened:
    """A writer took the log over, and its next message gets this sequence."""

    who: str
    first: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogAppended:
    """A writer gave a message a sequence; whether it gets into the log is open."""

    who: str
    sequence: int
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStored:
    """A writer was told that everything that it appended up to here is in the log for good."""

    who: str
    upto: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFlushed:
    """A writer was told that whoever looks from now on sees this message, and its id."""

    who: str
    sequence: int
    id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogAsked:
    """A reader begins to read: from a sequence on, or from the earliest message."""

    handle: str
    sequence: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogGot:
    """A reader got a message; ids are spelled so that they sort."""

    handle: str
    sequence: int
    id: bytes
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEndSeen:
    """A reader was told that there is no more at present."""

    handle: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTrimWanted:
    """A person is about to have messages forgotten: those before a sequence, or any (None)."""

    sequence: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFailed:
    """An actor got an error from a log; ``error`` is its kind."""

    who: str
    error: str
    retryable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRecorded:
    """The store has another record of the log; None: it has none."""

    record: LogRecord | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLedgerGone:
    """A ledger that was made for an incarnation of the log, at an epoch, is deleted."""

    ledger: LedgerId
    log: str | None
    epoch: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLedgerSwept:
    """The log keeper is about to delete such a ledger."""

    ledger: LedgerId
    log: str | None
    epoch: int | None
    #: The query and its batch that the ledger was made for, if it was.
    batch: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryWrote:
    """A query is about to write a batch, which always has these messages."""

    query: str
    batch: int
    values: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPublished:
    """A query was told that its batch is in the log; ``values`` as it came in, from a sequence on.

    ``sequence`` None: it was in the log before.
    """

    query: str
    batch: int
    log: str
    sequence: int | None
    values: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryAborted:
    """A job was told that nothing of it will come in, if it was not published before."""

    query: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorRecorded:
    """The store has another mark of the cursor; None: it has none."""

    mark: CursorMark | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorWanted:
    """A consumer is about to set its cursor: forward to a sequence, or anywhere (``seeks``).

    ``sequence`` None: the consumer does not know where that is.
    """

    who: str
    sequence: int | None
    seeks: bool


LogSight: TypeAlias = (
    LogOpened
    | LogAppended
    | LogStored
    | LogFlushed
    | LogAsked
    | LogGot
    | LogEndSeen
    | LogTrimWanted
    | LogFailed
    | LogRecorded
    | LogLedgerGone
    | LogLedgerSwept
    | QueryWrote
    | QueryPublished
    | QueryAborted
    | CursorRecorded
    | CursorWanted
)
