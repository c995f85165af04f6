"""Why ``zonekeeper ledger tail`` gives nothing, reported when trouble has lasted some seconds.

A reader that follows a ledger tries again whatever may succeed later, and tells it to its log only.
The user of a tail that stands still must see the cause. A ledger that gets no new entries is no
trouble, and is not reported.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from zonekeeper.client.api import reader

#: Trouble that is over sooner is not reported.
PATIENCE_S: Final = 3.0
#: At most this many causes are reported until entries come.
CAUSES_MAX: Final = 16


class TailTrouble(logging.Handler):
    """A log handler for what a reader tries again: reports each cause once, until entries come."""

    def __init__(self, tell: Callable[[str], None], clock: Callable[[], float]) -> None:
        super().__init__(logging.WARNING)
        self._tell = tell
        self._clock = clock
        #: The time of the first trouble since entries last came; None: there was none.
        self._since_s: float | None = None
        self._told: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Take the log record of an attempt that failed."""
        now_s = self._clock()
        if self._since_s is None:
            self._since_s = now_s
        cause = record.getMessage()
        if now_s - self._since_s < PATIENCE_S or cause in self._told:
            return
        if len(self._told) < CAUSES_MAX:
            self._told.add(cause)
            self._tell(f"trying again: {cause}")

    def over(self) -> None:
        """Note that entries have come."""
        self._since_s = None
        self._told.clear()


@contextmanager
def heard(tell: Callable[[str], None], clock: Callable[[], float]) -> Iterator[TailTrouble]:
    """Report what readers try again in the block."""
    trouble = TailTrouble(tell, clock)
    logger = logging.getLogger(reader.__name__)
    logger.addHandler(trouble)
    try:
        yield trouble
    finally:
        logger.removeHandler(trouble)
