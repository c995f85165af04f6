"""The normal end of a process waits for the entries that its blocking clients have appended.

A process may end inside the block of a blocking client: at the end of a notebook, or with a block
that stands in an ``ExitStack`` or a generator. Entries that are on their way then would be lost. So
the end of the process waits for their acknowledgements, at most ``AT_EXIT_S`` for all clients
together. Entries that have none by then are named by a line of the log and by a ResourceWarning.

``atexit`` calls this after the functions that the application registered, and before the
interpreter stops the loop's thread. It is not called when the process is killed. A forked child
waits for nothing: its parent has the clients.
"""

import atexit
import logging
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from zonekeeper.client.api.client import Client
from zonekeeper.client.api.loop_thread import Calls

AT_EXIT_S: Final = 5.0

_logger = logging.getLogger(__name__)

#: The clients of blocks that were not left. Each use is one step of the interpreter, so that code
#: which drops a block needs no lock.
_OPEN: Final[dict[int, tuple[Client, Calls]]] = {}


@contextmanager
def watched(client: Client, calls: Calls) -> Iterator[None]:
    """Flush the client's writers if the process ends inside the block."""
    _OPEN[id(client)] = client, calls
    try:
        yield
    finally:
        _OPEN.pop(id(client), None)


def _flush() -> None:
    end_s = time.perf_counter() + AT_EXIT_S
    for client, calls in list(_OPEN.values()):
        left_s = max(end_s - time.perf_counter(), 0.0)
        lacking = calls.do_at_exit(lambda: client.flush_within(left_s), left_s)  # noqa: B023 it is called at once
        for ledger_id, entries in lacking.items():
            said = (
                f"ledger {ledger_id}: the process ends, and entries {entries[0]} to {entries[-1]} "
                "were appended and not acknowledged: they may be lost; flush or close the writer "
                "before the process ends"
            )
            _logger.warning("%s", said)
            warnings.warn(said, ResourceWarning, stacklevel=1)


atexit.register(_flush)
