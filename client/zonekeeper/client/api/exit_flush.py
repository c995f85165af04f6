"""The normal end of a process waits for what its blocking clients have appended.

A process may end inside the block of a blocking client: at the end of a notebook, or with a block
that stands in an ``ExitStack`` or a generator. Entries and messages that are on their way then
would be lost. So the end of the process waits for their acknowledgements, at most ``AT_EXIT_S`` for
all blocks together. Those that have none by then are named by a line of the log and by a
ResourceWarning.

The block that was entered last is flushed first: a log's messages become entries of ledgers.

``atexit`` calls this after the functions that the application registered, and before the
interpreter stops the loop's thread. It is not called when the process is killed. A forked child
waits for nothing: its parent has the clients.
"""

import atexit
import logging
import time
import warnings
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

from zonekeeper.client.api.loop_thread import Calls

AT_EXIT_S: Final = 5.0

_logger = logging.getLogger(__name__)

#: What has no acknowledgement: for each ledger or log, and what it has, the numbers of these.
Lacking: TypeAlias = dict[tuple[str, str], range]
#: Waits so many seconds at most, and gives what is not acknowledged then.
Flush: TypeAlias = Callable[[float], Coroutine[None, None, Lacking]]

#: The blocks that were not left. Each use is one step of the interpreter, so that code which drops
#: a block needs no lock.
_OPEN: Final[dict[int, tuple[Flush, Calls]]] = {}


@contextmanager
def watched(flush: Flush, calls: Calls) -> Iterator[None]:
    """Flush if the process ends inside the block."""
    _OPEN[id(calls)] = flush, calls
    try:
        yield
    finally:
        _OPEN.pop(id(calls), None)


def _flush() -> None:
    end_s = time.perf_counter() + AT_EXIT_S
    for flush, calls in reversed(list(_OPEN.values())):
        left_s = max(end_s - time.perf_counter(), 0.0)
        lacking = calls.do_at_exit(lambda: flush(left_s), left_s)  # noqa: B023 it is called at once
        for (where, what), numbers in lacking.items():
            said = (
                f"{where}: the process ends, and {what} {numbers[0]} to {numbers[-1]} "
                "were appended and not acknowledged: they may be lost; flush or close the writer "
                "before the process ends"
            )
            _logger.warning("%s", said)
            warnings.warn(said, ResourceWarning, stacklevel=1)


atexit.register(_flush)
