"""The process of a probe: HTTP port, client, probe; its figures are its last words.

It is ready once its first entries are acknowledged. It ends with its figures. A trouble ends it
with one line, as that of every process.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zonekeeper.client.api import client as clients
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.metadata.stores.settings import METADATA, address
from zonekeeper.operator.probe.probing import Probe
from zonekeeper.placement.base import locations
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.base.settings import GivenSettings, Setting
from zonekeeper.wire.formats import addresses
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.grpc import tls
from zonekeeper.wire.grpc.tls import TlsFiles
from zonekeeper.wire.running import last_words, logs, looking, processes, running, seam
from zonekeeper.wire.running.logs import LogSettings
from zonekeeper.wire.running.running import StopRequest

STOP_LIMIT_S: Final = 10.0

SETTINGS: Final = (
    METADATA,
    Setting(name="away", shown_as="ZONE", help="The zone that goes away.", required=True),
    Setting(name="zone", shown_as="NAME", help="The zone that it runs in."),
    Setting(
        name="http",
        shown_as="HOST:PORT",
        default=f"0.0.0.0:{seam.HTTP_PORT}",
        help="Where to answer GET of /healthz and /readyz; port 0 takes a free one.",
    ),
    Setting(
        name="termination-log",
        variable=seam.TERMINATION_LOG,
        shown_as="FILE",
        help="The file that gets its figures, for Kubernetes.",
    ),
    *tls.CLIENT_SETTINGS,
    *logs.SETTINGS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSettings:
    """All settings of a probe, checked."""

    metadata: str
    away: ZoneName
    zone: ZoneName | None
    http: Address
    termination_log: Path | None
    tls: TlsFiles | None
    logging: LogSettings


def parse(
    flags: Mapping[str, str | None],
    environment: Mapping[str, str],
    file: Mapping[str, object] | None = None,
    file_name: str = "",
) -> ProbeSettings:
    """Check all settings; raises ``BadSettingError`` for the first that is wrong."""
    given = GivenSettings(SETTINGS, flags, environment, file, file_name)
    return ProbeSettings(
        metadata=given.read("metadata", address),
        away=given.read("away", locations.zone_name),
        zone=given.optional("zone", locations.zone_name),
        http=given.read("http", addresses.parse),
        termination_log=given.optional("termination-log", Path),
        tls=tls.files_given(given),
        logging=logs.given_to(given),
    )


async def run(settings: ProbeSettings) -> str:
    """Probe until the zone is back, and give the figures; raises ``StoppedError``."""
    said = ""

    async def live(stop: StopRequest) -> None:
        nonlocal said
        said = await _probed(settings, stop)

    await running.run(live, stop_limit_s=STOP_LIMIT_S, last_words_in=settings.termination_log)
    last_words.leave(settings.termination_log, said)
    return said


async def _probed(settings: ProbeSettings, stop: StopRequest) -> str:
    probe: Probe | None = None

    def ready() -> looking.Page:
        is_ready = probe is not None and probe.writes.is_set()
        return looking.readiness({} if is_ready else {"probe": "no entry is acknowledged yet"})

    table = {seam.ALIVE_PATH: lambda: looking.Page("alive\n"), seam.READY_PATH: ready}
    config = ClientConfig(zone=settings.zone, tls=settings.tls)
    loop = asyncio.get_running_loop()
    with processes.explained(f"--http: cannot listen on {settings.http}"):
        serving = looking.served(table, settings.http)
    async with serving, clients.connect(settings.metadata, config) as client:
        probe = Probe(client, settings.away, lambda: int(loop.time() * 1_000))
        probing, stopped = asyncio.ensure_future(probe.run()), asyncio.ensure_future(stop.heard())
        await asyncio.wait((probing, stopped), return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if not probing.done():
            probing.cancel()
        await asyncio.wait((probing,))
        if not probing.cancelled():
            probing.result()
        return str(probe.figures)
