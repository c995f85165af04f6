"""The status of a local cluster: its processes, and what its metadata says of them.

A fact that cannot be read is shown as unknown. A zone without a readable record is held.
"""

import contextlib
import enum
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field

from zonekeeper.metadata.bookies import bookie_watch, registration
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import elections, zone_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.commands import opening
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.ledgers import underreplication
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.metadata.store.store import MetadataStore
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.metadata.stores.timeouts import Timeouts
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.topology import Registration
from zonekeeper.placement.zones.zone_records import ZoneRecord
from zonekeeper.shell.local import local_processes, local_shape, local_starting
from zonekeeper.shell.local.local_folder import Folder, LocalError
from zonekeeper.shell.local.local_state import ZOOKEEPER, LocalState
from zonekeeper.shell.reaching import endpoints, reaching
from zonekeeper.wire.formats import addresses

_PATIENT = Timeouts()


class Process(enum.StrEnum):
    """The state of a process."""

    RUNNING = "running"
    #: Frozen by ``partition-zone``: the process exists, and answers nothing.
    CUT_OFF = "cut off"
    #: Stopped by a command, or never started.
    STOPPED = "stopped"
    ENDED = "ended by itself"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenProcess:
    """A process as it was seen."""

    name: BookieId
    process: Process
    #: None: the process does not run.
    pid: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenBookie(SeenProcess):
    """A bookie as it was seen."""

    location: Location
    #: None: unknown.
    registration: Registration | None
    #: The address for clients; None: the bookie publishes none now, or it is unknown.
    address: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenAutorecovery(SeenProcess):
    """An autorecovery process as it was seen."""

    zone: ZoneName
    #: The HTTP address; None: there is none, or the process does not run.
    http: str | None
    #: The roles that it was elected for.
    leads: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The facts in the metadata."""

    registered: Mapping[BookieId, tuple[Registration, str | None]] = field(default_factory=dict)
    #: A zone that is left out has no readable record.
    zones: Mapping[ZoneName, ZoneRecord] = field(default_factory=dict)
    #: The leader of each role.
    leaders: Mapping[str, BookieId | None] = field(default_factory=dict)
    #: The number of ledgers that wait for repair; None: unknown.
    underreplicated: int | None = None
    #: The reason why the metadata could not be read; empty: it was read.
    unknown: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalStatus:
    """The status of the whole cluster."""

    state: LocalState
    metadata: str
    zookeeper: SeenProcess | None
    bookies: tuple[SeenBookie, ...]
    autorecovery: tuple[SeenAutorecovery, ...]
    recorded: Recorded


async def look(folder: Folder, state: LocalState) -> LocalStatus:
    """Look at the whole cluster; changes nothing."""
    try:
        recorded = await _recorded(folder, state)
    except LocalError as error:
        recorded = Recorded(unknown=str(error))
    nothing = None if recorded.unknown else Registration.ABSENT
    bookies = []
    for name, place in local_shape.places(state.shape).items():
        process, pid = _process(state, name)
        registered, address = recorded.registered.get(name, (nothing, None))
        bookies.append(
            SeenBookie(
                name=name,
                process=process,
                pid=pid,
                location=place,
                registration=registered,
                address=address,
            )
        )
    others = []
    for name, zone in local_shape.autorecovery(state.shape).items():
        process, pid = _process(state, name)
        leads = tuple(role for role, leader in recorded.leaders.items() if leader == name)
        http = state.http.get(name) if pid is not None else None
        others.append(
            SeenAutorecovery(name=name, process=process, pid=pid, zone=zone, http=http, leads=leads)
        )
    return LocalStatus(
        state=state,
        metadata=folder.address(state),
        zookeeper=_zookeeper(state),
        bookies=tuple(bookies),
        autorecovery=tuple(others),
        recorded=recorded,
    )


@contextlib.asynccontextmanager
async def opened(
    folder: Folder, state: LocalState, timeouts: Timeouts = _PATIENT
) -> AsyncIterator[MetadataStore]:
    """Open the metadata; a store's failure, also one in the block, becomes ``LocalError``."""
    try:
        store = await open_store(folder.address(state), timeouts)
        try:
            yield store
        finally:
            await store.close()
    except (
        StoreError,
        UnreadableError,
        clusters.NotAClusterError,
        clusters.ForeignRootError,
    ) as error:
        raise LocalError(str(error)) from error


def _zookeeper(state: LocalState) -> SeenProcess | None:
    if not state.shape.zookeeper:
        return None
    process, pid = _process(state, ZOOKEEPER)
    return SeenProcess(name=ZOOKEEPER, process=process, pid=pid)


def _process(state: LocalState, name: BookieId) -> tuple[Process, int | None]:
    mark = state.marks.get(name)
    if mark is None:
        return Process.STOPPED, None
    if not local_processes.is_running(mark):
        return Process.ENDED, None
    frozen = local_processes.is_frozen(mark)
    return (Process.CUT_OFF if frozen else Process.RUNNING), mark.pid


async def _recorded(folder: Folder, state: LocalState) -> Recorded:
    # Opening a missing file would make a new one. Waiting for a server that does not run is of no
    # use.
    if state.shape.zookeeper:
        if ZOOKEEPER not in local_starting.running(state):
            raise LocalError("its ZooKeeper server does not run")
    elif not folder.store.exists():
        raise LocalError(f"{folder.store} is not there")
    async with opened(folder, state, opening.quick()) as store:
        cluster = await clusters.open_cluster(store)
        await endpoints.note(cluster, folder.address(state), reaching.wall_ms())
        registered = {
            name: (side, await _address(cluster, name))
            for name, side in (await bookie_watch.registrations(cluster)).items()
        }
        async with aclosing(underreplication.ids(cluster)) as marked:
            count = sum([1 async for _ in marked])
        return Recorded(
            registered=registered,
            zones=await _zones(cluster, state),
            leaders={
                "auditor": await elections.leader(store, elections.auditor_votes(cluster)),
                "zone watch": await elections.leader(store, elections.zone_watch_votes(cluster)),
            },
            underreplicated=count,
        )


async def _zones(cluster: Cluster, state: LocalState) -> dict[ZoneName, ZoneRecord]:
    found = {}
    for zone in local_shape.zones(state.shape):
        with contextlib.suppress(UnreadableError):
            record = await zone_store.read_zone(cluster, zone)
            if record is not None:
                found[zone] = record
    return found


async def _address(cluster: Cluster, bookie: BookieId) -> str | None:
    info = await registration.read_service_info(cluster, bookie)
    if info is None or info.bookie is None:
        return None
    return str(addresses.of(info.bookie.host, info.bookie.port))
