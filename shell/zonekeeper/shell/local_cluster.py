"""A cluster on one machine: the bookies of production as processes, their metadata in a file.

Only processes that were started from the cluster's folder are ever signalled (``local_processes``).
The root and the policy are made by the first start and left alone by every later one.
"""

import contextlib
import signal
import sys
import uuid
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from zonekeeper.metadata import bookie_watch, policy_store, registration
from zonekeeper.metadata import cluster as clusters
from zonekeeper.metadata.cluster import Cluster
from zonekeeper.metadata.errors import StoreError
from zonekeeper.metadata.malformed import UnreadableError
from zonekeeper.metadata.store import MetadataStore
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.placement.ids import BookieId, ZoneName
from zonekeeper.placement.locations import Location
from zonekeeper.placement.topology import Registration
from zonekeeper.shell import local_bookies, local_shape
from zonekeeper.shell.local_folder import BadRequestError, Folder, LocalError
from zonekeeper.shell.local_shape import Shape
from zonekeeper.shell.local_state import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One bookie as it is now."""

    id: BookieId
    location: Location
    #: The process, while it runs.
    pid: int | None
    #: No command stopped it, and it does not run.
    ended_by_itself: bool
    #: None: unknown.
    registration: Registration | None
    #: Where clients reach it; None: it says nothing of that now, or it is unknown.
    address: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """All bookies, and why something of them is unknown."""

    bookies: tuple[Seen, ...]
    unknown: str = ""


class LocalCluster:
    """The cluster of one folder, there or not."""

    def __init__(self, folder: Path) -> None:
        self.folder = Folder(folder)

    async def up(self, asked: Mapping[str, int] | None = None) -> tuple[BookieId, ...]:
        """Start every bookie that does not run; make the cluster first if there is none.

        ``asked`` are fields of the shape. One that is left out is as the cluster was made.
        """
        if sys.platform != "linux":
            raise BadRequestError("a local cluster needs Linux: it names processes by /proc")
        if self.folder.read() is None:
            self._prepare(Shape(**(asked or {})))
        with self.folder.alone():
            state = self.folder.read() or self.folder.make(Shape(**(asked or {})))
            if replace(state.shape, **(asked or {})) != state.shape:
                raise BadRequestError(
                    f"the cluster in {self.folder.path} has {state.shape}: leave these options "
                    "out, or make another cluster with another --folder"
                )
            async with self._opened() as store:
                cluster = await clusters.initialise(store, str(uuid.uuid4()))
                if await policy_store.read(cluster) is None:
                    rules = local_shape.policy(state.shape)
                    await policy_store.write(cluster, rules, replaces=0)
            return await local_bookies.start(self.folder, state, local_shape.places(state.shape))

    async def restore(self, zone: ZoneName) -> tuple[BookieId, ...]:
        """Start every bookie of a zone that does not run."""
        self._there()
        with self.folder.alone():
            state = self._there()
            return await local_bookies.start(self.folder, state, _of_zone(state, zone))

    async def kill(self, bookie: BookieId) -> None:
        """End a bookie at once and without warning, as a power cut would."""
        known = local_shape.places(self._there().shape)
        if bookie not in known:
            raise BadRequestError(f"there is no bookie {bookie}; there are {', '.join(known)}")
        await self._kill((bookie,), f"{bookie} does not run; nothing was killed")

    async def kill_zone(self, zone: ZoneName) -> tuple[BookieId, ...]:
        """End every bookie of a zone that runs, all at once."""
        wanted = _of_zone(self._there(), zone)
        return await self._kill(wanted, f"no bookie of zone {zone} runs; nothing was killed")

    async def down(self, *, purge: bool = False) -> tuple[BookieId, ...]:
        """Stop every bookie in order; ``purge`` removes what they kept, too."""
        self._there()
        with self.folder.alone():
            state = self._there()
            running = local_bookies.running(state)
            await local_bookies.end(running.values(), signal.SIGTERM)
            self.folder.write(state.stopped(state.marks.keys()))
            if purge:
                self.folder.purge()
        return tuple(running)

    async def status(self) -> Status:
        """Look at every bookie; changes nothing."""
        state = self._there()
        running = local_bookies.running(state)
        absent: tuple[Registration | None, None] = (Registration.ABSENT, None)
        registered: Mapping[BookieId, tuple[Registration, str | None]] = {}
        unknown = ""
        try:
            registered = await self._registered()
        except LocalError as error:
            absent, unknown = (None, None), str(error)
        return Status(
            unknown=unknown,
            bookies=tuple(
                Seen(
                    id=name,
                    location=place,
                    pid=running[name].pid if name in running else None,
                    ended_by_itself=name in state.marks and name not in running,
                    registration=registered.get(name, absent)[0],
                    address=registered.get(name, absent)[1],
                )
                for name, place in local_shape.places(state.shape).items()
            ),
        )

    def _prepare(self, shape: Shape) -> None:
        """Check what a new cluster needs before anything of it is made."""
        try:
            local_shape.check(shape)
            self.folder.path.mkdir(parents=True, exist_ok=True)
        except local_shape.BadShapeError as error:
            raise BadRequestError(str(error)) from error
        except OSError as error:
            reason = error.strerror or str(error)
            raise BadRequestError(f"--folder {self.folder.path}: {reason}") from error

    def _there(self) -> State:
        state = self.folder.read()
        if state is None:
            raise BadRequestError(
                f"there is no local cluster in {self.folder.path}: start one with `zonekeeper "
                "local up`, or give its --folder"
            )
        return state

    async def _kill(self, wanted: Collection[BookieId], nobody: str) -> tuple[BookieId, ...]:
        with self.folder.alone():
            state = self._there()
            running = local_bookies.running(state)
            hit = {name: running[name] for name in wanted if name in running}
            if not hit:
                raise BadRequestError(nobody)
            await local_bookies.end(hit.values(), signal.SIGKILL)
            self.folder.write(state.stopped(hit))
        return tuple(hit)

    async def _registered(self) -> dict[BookieId, tuple[Registration, str | None]]:
        """Read who is registered, and where they say that they are."""
        if not self.folder.store.exists():  # opening it would make a new one
            raise LocalError(f"{self.folder.store} is not there")
        async with self._opened() as store:
            cluster = await clusters.open_cluster(store)
            return {
                name: (side, await _address(cluster, name))
                for name, side in (await bookie_watch.registrations(cluster)).items()
            }

    @contextlib.asynccontextmanager
    async def _opened(self) -> AsyncIterator[MetadataStore]:
        try:
            store = await open_store(self.folder.address)
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


async def _address(cluster: Cluster, bookie: BookieId) -> str | None:
    info = await registration.read_service_info(cluster, bookie)
    if info is None or info.bookie is None:
        return None
    return f"{info.bookie.host}:{info.bookie.port}"


def _of_zone(state: State, zone: ZoneName) -> tuple[BookieId, ...]:
    zones = local_shape.zones(state.shape)
    if zone not in zones:
        raise BadRequestError(f"there is no zone {zone}; there are {', '.join(zones)}")
    places = local_shape.places(state.shape).items()
    return tuple(name for name, place in places if place.zone == zone)
