"""Long orders of people about one bookie: what is wanted, how far it is, why it may not be done.

An order that does not fit the present state is refused (``gate.RefusedError``) before anything is
done. An order that was cut short is given again, and goes on where it stopped.
"""

import enum
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from zonekeeper.metadata.bookies.bookie_records import Mark
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.troubles import Trouble
from zonekeeper.placement.zones.losses import Held
from zonekeeper.replication.repair.repair_metrics import RepairTrouble
from zonekeeper.replication.repair.repairing import Repairer
from zonekeeper.replication.view.alerts import Chronicle


class Phase(enum.StrEnum):
    """What is being done."""

    LISTING = "reading all ledgers"
    HELD = "waiting for the gate"
    COPYING = "copying"
    STOPPING = "waiting for the bookie to be stopped"
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderProgress:
    """One look at an order."""

    phase: Phase
    #: Ledgers: dealt with in all, and known to be left in this round.
    done: int = 0
    left: int = 0
    bytes_moved: int = 0
    held: Held | None = None
    #: Ledgers of this round that could not be finished, by why; they are tried again.
    troubles: Counter[RepairTrouble] = field(default_factory=Counter)


Report = Callable[[OrderProgress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What somebody wants done to a bookie."""

    bookie: BookieId
    #: The person and the reason; the timeline gets both.
    by: str
    reason: str
    wall_ms: Callable[[], int]
    report: Report

    def mark(self) -> Mark:
        """Give it as a bookie's record keeps it."""
        return Mark(at_ms=self.wall_ms(), by=self.by, reason=self.reason)

    async def note(self, repairer: Repairer, kind: str) -> None:
        """Put into the cluster's timeline that it was begun, or carried out."""
        chronicle = Chronicle(
            repairer.cluster, by=self.by, chance=repairer.chance, wall_ms=self.wall_ms
        )
        await chronicle.write(kind, f"bookie {self.bookie}", self.reason)


class NotEmptiedError(Trouble):
    """Ledgers are left that nothing but people can help; what was done stays done."""

    retryable = True
    maybe_applied = True
