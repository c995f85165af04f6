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

    #: The repair of the copy is held.
    HELD = "held"
    #: Its last fragment may still grow: its writer has a grace to replace the lost bookie.
    OPEN = "open"
    #: No bookie may take the copy.
    NO_TARGET = "no-target"
    #: No bookie that may have an entry gave it, or a bookie to be looked at did not answer.
    NO_SOURCE = "no-source"
    #: Every bookie of its write set denies an entry that was acknowledged.
    ENTRY_LOST = "entry-lost"
    #: Copies without a digest differ, and it is unknown which one is right.
    COPIES_DIFFER = "copies-differ"
    #: A newcomer of every ensemble that was tried failed.
    TARGETS_FAILED = "targets-failed"
    #: The ledger or a bookie changed during the attempt. The next one starts from the new state.
    OVERTAKEN = "overtaken"
    RECOVERY_FAILED = "recovery-failed"
    #: The ledger's metadata or its mark cannot be read or written.
    METADATA = "metadata"


class RepairStoppedError(Trouble):
    """The repair of a fragment, or the recovery of its ledger, is not complete.

    What was swapped before stays swapped.
    """

    def __init__(self, trouble: RepairTrouble, text: str) -> None:
        super().__init__(text)
        self.trouble = trouble


class Route(NamedTuple):
    """The zones that bytes went from and to, and the cause; an unknown zone is ``unknown``."""

    source: str
    target: str
    cause: Cause


@dataclass(slots=True)
class RepairMetrics:
    """Numbers that only grow, except those that end in ``_now``."""

    #: Bytes of packets, counted once for each target.
    bytes_moved: Counter[Route] = field(default_factory=Counter)
    #: Ledgers that were finished for the bookies of their mark, after copies were made again.
    ledgers_repaired: int = 0
    #: Ledgers that were finished after copies were moved to spread them better.
    ledgers_respread: int = 0
    #: Marked ledgers that were finished without any work.
    marks_stale: int = 0
    #: The obstacles that attempts met, by trouble, without holds and graces.
    failed: Counter[RepairTrouble] = field(default_factory=Counter)
    ledgers_recovered: int = 0
    fragments_swapped: int = 0
    #: Pairs of a ledger and a bookie whose limbo for it was ended.
    limbos_ended: int = 0
    #: Ledgers that are worked on under a claim.
    under_way_now: int = 0
    #: Marked ledgers that are left for later, by trouble.
    waiting_now: Counter[RepairTrouble] = field(default_factory=Counter)

    @property
    def all_bytes_moved(self) -> int:
        """Bytes over all routes."""
        return self.bytes_moved.total()
