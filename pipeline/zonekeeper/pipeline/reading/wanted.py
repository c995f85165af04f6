"""What a read asks for, as values. Pure."""

import enum
from dataclasses import dataclass
from typing import Final, TypeAlias

from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.placement.base.ids import LedgerId

PARTITIONS_MAX: Final = 10_000
ROWS_PER_BATCH_MAX: Final = 100_000
ROWS_PER_BATCH: Final = 10_000
#: No micro-batch is asked to be larger.
TRIGGER_MAX: Final = (1 << 63) - 1


class ReadEdge(enum.Enum):
    """An end of a log, as it is when the read is planned."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class AtSequence:
    """The message with a sequence."""

    sequence: int


@dataclass(frozen=True, slots=True)
class AtTime:
    """A time, in milliseconds."""

    wall_ms: int


ReadPlace: TypeAlias = ReadEdge | MessageId | AtSequence | AtTime


class OnTrimmed(enum.Enum):
    """What a stream does when what comes next was trimmed away."""

    FAIL = "fail"
    EARLIEST = "earliest"


@dataclass(frozen=True, slots=True, kw_only=True)
class OneLedger:
    """Entries of one closed ledger."""

    ledger: LedgerId
    first: int = 0
    #: None: the ledger's last entry.
    last: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgersInRange:
    """All ledgers with an id of a range; both ends belong to it."""

    first: LedgerId
    last: LedgerId


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgersWith:
    """All ledgers whose custom metadata has a value under a key."""

    key: str
    value: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class OneLog:
    """Messages of one log."""

    name: str
    #: None: the earliest of a frame or of a stream.
    first: ReadPlace | None = None
    #: None: the end of the log as it is when the read is planned.
    last: ReadPlace | None = None
    cursor: str | None = None
    on_trimmed: OnTrimmed = OnTrimmed.FAIL
    max_rows: int | None = None
    max_bytes: int | None = None


Wanted: TypeAlias = OneLedger | LedgersInRange | LedgersWith | OneLog
