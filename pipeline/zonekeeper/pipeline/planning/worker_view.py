"""One view of the cluster's gates a Python worker: the tasks of the worker share it.

A view sees that zones are watched only after a while. A task that had one of its own would wait so
long each time. A view whose client has ended, or that failed, is made anew by the next task. Like
the worker's client it ends with the process, and a forked child makes one of its own.
"""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import NamedTuple

from zonekeeper.client.api import loop_thread
from zonekeeper.client.api.client import Client
from zonekeeper.client.api.loop_thread import Calls
from zonekeeper.client.base.errors import ClientEnded
from zonekeeper.metadata.store.background import alongside
from zonekeeper.pipeline.base.worker_client import KeptClient
from zonekeeper.placement.base.troubles import Trouble
from zonekeeper.replication.view.view import View


class WatchedView(NamedTuple):
    """A view, and a function that raises ``ClientEnded`` once the view is not followed any more.

    Such a view never changes again: a wait for its next look would not end.
    """

    view: View
    check: Callable[[], None]


@dataclass(frozen=True, slots=True)
class _KeptView:
    of: KeptClient
    block: AbstractContextManager[tuple[View, Calls]]
    view: View
    calls: Calls

    @property
    def is_over(self) -> bool:
        try:
            self.calls.check()
        except ClientEnded:
            return True
        return False


#: By process and address.
_VIEWS: dict[tuple[int, str], _KeptView] = {}


@asynccontextmanager
async def followed(client: Client) -> AsyncIterator[View]:
    """Give a view that knows the cluster, until the block ends."""
    view = View(client.cluster)
    async with alongside(view.follow()):
        await view.known()
        yield view


def of(metadata: str, kept: KeptClient) -> WatchedView:
    """Give this worker's view of a cluster, over the worker's client; do not close it."""
    key = (os.getpid(), metadata)
    known = _VIEWS.get(key)
    if known is not None and known.of is kept and not known.is_over:
        return WatchedView(known.view, known.calls.check)
    if known is not None:
        with suppress(Trouble, OSError):  # nobody waits for this view any more
            known.block.__exit__(None, None, None)
    block = loop_thread.opened(followed(kept.opened.client))
    view, calls = block.__enter__()
    _VIEWS[key] = _KeptView(kept, block, view, calls)
    return WatchedView(view, calls.check)
