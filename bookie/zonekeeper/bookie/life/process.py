"""The process of a bookie: sockets, threads and signals around the bookie's life (``life``).

Start: HTTP port → data folder, locked against a second process → metadata store → the cluster, if
it is zonekeeper's → the life begins → gRPC → registered → ready. A step that fails ends the process
with one clear line.

Stop, on SIGTERM: the registration is taken back, appends are refused, queued appends are written
and answered, then the ports close. Each step has a time limit, and so has the whole stop. A disk
that fails ends the process at once.
"""

import asyncio
import logging
import resource
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Final

import grpc

from zonekeeper.bookie.disk.disks import ThreadDisk
from zonekeeper.bookie.disk.files import SHORTAGES
from zonekeeper.bookie.life import (
    allocation,
    data_folder,
    identity,
    life,
    own_formats,
    space,
)
from zonekeeper.bookie.life.life import Begun, BookieGround, Conditions, Presence
from zonekeeper.bookie.life.mode_telling import ModeTelling
from zonekeeper.bookie.life.own_record import OwnRecord
from zonekeeper.bookie.life.pages import PagesView
from zonekeeper.bookie.life.room_publishing import RoomPublisher
from zonekeeper.bookie.life.settings import BookieSettings
from zonekeeper.bookie.life.zone_naming import ZoneNaming
from zonekeeper.bookie.segments import arrivals
from zonekeeper.bookie.segments.rocks import RocksOrdered
from zonekeeper.bookie.serving.capacity import BookieLimits
from zonekeeper.bookie.serving.collecting import Collector
from zonekeeper.bookie.serving.measuring import MeasuredBookie, Measures
from zonekeeper.bookie.serving.service import BookieServer
from zonekeeper.bookie.storage.storage import Storage, StoragePolicy
from zonekeeper.metadata.bookies import bookie_records, registration
from zonekeeper.metadata.bookies.registration import Registrar
from zonekeeper.metadata.cluster import joining
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import service_info
from zonekeeper.placement.base.chance import Chance
from zonekeeper.placement.base.locations import Location
from zonekeeper.wire.formats import bookie_names
from zonekeeper.wire.grpc import tls
from zonekeeper.wire.grpc.grpc_server import GrpcServer
from zonekeeper.wire.grpc.tls import TlsFiles
from zonekeeper.wire.host import name_map_file
from zonekeeper.wire.host.access import Access
from zonekeeper.wire.host.host_limits import HostLimits
from zonekeeper.wire.host.serving import Host
from zonekeeper.wire.running import listening, running
from zonekeeper.wire.running.audit_log import AuditLog
from zonekeeper.wire.running.processes import explained
from zonekeeper.wire.running.readiness import ReadinessLines
from zonekeeper.wire.running.running import StopRequest
from zonekeeper.wire.socket import page_rights
from zonekeeper.wire.socket.accepting import SocketFigures
from zonekeeper.wire.socket.socket_server import SocketServer
from zonekeeper.wire.socket.socket_tls import SocketTls

#: The name of the index's folder in the data folder.
INDEX_NAME: Final = "index"

SERVER_GRACE_MS: Final = 500
#: Drawn by the kernel at each start of the machine; its containers share it.
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
#: Reads of the newest entries come from memory, so more threads would not help.
TAIL_THREADS: Final = 2
#: The time for the rest of a stop, beside the drain: registration, links and disks.
CLOSE_LIMIT_S: Final = 20.0

_logger = logging.getLogger(__name__)


async def run(settings: BookieSettings, chance: Chance, announce: Callable[[str], None]) -> None:
    """Run a bookie until SIGTERM or SIGINT; raises ``StoppedError``.

    ``announce`` is called once, with the bookie's addresses, when the bookie is ready.
    """
    _allow_open_files()
    allocation.keep_freed()

    async def lived(stop: StopRequest) -> None:
        process = _Process(settings, announce, stop)
        async with AsyncExitStack() as stack:
            await process.live(stack, chance)

    limit_s = settings.drain_timeout_ms / 1_000 + CLOSE_LIMIT_S
    await running.run(
        lived, stop_limit_s=limit_s, words=_words, last_words_in=settings.termination_log
    )


def _words(trouble: BaseException) -> str:
    """Say what is wrong, and what to do where the trouble does not say it itself."""
    if isinstance(trouble, OSError) and trouble.errno in SHORTAGES:
        return f"{trouble}: nothing is lost; make room on the bookie's devices, and start it again"
    return str(trouble)


