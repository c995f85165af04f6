"""A bookie's process: from its settings to serving, and back down in order.

Up: HTTP port, data folder (locked against a second process) → metadata store → a cluster of ours →
cookie, checked or written → the start is counted → the log is read → gRPC → registered → ready.
Whatever fails on the way up ends the process with one clear line, and what comes after it has not
happened: a bookie that is registered has its cookie, its log and its port.

Down, on SIGTERM: the registration is taken back, appends are refused, what is queued is written and
answered, then the ports close. Each step has a time limit.

In between, a lost session is replaced and the bookie registered again; until then it goes on
serving everybody who knows it. A disk that fails ends the process at once.
"""

import asyncio
import fcntl
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from http import HTTPStatus
from importlib import metadata
from pathlib import Path
from typing import Final

from zonekeeper.bookie import identity
from zonekeeper.bookie.disks import ThreadDisk
from zonekeeper.bookie.files import RealFileSystem
from zonekeeper.bookie.looking import Conditions, LookingServer, Page
from zonekeeper.bookie.segments import arrivals
from zonekeeper.bookie.segments.arrival_scan import DamagedLogError
from zonekeeper.bookie.segments.devices import Devices
from zonekeeper.bookie.segments.index import Index
from zonekeeper.bookie.segments.log import DiskFailedError
from zonekeeper.bookie.segments.rocks import RocksOrdered
from zonekeeper.bookie.segments.storage import Sizes, Storage, open_storage
from zonekeeper.bookie.service import Bookie
from zonekeeper.bookie.settings import Address, Settings
from zonekeeper.metadata import bookie_records, cookie_store, cookies, registration, service_info
from zonekeeper.metadata import cluster as clusters
from zonekeeper.metadata.cluster import Cluster
from zonekeeper.metadata.cookies import Cookie
from zonekeeper.metadata.errors import StoreError
from zonekeeper.metadata.malformed import UnreadableError
from zonekeeper.metadata.registration import Mode, Registrar
from zonekeeper.metadata.store import MetadataStore
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.metadata.stores.timeouts import Timeouts
from zonekeeper.placement.chance import Chance
from zonekeeper.wire.errors import IoFailed
from zonekeeper.wire.grpc_server import GrpcServer
from zonekeeper.wire.serving import Host

#: Threads for reads: a read that waits for the disk does not hold up another.
READ_THREADS: Final = 4

#: The index's folder, in that of the data.
INDEX_NAME: Final = "index"

LEAVE_TIMEOUT_MS: Final = 3_000
DRAIN_TIMEOUT_MS: Final = 10_000
SERVER_GRACE_MS: Final = 500
_RETRY_DELAY_MS: Final = 500
_TIMEOUTS: Final = Timeouts()

LOG: Final = "log"
SERVING: Final = "serving"
REGISTERED: Final = "registered"

_logger = logging.getLogger(__name__)

#: What may be wrong with the world; anything else is a bug, and shows as one.
_TROUBLES: Final = (
    OSError,
    StoreError,
    UnreadableError,
    clusters.NotAClusterError,
    clusters.ForeignRootError,
    registration.ForeignBookiesError,
    registration.NameTakenError,
    cookies.ZoneChangedError,
    cookies.LocationUnknownError,
    cookies.OtherBookieError,
    cookie_store.NoCookieError,
    cookie_store.CookieExistsError,
    identity.WrongDiskError,
    DamagedLogError,
    DiskFailedError,
    IoFailed,
)


class StoppedError(Exception):
    """The bookie cannot start, or cannot go on; the message says why and what to do."""


async def run(settings: Settings, chance: Chance, announce: Callable[[str], None]) -> None:
    """Run a bookie until SIGTERM or SIGINT; raises ``StoppedError``.

    ``announce`` hears once where the bookie is reached, when it is ready.
    """
    process = _Process(settings, announce)
    try:
        with _signals(process.stop):
            async with AsyncExitStack() as stack:
                await process.live(stack, chance)
    except asyncio.CancelledError:
        if not process.stopped_early:
            raise
    except _TROUBLES as trouble:
        raise StoppedError(str(trouble)) from trouble
    except BaseExceptionGroup as group:
        troubles, bugs = group.split(_TROUBLES)
        if troubles is None or bugs is not None:
            raise
        raise StoppedError(_first_of(troubles)) from group


