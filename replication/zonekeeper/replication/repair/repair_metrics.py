"""What the replicators of one process count: for metrics, for tests, and for the bill."""

import enum
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from zonekeeper.placement.base.troubles import Trouble
from zonekeeper.replication.decisions.copy_plan import Cause


class RepairTrouble(enum.StrEnum):
    """Why a ledger is not repaired yet: a label of the counters."""

    LABEL = enum.nonmember("trouble")

    #: A gate holds it.
    HELD = "held"
    #: Its last fragment may still grow: its writer has a grace to replace the lost bookie.
    OPEN = "open"
    #: No bookie may take the copy.
    NO_TARGET = "no-target"
    #: No bookie that may have an entry gave it.
    NO_SOURCE = "no-source"
    #: Every bookie of its write set denies an entry that was acknowledged.
    ENTRY_LOST = "entry-lost"
    #: Copies without a digest differ, and nobody can say which one is right.
    COPIES_DIFFER = "copies-differ"
    #: Bookie after bookie that was chosen failed.
    TARGETS_FAILED = "targets-failed"
    #: Something changed while it was worked on; the next attempt starts from what is so now.
    OVERTAKEN = "overtaken"
    RECOVERY_FAILED = "recovery-failed"
    #: Its metadata or its mark cannot be read or written.
    METADATA = "metadata"


class RepairStoppedError(Trouble):
    """The repair of a fragment ended before its swap: nothing in metadata has changed."""

    def __init__(self, trouble: RepairTrouble, text: str) -> None:
        super().__init__(text)
        self.trouble = trouble


class Route(NamedTuple):
    """Between which zones bytes went, and why; an unresolved zone is ``unknown``."""

    source: str
    target: str
    cause: Cause


@dataclass(slots=True)
class RepairMetrics:
    """Ever growing numbers, but for those that say ``now``."""

    #: Bytes of packets, once for each target.
    bytes_moved: Counter[Route] = field(default_factory=Counter)
    #: Ledgers that lost copies were made anew for, and those that were spread again.
    ledgers_repaired: int = 0
    ledgers_respread: int = 0
    #: Marks that asked for nothing any more when they were looked at.
    marks_stale: int = 0
    #: Attempts that ended without success, by why.
    failed: Counter[RepairTrouble] = field(default_factory=Counter)
    ledgers_recovered: int = 0
    fragments_swapped: int = 0
    #: Pairs of a ledger and a bookie that answers for it again.
    limbos_ended: int = 0
    under_way_now: int = 0
    #: Marked ledgers that are waited with, by why.
    waiting_now: Counter[RepairTrouble] = field(default_factory=Counter)

    @property
    def all_bytes_moved(self) -> int:
        """Bytes over all routes."""
        return self.bytes_moved.total()
