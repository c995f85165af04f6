"""An autorecovery process: from its settings to its work, and back down in order.

Up: HTTP port → metadata store → a cluster of ours → its bookies → the roles → ready once the
records were read. Down, on SIGTERM or SIGINT: copies in flight stop before their next carrier,
claims and votes are given back, links and session end. All of that has one limit,
``STOP_LIMIT_S``, which is less than a supervisor waits before it kills. What is not done by then is
left. Nothing is lost by that, or by a process that is killed at once: claims and votes end with
the session.

A role that fails ends the process with one clear line; its supervisor starts it again.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from importlib import metadata
from typing import Final

from zonekeeper.client.api import client as clients
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.metadata.cluster import joining
from zonekeeper.metadata.cluster.announced import Announcement
from zonekeeper.placement.base.chance import Chance
from zonekeeper.replication.run import announcing, pages
from zonekeeper.replication.run.autorecovery import Autorecovery, Worker
from zonekeeper.replication.run.settings import AutorecoverySettings
from zonekeeper.wire.formats import addresses
from zonekeeper.wire.running import looking, processes, running, seam
from zonekeeper.wire.running.audit_log import AuditLog
from zonekeeper.wire.running.looking import Page
from zonekeeper.wire.running.page_identity import ProcessKind
from zonekeeper.wire.running.readiness import ReadinessLines
from zonekeeper.wire.running.running import StopRequest
from zonekeeper.wire.socket import page_rights

STOP_LIMIT_S: Final = 20.0

_logger = logging.getLogger(__name__)


async def run(
    settings: AutorecoverySettings, chance: Chance, announce: Callable[[str], None]
) -> None:
    """Run until SIGTERM or SIGINT; raises ``StoppedError``.

    ``announce`` is called once, when the process is ready, and says at which address it listens.
    """
    await running.run(
        lambda stop: _live(settings, chance, announce, stop), stop_limit_s=STOP_LIMIT_S
    )


async def _live(
    settings: AutorecoverySettings,
    chance: Chance,
    announce: Callable[[str], None],
    stop: StopRequest,
) -> None:
    process: Autorecovery | None = None
    version = metadata.version("zonekeeper")
    audit = AuditLog(lambda: _wall_ms() / 1_000)
    rights = page_rights.of_files(settings.page_tls, audit)
    by_certificate = None if rights is None else rights.by_certificate()

    def ready() -> Page:
        return looking.readiness(pages.UNREACHED if process is None else process.unready())

    def state() -> Page:
        if process is None:
            return looking.as_json(pages.begun(settings, version))
        return pages.state(process, settings, version)

    table = {
        seam.ALIVE_PATH: lambda: Page("alive\n"),
        seam.READY_PATH: ready,
        seam.METRICS_PATH: lambda: Page("") if process is None else pages.metrics(process, rights),
        seam.STATE_PATH: state,
    }
    config = ClientConfig(zone=settings.zone, tls=settings.tls)
    async with AsyncExitStack() as stack:
        stack.callback(audit.close)
        with processes.explained(f"--http: cannot listen on {settings.http}"):
            served = looking.served(table, settings.http, by_certificate)
            port = await stack.enter_async_context(served)
        cluster = await joining.join(settings.metadata)
        stack.push_async_callback(cluster.store.close)
        if rights is not None:
            rights.joined(cluster.instance)
        client = await stack.enter_async_context(clients.over_wire(cluster, config))
        worker = Worker(
            name=settings.name, chance=chance, wall_ms=_wall_ms, workers=settings.workers
        )
        process = Autorecovery(client, worker)
        async with asyncio.TaskGroup() as tasks:
            roles = tasks.create_task(process.run())
            said = tasks.create_task(announcing.keep(cluster, _announcement(settings, port)))
            await process.view.known()
            announce(
                f"ready: autorecovery {settings.name} of {cluster}, "
                f"http {settings.http.host}:{port}"
            )
            _logger.info(
                "started: autorecovery %s of %s, version %s, zone %s, %d workers",
                settings.name,
                cluster,
                version,
                settings.zone or "not told",
                settings.workers,
                extra={"version": version},
            )
            readiness = tasks.create_task(ReadinessLines(process.unready).run())
            await stop.heard()
            said.cancel()
            readiness.cancel()
            roles.cancel()


def _announcement(settings: AutorecoverySettings, port: int) -> Announcement:
    return Announcement(
        kind=ProcessKind.AUTORECOVERY,
        name=settings.name,
        zone=settings.zone or "",
        http=str(addresses.of(settings.advertise, port)),
        http_tls=settings.page_tls is not None,
    )


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
