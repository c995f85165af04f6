"""How fast the queue of marked ledgers becomes shorter, and when it is empty at that pace. Pure.

The pace is that of the last ``WINDOW_MS``. Ledgers that are marked meanwhile make the queue longer,
so a queue that grows has no pace and no end that could be told.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

WINDOW_MS: Final = 60_000
#: Over less time than this a pace is chance.
_SPAN_MS_MIN: Final = 2_000


@dataclass(frozen=True, slots=True)
class QueueLook:
    """How many ledgers were marked at a moment of this process's clock."""

    at_ms: int
    marked: int


@dataclass(frozen=True, slots=True)
class QueuePace:
    """The pace in ledgers a second, and the time until the queue is empty at that pace."""

    ledgers_per_second: float
    eta_ms: int


def kept(looks: Sequence[QueueLook], newest: QueueLook) -> tuple[QueueLook, ...]:
    """Give the looks of the window with the newest; those before the queue grew are left out."""
    if looks and newest.marked > looks[-1].marked:
        return (newest,)
    return (*(one for one in looks if newest.at_ms - one.at_ms <= WINDOW_MS), newest)


def pace(looks: Sequence[QueueLook]) -> QueuePace | None:
    """Give the pace; None: it is not known, or the queue did not become shorter."""
    if not looks:
        return None
    first, last = looks[0], looks[-1]
    done, span_ms = first.marked - last.marked, last.at_ms - first.at_ms
    if done <= 0 or span_ms < _SPAN_MS_MIN:
        return None
    per_second = done * 1000 / span_ms
    return QueuePace(per_second, last.marked * span_ms // done)
