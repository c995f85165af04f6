"""What ``zonekeeper ledger tail`` waits for, said when it has waited for some seconds.

A reader that follows a ledger is patient: what may succeed later it tries again until it does, and
tells that to its log only. Whoever sits before a tail that stands still must know why. A ledger to
which nobody appends is no trouble, and nothing is said of it.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from zonekeeper.client.api import reader

#: Trouble that is over by then is not worth a word.
PATIENCE_S: Final = 3.0
#: Who was told of so many causes knows enough.
CAUSES_MAX: Final = 16


class TailTrouble(logging.Handler):
    """Hears what a reader tries again; tells each cause once, until there is progress."""

    def __init__(self, tell: Callable[[str], None], clock: Callable[[], float]) -> None:
        super().__init__(logging.WARNING)
        self._tell = tell
        self._clock = clock
        #: When the first trouble was heard of, since entries came last.
        self._since_s: float | None = None
        self._told: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Hear of one more attempt that failed."""
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
        """Hear that entries have come."""
        self._since_s = None
        self._told.clear()


@contextmanager
def heard(tell: Callable[[str], None], clock: Callable[[], float]) -> Iterator[TailTrouble]:
    """Listen to what readers try again."""
    trouble = TailTrouble(tell, clock)
    logger = logging.getLogger(reader.__name__)
    logger.addHandler(trouble)
    try:
        yield trouble
    finally:
        logger.removeHandler(trouble)
