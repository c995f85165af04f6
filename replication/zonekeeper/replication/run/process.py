"""An autorecovery process: from its settings to its work, and back down in order.

Up: HTTP port → metadata store → a cluster of ours → its bookies → the roles → ready once the
records were read. Down, on SIGTERM or SIGINT: copies in flight stop before their next carrier,
claims and votes are given back, links and session end. All of that has one limit,
``STOP_LIMIT_S``, under what whoever stops processes waits before he kills; what is not done by then
is left. Nothing is lost by that, or by a process that is killed at once: claims and votes end with
the session.

A role that fails ends the process with one clear line; whoever runs it starts it again.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack
from typing import Final

from zonekeeper.client.api import client as clients
from zonekeeper.client.base import errors as client_errors
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.metadata.cluster import joining
from zonekeeper.metadata.cluster.cluster import ForeignRootError, NotAClusterError
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.placement.base.chance import Chance
from zonekeeper.placement.base.troubles import Trouble
from zonekeeper.replication.run import pages
from zonekeeper.replication.run.autorecovery import Autorecovery, Worker
from zonekeeper.replication.run.settings import AutorecoverySettings
from zonekeeper.wire.running import looking, processes
from zonekeeper.wire.running.looking import Page

STOP_LIMIT_S: Final = 20.0

_logger = logging.getLogger(__name__)

#: What may be wrong with the world; anything else is a bug, and shows as one.
_TROUBLES: Final = (
    OSError,
    StoreError,
    NotAClusterError,
    ForeignRootError,
    joining.SessionTooLongError,
    UnreadableError,
    client_errors.ClientError,
)


class StoppedError(Trouble):
    """The process cannot start, or cannot go on; the message says why."""


async def run(
    settings: AutorecoverySettings, chance: Chance, announce: Callable[[str], None]
) -> None:
    """Run until SIGTERM or SIGINT; raises ``StoppedError``.

    ``announce`` hears once where the process is looked at, when it is ready.
    """
    stop = asyncio.Event()
    try:
        with processes.stopped_by_signals(stop.set), ExitStack() as at_end:
            async with asyncio.TaskGroup() as tasks:
                life = tasks.create_task(_live(settings, chance, announce))
                stopping = tasks.create_task(stop.wait())
                await asyncio.wait({life, stopping}, return_when=asyncio.FIRST_COMPLETED)
                too_late = asyncio.get_running_loop().call_later(STOP_LIMIT_S, _give_up)
                at_end.callback(too_late.cancel)
                life.cancel()
                stopping.cancel()
    except BaseExceptionGroup as group:
        troubles, bugs = group.split(_TROUBLES)
        if troubles is None or bugs is not None:
            raise
        raise StoppedError(processes.first_words(troubles)) from group


def _give_up() -> None:
    _logger.error("not stopped in order within %g s: claims end with the session", STOP_LIMIT_S)
    os._exit(1)


async def _live(
    settings: AutorecoverySettings, chance: Chance, announce: Callable[[str], None]
) -> None:
    process: Autorecovery | None = None

    def ready() -> Page:
        missing = {"metadata": "not reached yet"} if process is None else process.unready()
        return looking.readiness(missing)

    table = {
        "/healthz": lambda: Page("alive\n"),
        "/readyz": ready,
        "/metrics": lambda: Page("") if process is None else pages.metrics(process),
        "/state": lambda: looking.as_json({}) if process is None else pages.state(process),
    }
    config = ClientConfig(zone=settings.zone, tls=settings.tls)
    async with AsyncExitStack() as stack:
        with processes.explained(f"--http: cannot listen on {settings.http}"):
            port = await stack.enter_async_context(looking.served(table, settings.http))
        cluster = await joining.join(settings.metadata)
        stack.push_async_callback(cluster.store.close)
        client = await stack.enter_async_context(clients.over_grpc(cluster, config))
        worker = Worker(
            name=settings.name, chance=chance, wall_ms=_wall_ms, workers=settings.workers
        )
        process = Autorecovery(client, worker)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(process.run())
            await process.view.known()
            announce(
                f"ready: autorecovery {settings.name} of {cluster}, "
                f"http {settings.http.host}:{port}"
            )


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
