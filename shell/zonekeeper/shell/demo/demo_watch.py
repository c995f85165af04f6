"""What the demonstration observes of the cluster, as any user could.

Zones, gates and bookies come from the cluster's records. The number of copied bytes comes from the
metrics of the autorecovery processes.
"""

import asyncio
import http.client
import re
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Final

from zonekeeper.client.api.client import Client
from zonekeeper.metadata.ledgers import underreplication
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.zones.gate import Permission
from zonekeeper.placement.zones.observation import Observation
from zonekeeper.placement.zones.zone_records import ZoneRecord
from zonekeeper.replication.view.view import View
from zonekeeper.shell.demo.demo_load import Load
from zonekeeper.shell.demo.demo_screen import BookieNow, Picture, Screen, ZoneNow
from zonekeeper.shell.demo.demo_summary import MEDIAN, NEARLY_ALL
from zonekeeper.shell.local.local_folder import LocalError
from zonekeeper.wire.formats import addresses

_EVERY_S: Final = 0.25
_TIMEOUT_S: Final = 5
_MOVED: Final = re.compile(r"^zonekeeper_repair_bytes_moved_total\S* (\d+)$", re.MULTILINE)
#: The rate of writing is taken over this many looks.
_LOOKS: Final = 8


class DemoWatch:
    """A watcher that looks at the cluster again and again, and shows what has changed."""

    def __init__(self, client: Client, view: View, pages: Sequence[str], screen: Screen) -> None:
        """``pages`` are the HTTP addresses of the autorecovery processes: ``host:port``."""
        self._client = client
        self._view = view
        self._pages = pages
        self._screen = screen
        self._states: dict[ZoneName, tuple[Observation, Permission]] = {}
        #: The observed states of all zones, in order.
        self.history: list[tuple[ZoneName, Observation]] = []
        #: The bytes moved before a repair was released, and the bytes that it is expected to move.
        self.repair: tuple[int, int] | None = None

    async def tell(self) -> None:
        """Show the changes of zones, until cancelled."""
        looks = 0
        while True:
            looks = await self._view.changed(looks)
            for zone, record in sorted(self._view.zones.items()):
                self._tell(zone, record)

    async def show(self, load: Load) -> None:
        """Draw the state of the cluster several times a second, until cancelled."""
        loop = asyncio.get_running_loop()
        counts = [(loop.time(), 0)]
        while True:
            counts = [*counts[-_LOOKS:], (loop.time(), load.entries_acked)]
            (begun_s, before), (now_s, entries) = counts[0], counts[-1]
            timing = load.timing
            moved_bytes = await self.moved_bytes()
            self._screen.show(
                Picture(
                    zones=[self._zone(zone, load) for zone in self._view.topology.zones],
                    entries=entries,
                    entries_per_second=(entries - before) / max(now_s - begun_s, _EVERY_S),
                    p50_ms=timing.quantile_ms(MEDIAN),
                    p99_ms=timing.quantile_ms(NEARLY_ALL),
                    moved_bytes=moved_bytes,
                    marked=await self._marked(),
                    repair=self._progress(moved_bytes),
                )
            )
            await asyncio.sleep(_EVERY_S)

    async def until(self, holds: Callable[[], bool], what: str, within_s: float) -> None:
        """Wait until a condition holds; raises ``LocalError`` if this takes too long."""
        looks = self._view.looks
        try:
            async with asyncio.timeout(within_s):
                while not holds():
                    looks = await self._view.changed(looks)
        except TimeoutError:
            raise LocalError(f"{what}: that was not so after {within_s:.0f} s") from None

    def is_in(self, zone: ZoneName, *states: Observation) -> bool:
        """Is the observed state of a zone one of these?"""
        record = self._view.zones.get(zone)
        return record is not None and record.observed.state in states

    def is_held(self, zone: ZoneName) -> bool:
        """Is the repair of a zone held?"""
        record = self._view.zones.get(zone)
        return record is None or not record.gate.permits

    async def moved_bytes(self) -> int:
        """Give the bytes that all repairs have copied so far, as the processes count them."""
        pages = await asyncio.gather(*(asyncio.to_thread(_metrics, page) for page in self._pages))
        return sum(int(count) for page in pages for count in _MOVED.findall(page))

    def _tell(self, zone: ZoneName, record: ZoneRecord) -> None:
        state, permission = record.observed.state, record.gate.permission
        before = self._states.get(zone)
        if before == (state, permission):
            return
        self._states[zone] = (state, permission)
        if before is None or before[0] is not state:
            self.history.append((zone, state))
            if before is not None:
                self._screen.happened(f"zone {zone} is {state}: {record.observed.reason}")
        if before is not None and before[1] is not permission:
            self._screen.happened(f"repair of zone {zone} is {permission}", "bold magenta")

    def _zone(self, zone: ZoneName, load: Load) -> ZoneNow:
        record = self._view.zones.get(zone)
        bookies = [
            BookieNow(
                name=bookie.id,
                registered=bookie.readable,
                written=bookie.id in load.ensemble,
            )
            for bookie in self._view.topology
            if bookie.location is not None and bookie.location.zone == zone
        ]
        return ZoneNow(
            name=zone,
            observation=Observation.UNKNOWN if record is None else record.observed.state,
            permission=Permission.HELD if record is None else record.gate.permission,
            bookies=sorted(bookies, key=lambda one: one.name),
        )

    def _progress(self, moved_bytes: int) -> tuple[int, int] | None:
        if self.repair is None:
            return None
        since_bytes, whole_bytes = self.repair
        return whole_bytes, moved_bytes - since_bytes

    async def _marked(self) -> int:
        async with aclosing(underreplication.ids(self._client.cluster)) as ids:
            return sum([1 async for _ in ids])


def _metrics(page: str) -> str:
    where = addresses.parse(page)
    connection = http.client.HTTPConnection(where.bare_host, where.port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()
    except (OSError, http.client.HTTPException) as error:
        raise LocalError(f"what was copied is not known: {page} does not answer: {error}") from None
    finally:
        connection.close()
