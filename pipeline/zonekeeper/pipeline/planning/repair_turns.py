"""Which marked ledger of a task is tried next, and when one is left as it is. Pure.

Every ledger is tried once. What came of that says how it goes on:

- A ledger that another process has claimed is tried again, until ``claim_wait_s`` after that was
  seen first. A claim of a process that has died ends with its session, which is sooner. Later the
  other process lives, and the ledger is left to it.
- A ledger that is held is tried again, less and less often, as long as the hold lasts. A ledger
  whose hold was there from the start is left.
- A ledger whose writer has a grace is tried again until ``open_wait_s`` after that was seen first.
- A trouble that a retry may cure is tried ``TRIES_MAX`` times. Any other trouble is left.

The number of ledgers that wait is that of the task's ledgers, at most.
"""

import enum
import heapq
from collections import deque
from collections.abc import Iterable, Set
from dataclasses import dataclass
from typing import Final

from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.replication.repair.repair_metrics import RepairTrouble

TRIES_MAX: Final = 3
#: The pause before a ledger is tried again. A further try of a failure or of a hold waits twice as
#: long, up to ``_PAUSE_MAX_S``.
_PAUSE_S: Final = 1.0
_PAUSE_MAX_S: Final = 30.0
_DOUBLINGS_MAX: Final = 16
#: Troubles that a retry does not cure before a person has done something.
_FINAL: Final = frozenset(
    {RepairTrouble.NO_TARGET, RepairTrouble.ENTRY_LOST, RepairTrouble.COPIES_DIFFER}
)


class TurnVerdict(enum.Enum):
    """What becomes of a ledger."""

    #: Nothing is left to do.
    DONE = enum.auto()
    #: It is tried again.
    LATER = enum.auto()
    #: It stays marked.
    LEFT = enum.auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class MetNow:
    """What a try of a ledger met; nothing: it is done."""

    troubles: Set[RepairTrouble] = frozenset()
    #: Another process has the claim, or more was lost meanwhile.
    again: bool = False
    #: All that is held was held when the job was planned.
    held_before: bool = False


@dataclass(slots=True)
class _Waiting:
    first_s: float
    tries: int = 0
    holds: int = 0


class RepairTurns:
    """The turns of one task."""

    def __init__(self, ids: Iterable[LedgerId], *, claim_wait_s: float, open_wait_s: float) -> None:
        self._fresh = deque(ids)
        self._claim_wait_s = claim_wait_s
        self._open_wait_s = open_wait_s
        #: By the time at which they are tried again.
        self._later: list[tuple[float, LedgerId]] = []
        self._waiting: dict[tuple[LedgerId, RepairTrouble | None], _Waiting] = {}

    def take(self, now_s: float) -> LedgerId | None:
        """Give the ledger that is tried now; None: there is none now."""
        if self._fresh:
            return self._fresh.popleft()
        if self._later and self._later[0][0] <= now_s:
            return heapq.heappop(self._later)[1]
        return None

    def pause_s(self, now_s: float) -> float | None:
        """Say how long until a ledger is tried again; None: no ledger waits for its turn."""
        if self._fresh:
            return 0.0
        return max(0.0, self._later[0][0] - now_s) if self._later else None

    def came(self, ledger_id: LedgerId, met: MetNow, now_s: float) -> TurnVerdict:
        """Take in what came of a try."""
        trouble = _worst(met.troubles)
        if trouble is None and not met.again:
            return TurnVerdict.DONE
        waiting = self._waiting.setdefault((ledger_id, trouble), _Waiting(now_s))
        since_s = now_s - waiting.first_s
        pause_s = _PAUSE_S
        if trouble is None:
            left = since_s >= self._claim_wait_s
        elif trouble is RepairTrouble.HELD:
            left = met.held_before
            pause_s = _doubled(waiting.holds)
            waiting.holds += 1
        elif trouble is RepairTrouble.OPEN:
            left = since_s >= self._open_wait_s
        else:
            pause_s = _doubled(waiting.tries)
            waiting.tries += 1
            left = trouble in _FINAL or waiting.tries >= TRIES_MAX
        if left:
            return TurnVerdict.LEFT
        heapq.heappush(self._later, (now_s + pause_s, ledger_id))
        return TurnVerdict.LATER


def _worst(troubles: Set[RepairTrouble]) -> RepairTrouble | None:
    """Give the trouble that decides: a failure before a grace, a grace before a hold."""
    waits = (RepairTrouble.OPEN, RepairTrouble.HELD)
    failures = sorted(troubles - set(waits), key=lambda one: (one not in _FINAL, one.value))
    return next(iter([*failures, *(one for one in waits if one in troubles)]), None)


def _doubled(times: int) -> float:
    return min(_PAUSE_MAX_S, _PAUSE_S * 2.0 ** min(times, _DOUBLINGS_MAX))
