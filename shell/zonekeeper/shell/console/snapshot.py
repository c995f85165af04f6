"""What the console shows of a cluster: one value, and its form as plain data. Pure.

Each part has its own age, because each part comes from another place: zones from the records that
the view follows, bookies' figures from their HTTP pages, the queue from marks in the store. None as
an age means that the part was not read yet. Unknown is None, never zero.
"""

import dataclasses
import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

#: The parts of a snapshot that have an age of their own.
ZONES: Final = "zones"
FIGURES: Final = "figures"
QUEUE: Final = "queue"
TIMELINE: Final = "timeline"


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldPart:
    """What holds a repair: the predicate, in words, and its runbook."""

    by: str
    text: str
    runbook: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BookieFigures:
    """The work of a bookie, or of several, between the last two readings of its metrics."""

    appends_per_second: float | None = None
    append_p99_ms: float | None = None
    reads_per_second: float | None = None
    read_p99_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BookiePart:
    """One bookie."""

    id: str
    #: ``writable``, ``read-only``, ``absent``, or ``unknown`` without the store.
    state: str
    #: What is said of it: restrictions with reason, person and time, holds, slowness.
    remarks: tuple[str, ...] = ()
    draining: bool = False
    written_off: bool = False
    held: HoldPart | None = None
    free_bytes: int | None = None
    total_bytes: int | None = None
    #: Did its HTTP page answer at the last reading? None: it was not asked.
    answers: bool | None = None
    figures: BookieFigures = field(default_factory=BookieFigures)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitPart:
    """One upgrade domain of a zone, with the bookies that are shown of it."""

    upgrade_domain: str
    #: How many bookies it has; of them so many in each state, by the state's name.
    size: int
    states: Mapping[str, int]
    maintenance: str | None
    bookies: tuple[BookiePart, ...]
    #: ``size - len(bookies)``: bookies about which nothing is to be said.
    not_shown: int
    figures: BookieFigures = field(default_factory=BookieFigures)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatePart:
    """The record of a zone or of the cluster: what is observed, and what the gate says."""

    observation: str
    because: str
    since_ms: int | None
    available: int | None
    counted: int | None
    #: The bookies that are not counted, in words; empty if all are.
    not_counted: str
    permission: str
    reason: str
    set_by: str
    permission_since_ms: int | None
    #: Counted time, as of the record's last evaluation.
    held_ms: int
    token: str | None
    evaluation: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ZonePart:
    """One zone."""

    #: None: the bookies whose location is not known.
    zone: str | None
    #: Does the policy name it?
    is_named: bool
    gate: GatePart
    #: What holds the repair of a loss in it; None: nothing, or it is not known yet.
    held: HoldPart | None
    units: tuple[UnitPart, ...]
    size: int
    free_bytes: int | None
    total_bytes: int | None
    figures: BookieFigures = field(default_factory=BookieFigures)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertPart:
    """One alert that stands."""

    about: str
    alert: str
    severity: str
    text: str
    runbook: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePart:
    """What waits for repair, and how fast it becomes less."""

    marked: int
    #: Counting stopped at the limit: there may be more.
    or_more: bool
    #: The ledger and its replicator, of some claims.
    under_repair: tuple[tuple[str, str], ...]
    processes: int
    auditor: str | None
    zone_watch: str | None
    #: By how many ledgers the queue became shorter in a second; None: not known, or it did not.
    ledgers_per_second: float | None
    eta_ms: int | None
    #: What repairs copied in a second, as the processes count it; None: not known.
    bytes_per_second: float | None
    #: What the policy permits all processes together; None: no limit.
    bytes_per_second_max: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPart:
    """One event of the timeline."""

    at_ms: int
    kind: str
    subject: str
    by: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BandPart:
    """A stretch of time in which a zone was in one state; ``from_ms <= to_ms``."""

    #: The observation, and what the gate said; None: the timeline does not say it.
    observation: str | None
    permission: str | None
    from_ms: int
    to_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StorePart:
    """Whether the metadata store can be reached."""

    away: bool = False
    #: Wall time since when it is away.
    since_ms: int | None = None
    trouble: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All that the page shows without being asked."""

    cluster: str
    instance: str | None
    #: How commands name the cluster: ``--metadata …``, word by word.
    place: tuple[str, ...]
    #: How commands that reach bookies name the TLS files.
    tls: tuple[str, ...]
    store: StorePart
    #: What is said of zones was read over HTTP, from an autorecovery process.
    zones_over_http: bool = False
    replication_enabled: bool | None = None
    whole: GatePart | None = None
    zones: tuple[ZonePart, ...] = ()
    bookies: int = 0
    #: The bookies with no remark are left out of the units: there are too many.
    is_aggregated: bool = False
    alerts: tuple[AlertPart, ...] = ()
    warnings: tuple[str, ...] = ()
    queue: QueuePart | None = None
    events: tuple[EventPart, ...] = ()
    bands: Mapping[str, tuple[BandPart, ...]] = field(default_factory=dict)
    figures: BookieFigures = field(default_factory=BookieFigures)


def plain(value: object) -> object:
    """Give a value of this module as plain data: keys in camelCase, infinity as text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else "over"
    if value is None or (isinstance(value, str | int) and not isinstance(value, enum.Enum)):
        return value
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    assert dataclasses.is_dataclass(value), f"not a value of a snapshot: {type(value)}"
    return {_camel(one.name): plain(getattr(value, one.name)) for one in dataclasses.fields(value)}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
