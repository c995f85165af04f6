"""What the replicators of one process count: for metrics, for tests, and for the bill."""

import enum
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from zonekeeper.placement.base.troubles import Trouble
from zonekeeper.replication.decisions.copy_plan import Cause
from zonekeeper.wire.formats.exposition import number, numbers_by


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

    bytes_moved: Counter[Route] = numbers_by(
        "Bytes of packets that were copied, by the zones from and to, and the cause."
    )
    ledgers_repaired: int = number("Ledgers that were finished after copies were made again.")
    ledgers_respread: int = number(
        "Ledgers that were finished after copies were moved to spread them better."
    )
    marks_stale: int = number("Marked ledgers that were finished without any work.")
    failed: Counter[RepairTrouble] = numbers_by(
        "Obstacles that attempts met, by trouble, without holds and graces."
    )
    ledgers_recovered: int = number("Open ledgers that were fenced and closed.")
    fragments_swapped: int = number("Fragments in which a copy was replaced.")
    limbos_ended: int = number("Pairs of a ledger and a bookie whose limbo for it was ended.")
    under_way_now: int = number("Ledgers that are worked on under a claim.")
    waiting_now: Counter[RepairTrouble] = numbers_by(
        "Marked ledgers that are left for later, by trouble."
    )

    @property
    def all_bytes_moved(self) -> int:
        """Bytes over all routes."""
        return self.bytes_moved.total()