class _Process:
    """One life of a bookie."""

    def __init__(self, settings: Settings, announce: Callable[[str], None]) -> None:
        self._settings = settings
        self._announce = announce
        self._conditions = Conditions(LOG, SERVING, REGISTERED)
        self._registered = asyncio.Event()
        #: Registers with the mode of now, not with one that was read before somebody else did.
        self._registering = asyncio.Lock()
        self._stop = asyncio.Event()
        self._life = asyncio.current_task()
        self._up = False
        self.stopped_early = False

    def stop(self) -> None:
        """Go down in order; on the way up, turn round at once."""
        if self._up:
            self._stop.set()
        elif self._life is not None:
            self.stopped_early = True
            self._life.cancel()

    async def live(self, stack: AsyncExitStack, chance: Chance) -> None:
        """Come up, serve until stopped, and go down."""
        settings = self._settings
        looking = LookingServer({"/healthz": _healthy, "/readyz": self._conditions.ready})
        with _explained(f"--http: cannot listen on {settings.http}"):
            http_port = await looking.listen(settings.http)
        stack.push_async_callback(looking.close)
        _check_free(settings.listen)
        files = stack.enter_context(_folder(settings.data))
        writing = await stack.enter_async_context(_disk("write", 1))
        background = await stack.enter_async_context(_disk("background", 1))
        reads = await stack.enter_async_context(_disk("read", READ_THREADS))
        store = await open_store(settings.metadata, _TIMEOUTS)
        stack.push_async_callback(store.close)
        cluster = await clusters.open_cluster(store)
        await registration.refuse_foreign(cluster)
        mine = identity.of_bookie(settings.bookie_id, cluster, settings.data)
        cookie = await identity.settle(
            cluster, mine, settings.location, files=files, disk=writing, chance=chance
        )
        boot_epoch = await bookie_records.next_boot(cluster, settings.bookie_id)
        index = await writing.run(lambda: RocksOrdered(settings.data / INDEX_NAME))
        devices = Devices(
            arrival_files=files,
            files=files,
            index=Index(index),
            writing=writing,
            background=background,
            reads=reads,
        )
        size = arrivals.segment_bytes_on((await writing.run(files.space)).total_bytes)
        storage = await open_storage(devices, Sizes(segment_bytes=size))
        stack.callback(storage.close)
        self._conditions.met(LOG)
        async with asyncio.TaskGroup() as tasks:
            bookie = Bookie(
                settings.bookie_id,
                storage,
                boot_epoch=boot_epoch,
                version=metadata.version("zonekeeper"),
                tasks=tasks,
            )
            writer = tasks.create_task(storage.run())
            async with _served(bookie, settings.listen) as port:
                self._conditions.met(SERVING)
                registrar = self._registrar(cluster, cookie, port)
                following = [
                    tasks.create_task(self._follow_session(registrar, bookie, store)),
                    tasks.create_task(self._follow_mode(registrar, bookie)),
                ]
                await self._registered.wait()
                self._up = True
                self._announce(
                    f"ready: bookie {settings.bookie_id} at {cookie.location}, "
                    f"grpc {settings.advertise}:{port}, http {settings.http.host}:{http_port}, "
                    f"boot {boot_epoch}"
                )
                await self._stop.wait()
                for task in following:
                    task.cancel()
                await self._go_down(registrar, bookie, storage, writer)

    def _registrar(self, cluster: Cluster, cookie: Cookie, port: int) -> Registrar:
        assert cookie.location is not None, "a bookie without a location does not start"
        info = service_info.of_bookie(self._settings.advertise, port, cookie.location, tls=False)
        return Registrar(cluster, cookie.bookie, info, session_timeout_ms=_TIMEOUTS.session_ms)

    async def _follow_session(
        self, registrar: Registrar, bookie: Bookie, store: MetadataStore
    ) -> None:
        """Register in each new session; while there is none, say so and go on serving."""
        async with store.watch_session() as sessions:
            async for session in sessions:
                if session.id is None or not session.connected:
                    self._conditions.missing(REGISTERED, f"{store.name} is out of reach")
                else:
                    await self._register(registrar, bookie)

    async def _follow_mode(self, registrar: Registrar, bookie: Bookie) -> None:
        """Register on the other side when a person changed the mode."""
        while True:
            read_only = bookie.read_only
            await bookie.mode_changed(read_only)
            await self._register(registrar, bookie)

    async def _register(self, registrar: Registrar, bookie: Bookie) -> None:
        while True:
            try:
                async with self._registering:
                    await registrar.register(Mode.READ_ONLY if bookie.read_only else Mode.WRITABLE)
            except StoreError as error:
                if not error.retryable:
                    raise
                self._conditions.missing(REGISTERED, str(error))
                await asyncio.sleep(_RETRY_DELAY_MS / 1_000)
            else:
                self._conditions.met(REGISTERED)
                self._registered.set()
                return

    async def _go_down(
        self,
        registrar: Registrar,
        bookie: Bookie,
        storage: Storage,
        writer: "asyncio.Task[None]",
    ) -> None:
        self._conditions.missing(SERVING, "stopping")
        try:
            async with asyncio.timeout(LEAVE_TIMEOUT_MS / 1_000):
                await registrar.leave()
        except (TimeoutError, StoreError) as error:
            _logger.warning("the registration goes with the session, not before: %s", error)
        bookie.drain()
        storage.log.close()
        await asyncio.wait([writer], timeout=DRAIN_TIMEOUT_MS / 1_000)
        if not writer.done():
            raise TimeoutError(
                f"{storage.log.waiting_bytes} bytes were not written within {DRAIN_TIMEOUT_MS} ms "
                "and were not acknowledged; is the disk still there?"
            )


