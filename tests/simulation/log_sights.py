"""What is seen of a log in a simulated world: one part of the history.

Each message carries the name of the writer that appended it, and a number, so no two are alike.
"""

from dataclasses import dataclass
from typing import TypeAlias


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
    """A person is about to have all messages before this one forgotten."""

    sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFailed:
    """An actor got an error from a log; ``error`` is its kind."""

    who: str
    error: str
    retryable: bool


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
)
