"""How long the replicator has waited for fragments that may still grow.

A writer that lost a bookie has a grace to replace it. The grace is counted from when this process
first saw that very fragment in need. A newer last fragment has a grace of its own.

A bounded number of ledgers is waited for at a time. A ledger keeps its place until it had its turn:
until it is asked for after the end of its grace. Then it makes room for another. A ledger for which
``now - asked >= FORGOTTEN_AFTER_S`` makes room, too: another replicator has probably repaired it.
Only the ledger that was asked for longest ago can make room. So every ledger gets its turn, however
many there are, and however long it takes to ask for each of them.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from zonekeeper.metadata.formats.ledger_metadata import Fragment
from zonekeeper.placement.base.ids import LedgerId

GRACES_MAX: Final = 10_000
FORGOTTEN_AFTER_S: Final = 3_600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wait:
    fragment: Fragment
    since_s: float
    asked_s: float
    had_turn: bool


class Graces:
    """The fragments that one process waits for."""

    def __init__(self, most: int = GRACES_MAX) -> None:
        self._most = most
        #: ``len(_waits) <= most``. The ledger that was asked for longest ago is the first.
        self._waits: OrderedDict[LedgerId, _Wait] = OrderedDict()

    def over(self, ledger_id: LedgerId, fragment: Fragment, *, grace_ms: int, now_s: float) -> bool:
        """Say whether the grace of a fragment in need is over; begin to count if it is new.

        A new ledger for which there is no room is not counted yet: its grace is not over.
        """
        known = self._waits.pop(ledger_id, None)
        if known is None and not self._has_room(now_s):
            return False
        since_s = now_s if known is None or known.fragment != fragment else known.since_s
        over = (now_s - since_s) * 1_000 >= grace_ms
        self._waits[ledger_id] = _Wait(
            fragment=fragment, since_s=since_s, asked_s=now_s, had_turn=over
        )
        return over

    def forget(self, ledger_id: LedgerId) -> None:
        """Stop waiting for a ledger's writer."""
        self._waits.pop(ledger_id, None)

    def _has_room(self, now_s: float) -> bool:
        if len(self._waits) < self._most:
            return True
        oldest = next(iter(self._waits))
        wait = self._waits[oldest]
        if not wait.had_turn and now_s - wait.asked_s < FORGOTTEN_AFTER_S:
            return False
        del self._waits[oldest]
        return True
