"""One client a Python worker: the tasks that a worker runs one after the other share it.

A client that is made for a task connects to the store and watches all bookies, and then the task
ends. Spark's workers run many tasks. So a worker keeps the clients that its tasks asked for: one
for each address and settings, at most ``CLIENTS_MAX``. The client of ledgers and that of logs are
two faces of the same one, with one connection to each bookie.

- Threads may ask at the same time. For one address and settings there is one client, and the other
  threads wait for it. An address that does not answer delays no other one.
- A failure to connect is kept by nobody: the next task tries again. A client that has ended is made
  anew.
- A forked child forgets its parent's clients, and closes none of them. If the parent has used one,
  the child is refused a client of its own (``client.base.forks``).
- The clients end with the process. Spark ends its workers without Python's exit functions: sessions
  of the store end then by their time limit. A worker that ends normally closes its clients.

No caller closes what it gets. A task closes the ledgers and logs that it writes.
"""

import atexit
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Final, TypeAlias

from zonekeeper.client.api import blocking as blocking_client
from zonekeeper.client.api import loop_thread
from zonekeeper.client.api.loop_thread import Calls
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.client.base.errors import ClientEnded
from zonekeeper.log.api import blocking as blocking_logs
from zonekeeper.log.api import log_client
from zonekeeper.log.api.log_client import LogClient
from zonekeeper.pipeline.base import worker_log
from zonekeeper.placement.base.troubles import Trouble

#: A worker that is asked for more ends the client that was not asked for the longest.
CLIENTS_MAX: Final = 16

_Key: TypeAlias = tuple[str, ClientConfig]


@dataclass(frozen=True, slots=True)
class KeptClient:
    """A connected client, with both faces."""

    ledgers: blocking_client.Client
    logs: blocking_logs.BlockingLogs
    #: The client on the loop, and the way to run coroutines there.
    opened: LogClient
    calls: Calls

    @property
    def is_over(self) -> bool:
        """Has it ended by itself? Then it is of no use any more."""
        try:
            self.calls.check()
        except ClientEnded:
            return True
        return False


Opening: TypeAlias = Callable[[str, ClientConfig], AbstractContextManager[KeptClient]]


@contextmanager
def connect(metadata: str, config: ClientConfig) -> Iterator[KeptClient]:
    """Give a client with both faces, until the block ends."""
    with loop_thread.opened(log_client.connect(metadata, config)) as (opened, calls):
        yield KeptClient(
            ledgers=blocking_client.Client(opened.client, calls),
            logs=blocking_logs.BlockingLogs(opened, calls),
            opened=opened,
            calls=calls,
        )


class _Slot:
    """The place of one client. The lock is held while it is opened or closed."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._block: AbstractContextManager[KeptClient] | None = None
        self._made: KeptClient | None = None

    def get(self, opening: Callable[[], AbstractContextManager[KeptClient]]) -> KeptClient:
        with self.lock:
            if self._made is None or self._made.is_over:
                self._close()
                block = opening()
                self._made = block.__enter__()
                self._block = block
            return self._made

    def close(self) -> None:
        with self.lock:
            self._close()

    def _close(self) -> None:
        block, self._block, self._made = self._block, None, None
        if block is not None:
            with suppress(Trouble, OSError):  # nobody waits for this client any more
                block.__exit__(None, None, None)


class KeptClients:
    """The clients of one process."""

    def __init__(self, opening: Opening = connect) -> None:
        self._opening = opening
        self._lock = threading.Lock()
        #: In the order in which they were asked for, the latest at the end.
        self._slots: OrderedDict[_Key, _Slot] = OrderedDict()
        #: Those of the processes that this one was forked from: a block that is dropped would end.
        self._of_parents: list[OrderedDict[_Key, _Slot]] = []

    def get(self, metadata: str, config: ClientConfig | None = None) -> KeptClient:
        """Give the client of an address and settings; connect if there is none yet."""
        key = (metadata, config or ClientConfig())
        dropped = None
        with self._lock:
            slot = self._slots.setdefault(key, _Slot())
            self._slots.move_to_end(key)
            if len(self._slots) > CLIENTS_MAX:
                _, dropped = self._slots.popitem(last=False)
        if dropped is not None:
            dropped.close()
        return slot.get(lambda: self._opening(*key))

    def close(self) -> None:
        """End all clients."""
        with self._lock:
            slots = list(self._slots.values())
            self._slots.clear()
        for slot in slots:
            slot.close()

    def forked(self) -> None:
        """Set up the forked child: nothing is kept, and another thread may have held a lock."""
        self._lock = threading.Lock()
        self._of_parents.append(self._slots)
        self._slots = OrderedDict()


_KEPT: Final = KeptClients()
os.register_at_fork(after_in_child=_KEPT.forked)
atexit.register(_KEPT.close)


def kept(metadata: str, config: ClientConfig | None = None) -> KeptClient:
    """Give this worker's client for a metadata address, with both faces; do not close it."""
    worker_log.set_up(os.environ)
    return _KEPT.get(metadata, config)


def client(metadata: str, config: ClientConfig | None = None) -> blocking_client.Client:
    """Give this worker's client of ledgers for a metadata address; do not close it."""
    return _KEPT.get(metadata, config).ledgers


def logs(metadata: str, config: ClientConfig | None = None) -> blocking_logs.BlockingLogs:
    """Give this worker's client of logs for a metadata address; do not close it."""
    return _KEPT.get(metadata, config).logs
