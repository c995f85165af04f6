"""The lines that a replicator logs of its work: sums, because ledgers are many.

While something is repaired there is a line every ``TOLD_EVERY_S``, and one when all is done. An
obstacle of a ledger is logged when it is met first, and not at each attempt that meets it again.
"""

import logging
from collections.abc import Collection
from typing import Final

from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.replication.repair.repair_metrics import RepairMetrics, RepairTrouble

TOLD_EVERY_S: Final = 60.0
#: For so many ledgers it is remembered which obstacles were logged. Beyond that all is forgotten,
#: and each obstacle is logged once more.
LEDGERS_MAX: Final = 10_000

_logger = logging.getLogger(__name__)


class RepairProgress:
    """Logs what the replicators of one process have done since the last line."""

    def __init__(self, metrics: RepairMetrics) -> None:
        self._metrics = metrics
        self._ledgers = 0
        self._bytes = 0
        #: When the work that was not told yet was seen first; None: all was told.
        self._since_s: float | None = None

    def look(self, now_s: float) -> None:
        """Look after a walk over the marked ledgers."""
        metrics = self._metrics
        ledgers = metrics.ledgers_repaired + metrics.ledgers_respread - self._ledgers
        size_bytes = metrics.all_bytes_moved - self._bytes
        if not (ledgers or size_bytes):
            return
        if self._since_s is None:
            self._since_s = now_s
        at_rest = not metrics.under_way_now
        if not at_rest and now_s - self._since_s < TOLD_EVERY_S:
            return
        waiting = metrics.waiting_now.total()
        took_s = now_s - self._since_s
        _logger.info(
            "repaired %d ledgers, %d bytes copied, in %.1f s; %d wait",
            ledgers,
            size_bytes,
            took_s,
            waiting,
            extra={
                "ledgers": ledgers,
                "size_bytes": size_bytes,
                "duration_ms": round(took_s * 1_000),
            },
        )
        self._ledgers += ledgers
        self._bytes += size_bytes
        self._since_s = None if at_rest else now_s


class ObstacleLines:
    """Logs the obstacles of ledgers, each kind of a ledger once until the ledger is done."""

    def __init__(self) -> None:
        self._told: dict[LedgerId, frozenset[RepairTrouble]] = {}

    def met(self, ledger_id: LedgerId, troubles: Collection[tuple[RepairTrouble, str]]) -> None:
        """Take in the obstacles of an attempt, each with its text."""
        before = self._told.pop(ledger_id, frozenset())
        for trouble, text in troubles:
            if trouble not in before:
                _logger.warning(
                    "%s: %s", trouble, text, extra={"ledger": ledger_id, "trouble": trouble.value}
                )
        if troubles:
            if len(self._told) >= LEDGERS_MAX:
                self._told.clear()
            self._told[ledger_id] = frozenset(trouble for trouble, _ in troubles)