def _healthy() -> Page:
    return Page(HTTPStatus.OK, "alive\n")


@asynccontextmanager
async def _served(bookie: Bookie, address: Address) -> AsyncIterator[int]:
    server = GrpcServer(Host(bookie), str(address), credentials=None)
    await server.start()
    try:
        yield server.port
    finally:
        await server.stop(SERVER_GRACE_MS)


@asynccontextmanager
async def _disk(name: str, threads: int) -> AsyncIterator[ThreadDisk]:
    disk = ThreadDisk(name, threads=threads)
    try:
        yield disk
    finally:
        await disk.close()


@contextmanager
def _folder(path: Path) -> Iterator[RealFileSystem]:
    """Open the data folder, for this process alone; make it, but not what it stands in."""
    with _explained(f"--data: {path} cannot be used"):
        path.mkdir(exist_ok=True)
        files = RealFileSystem(path)
    try:
        with _explained(f"--data: {path} cannot be written"):
            lock = os.open(path / identity.LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            _lock(lock, path)
            yield files
        finally:
            os.close(lock)
    finally:
        files.close()


def _lock(descriptor: int, path: Path) -> None:
    """Take the lock; it goes with the process, however that ends."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise BlockingIOError(
            f"--data: {path} is in use by another bookie's process; stop it, or give this one its "
            "own folder"
        ) from error


def _check_free(address: Address) -> None:
    """Refuse a port that is taken before anything is changed."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with _explained(f"--listen: cannot listen on {address}"):
        socket.create_server((address.bare_host, address.port), family=family).close()


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """Put before an error of the operating system what it was about."""
    try:
        yield
    except OSError as error:
        raise OSError(f"{what}: {error.strerror or error}") from error


@contextmanager
def _signals(stop: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


def _first_of(group: BaseExceptionGroup[BaseException]) -> str:
    """Give the words of the first trouble in a group of troubles."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error)