class _Process:
    """One life of a bookie, with its ports."""

    def __init__(
        self, settings: BookieSettings, announce: Callable[[str], None], stop: StopRequest
    ) -> None:
        self._settings = settings
        self._announce = announce
        self._conditions = Conditions(life.STORAGE, life.SERVING, life.REGISTERED)
        self._view = PagesView(
            settings.bookie_id, metadata.version("zonekeeper"), self._conditions, Measures()
        )
        self._stop = stop
        self._audit = AuditLog(lambda: _wall_ms() / 1_000)
        #: Set when the bookie's devices were looked at.
        self._looked = asyncio.Event()

    async def live(self, stack: AsyncExitStack, chance: Chance) -> None:
        """Come up, serve until stopped, and go down."""
        settings = self._settings
        http_port = await self._shown(stack)
        _check_free(settings)
        credentials = _credentials(settings.tls)
        ground = await self._ground(stack)
        cluster = await joining.join(settings.metadata)
        stack.push_async_callback(cluster.store.close)
        self._view.store = cluster.store
        await registration.refuse_foreign(cluster)
        access = self._access(cluster.instance)
        mine = identity.of_bookie(
            settings.bookie_id,
            cluster,
            settings.data,
            journal=settings.journal,
            ledgers=settings.ledger_dirs,
        )
        begun = await life.begin(
            cluster,
            mine,
            settings.location,
            ground,
            policy=StoragePolicy(compacting=settings.compacting),
            chance=chance,
        )
        stack.push_async_callback(begun.storage.close)
        self._read_disk(begun)
        formats = own_formats.of_this_release()
        await bookie_records.tell_formats(cluster, settings.bookie_id, formats)
        async with asyncio.TaskGroup() as tasks:
            bookie = self._bookie(begun, tasks)
            bookie.vouched = life.vouched_in(cluster, begun.cookie.bookie)
            bookie.standing = life.standing_in(cluster)
            bookie.modes.wall_ms = _wall_ms
            self._view.begun, self._view.bookie = begun, bookie
            writer = tasks.create_task(begun.storage.run())
            housekeeping = self._keep_house(cluster, begun, bookie, ground, access, tasks)
            host = self._host(bookie, access)
            begun.storage.memory.on_forgetting = host.forgotten
            name = bookie_names.name_of(settings.bookie_id, cluster.instance)
            async with self._served(host, name, credentials, http_port) as ports:
                self._conditions.met(life.SERVING)
                registrar = self._registrar(cluster, begun, ports)
                room = RoomPublisher(
                    registrar, begun.storage.room, now_ms=_now_ms, machine=await _machine()
                )
                await room.look()
                housekeeping.append(tasks.create_task(room.run(self._settings.disk_check_ms)))
                presence = Presence(
                    registrar, bookie, cluster.store, self._conditions, begun.witness
                )
                keeping = tasks.create_task(presence.keep())
                naming = ZoneNaming(cluster, _location(begun), self._conditions)
                housekeeping.append(tasks.create_task(naming.follow()))
                housekeeping += self._telling(cluster, begun, bookie, tasks)
                await presence.begun.wait()
                await naming.begun.wait()
                self._say_ready(begun, ports, naming.trouble)
                housekeeping.append(tasks.create_task(ReadinessLines(self._view.missing).run()))
                await self._stop.heard()
                for task in (keeping, *housekeeping):
                    task.cancel()
                self._conditions.missing(life.SERVING, "stopping")
                await presence.leave()
                await self._drain(bookie, begun.storage, writer)

    async def _shown(self, stack: AsyncExitStack) -> int:
        """Show the pages from now on, and give their port."""
        settings = self._settings
        stack.callback(self._audit.close)
        self._view.rights = page_rights.of_files(settings.page_tls, self._audit)
        with explained(f"--http: cannot listen on {settings.http}"):
            return await stack.enter_async_context(self._view.served(settings.http))

    def _access(self, instance: str) -> Access:
        """Make what holds the rights of callers, and say how strictly it does."""
        settings = self._settings
        if settings.tls is None:
            _logger.warning("there is no TLS: every process that reaches the ports may do anything")
        else:
            _logger.info("access is %s: rights of roles are held so", settings.access.value)
        names = name_map_file.of_flag(settings.access_names)
        if self._view.rights is not None:
            self._view.rights.joined(instance, names)
        self._view.access = access = Access(
            settings.access,
            instance=instance,
            names=names,
            audit=self._audit,
            owners=settings.ledger_owners,
        )
        return access

    def _read_disk(self, begun: Begun) -> None:
        """Note that the disk was read, and log what was found."""
        self._conditions.met(life.STORAGE)
        settings, space = self._settings, begun.storage.log.space
        journal, ledgers = settings.journal or settings.data, settings.ledger_dirs
        _logger.info(
            "started: bookie %s at %s, boot %d, version %s; data %s, journal %s; "
            "%d ledgers, %d of %d bytes free; metadata %s",
            settings.bookie_id,
            begun.cookie.location,
            begun.boot_epoch,
            self._view.version,
            settings.data,
            journal,
            len(begun.storage.memory.ledgers),
            space.free_bytes,
            space.total_bytes,
            settings.metadata,
            extra={
                "zone": _location(begun).zone,
                "boot_epoch": begun.boot_epoch,
                "version": self._view.version,
                "data": settings.data,
                "journal": journal,
                "ledger_dirs": list(map(str, ledgers or (settings.data,))),
                "ledgers": len(begun.storage.memory.ledgers),
                "free_bytes": space.free_bytes,
                "total_bytes": space.total_bytes,
            },
        )

    def _say_ready(self, begun: Begun, ports: "_Ports", unnamed: str | None) -> None:
        settings = self._settings
        unused = f", gets no ledgers: {unnamed}" if unnamed else ""
        lane = "" if ports.socket is None else f"socket {settings.advertise}:{ports.socket}, "
        self._announce(
            f"ready: bookie {settings.bookie_id} at {begun.cookie.location}, "
            f"grpc {settings.advertise}:{ports.grpc}, {lane}"
            f"http {settings.http.host}:{ports.http}, boot {begun.boot_epoch}{unused}"
        )
        address = f"{settings.advertise}:{ports.grpc}"
        _logger.info("ready: serving clients at %s%s", address, unused, extra={"address": address})

    async def _ground(self, stack: AsyncExitStack) -> BookieGround:
        settings = self._settings
        others = {"--journal": settings.journal, "--ledger-dirs": settings.ledger_dirs}
        with explained(", ".join(["--data", *(flag for flag, given in others.items() if given)])):
            held = stack.enter_context(
                data_folder.all_held(
                    settings.data,
                    settings.journal,
                    settings.ledger_dirs,
                    capacity_bytes=settings.capacity_bytes,
                )
            )
        return BookieGround(
            folders=held.folders,
            journal=held.journal,
            ledgers=held.ledgers,
            writing=await stack.enter_async_context(_disk("write", 1)),
            background=await stack.enter_async_context(_disk("background", 1)),
            reads=await stack.enter_async_context(_disk("read", settings.read_threads)),
            tails=await stack.enter_async_context(_disk("tail", TAIL_THREADS)),
            open_index=lambda: RocksOrdered(settings.data / INDEX_NAME),
            sizes=partial(arrivals.sizes_on, reserve_bytes=settings.reserve_bytes),
            wall_ms=_wall_ms,
            reading_in=allocation.reading_in,
        )

    def _bookie(self, begun: Begun, tasks: asyncio.TaskGroup) -> BookieServer:
        made = BookieServer(
            begun.cookie.bookie,
            begun.storage,
            boot_epoch=begun.boot_epoch,
            version=self._view.version,
            tasks=tasks,
            limits=BookieLimits(
                waiting_bytes_max=self._settings.waiting_bytes_max,
                ledgers_max=self._settings.ledgers_max,
            ),
        )
        made.keys.rule = self._settings.ledger_keys
        return made

    def _host(self, bookie: BookieServer, access: Access) -> Host:
        """Give the bookie's half of all streams; one principal may fill half of its memory."""
        limits = HostLimits(principal_append_bytes_max=self._settings.waiting_bytes_max // 2)
        return Host(MeasuredBookie(bookie, self._view.measures), limits, access=access)

    def _keep_house(
        self,
        cluster: Cluster,
        begun: Begun,
        bookie: BookieServer,
        ground: BookieGround,
        access: Access,
        tasks: asyncio.TaskGroup,
    ) -> list["asyncio.Task[None]"]:
        """Begin what is done from time to time: collecting garbage, looking at room and names."""
        settings, storage = self._settings, begun.storage
        collector = Collector(
            cluster,
            settings.bookie_id,
            storage,
            begun.witness,
            settings.collecting,
            wall_ms=_wall_ms,
        )
        watch = space.DeviceWatch(
            {f"the device of {path or '--data'}": files for path, files in ground.folders.items()},
            ground.reads,
            settings.disk_marks,
            troubles=lambda: storage.failed_directories,
            on_change=bookie.set_conditions,
        )
        self._view.collector, self._looked = collector, watch.begun
        return [
            tasks.create_task(collector.run()),
            tasks.create_task(begun.witness.run(settings.collecting.every_ms)),
            tasks.create_task(watch.run(settings.disk_check_ms)),
            tasks.create_task(access.follow()),
        ]

    def _telling(
        self, cluster: Cluster, begun: Begun, bookie: BookieServer, tasks: asyncio.TaskGroup
    ) -> list["asyncio.Task[None]"]:
        """Begin to say why the bookie is read-only: on its page, and in the timeline."""
        name = begun.cookie.bookie
        self._view.own_record = own = OwnRecord(cluster, name)
        telling = ModeTelling(
            cluster,
            name,
            bookie.modes,
            boot_epoch=begun.boot_epoch,
            now_ms=_now_ms,
            wall_ms=_wall_ms,
        )
        return [tasks.create_task(own.follow()), tasks.create_task(telling.run(self._looked))]

    @asynccontextmanager
    async def _served(
        self, host: Host, name: str, credentials: grpc.ServerCredentials | None, http_port: int
    ) -> AsyncIterator["_Ports"]:
        """Serve clients over gRPC, and over the socket lane if there is one; give all ports.

        The lane is open whenever gRPC is. Otherwise a client that connects just then would take the
        lane for one that is out of its reach.
        """
        async with self._socket_served(host, name) as socket_port:
            server = GrpcServer(
                host, str(self._settings.listen), name=name, credentials=credentials
            )
            await server.start()
            try:
                yield _Ports(grpc=server.port, socket=socket_port, http=http_port)
            finally:
                await server.stop(SERVER_GRACE_MS)

    @asynccontextmanager
    async def _socket_served(self, host: Host, name: str) -> AsyncIterator[int | None]:
        """Serve the socket lane, if there is one; give its port."""
        address, files = self._settings.listen_socket, self._settings.tls
        if address is None:
            yield None
            return
        self._view.socket = figures = SocketFigures()
        with explained(tls.FLAGS):
            encryption = None if files is None else SocketTls(files, serving=True)
        server = SocketServer(host, address, name=name, tls=encryption, figures=figures)
        await server.start()
        try:
            yield server.port
        finally:
            await server.stop(SERVER_GRACE_MS)

    def _registrar(self, cluster: Cluster, begun: Begun, ports: "_Ports") -> Registrar:
        info = service_info.of_bookie(
            self._settings.advertise,
            ports.grpc,
            _location(begun),
            tls=self._settings.tls is not None,
            http_port=ports.http,
            boot_epoch=begun.boot_epoch,
        )
        if ports.socket is not None:
            info = info.with_socket(ports.socket)
        if self._view.rights is not None:
            info = info.with_pages_by_certificate()
        session_ms = cluster.store.session_timeout_ms
        return Registrar(cluster, begun.cookie.bookie, info, session_timeout_ms=session_ms)

    async def _drain(
        self, bookie: BookieServer, storage: Storage, writer: "asyncio.Task[None]"
    ) -> None:
        """Refuse appends, and let what is queued be written and answered."""
        bookie.drain()
        storage.log.close()
        limit_ms = self._settings.drain_timeout_ms
        await asyncio.wait([writer], timeout=limit_ms / 1_000)
        if not writer.done():
            raise TimeoutError(
                f"{storage.log.waiting_bytes} bytes were not written within --drain-timeout "
                f"({limit_ms} ms) and were not acknowledged; is the disk still there?"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ports:
    """The ports that the bookie serves at; None: it has no socket lane."""

    grpc: int
    socket: int | None
    http: int


def _location(begun: Begun) -> Location:
    location = begun.cookie.location
    assert location is not None, "a bookie without a location does not start"
    return location


async def _machine() -> str:
    """Give what this start of this machine alone has, so that a disk can be named by it."""
    try:
        return (await asyncio.to_thread(_BOOT_ID.read_text)).strip()
    except OSError:
        return ""


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def _allow_open_files() -> None:
    """Raise the limit of open files to the most allowed, for connections and segments."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _credentials(files: TlsFiles | None) -> grpc.ServerCredentials | None:
    if files is None:
        return None
    try:
        return tls.server_credentials(files)
    except (OSError, ValueError) as error:
        raise OSError(f"{tls.FLAGS}: {error}") from error


@asynccontextmanager
async def _disk(name: str, threads: int) -> AsyncIterator[ThreadDisk]:
    disk = ThreadDisk(name, threads=threads)
    try:
        yield disk
    finally:
        await disk.close()


def _check_free(settings: BookieSettings) -> None:
    """Refuse a port that is taken before anything is changed."""
    wanted = {"--listen": settings.listen, "--listen-socket": settings.listen_socket}
    for flag, address in wanted.items():
        if address is None:
            continue
        with explained(f"{flag}: cannot listen on {address}"):
            listening.opened(address).close()
