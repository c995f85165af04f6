"""A cluster on one machine: the processes of production, their metadata in a file or in ZooKeeper.

Only processes that were started from the cluster's folder are ever signalled (``local_processes``).
The first start makes the root and the policy; later starts leave them alone.

A zone is cut off by freezing its processes (SIGSTOP), because only root can cut a network. To
processes outside the zone both look the same: they get no answers, and sessions run out. Processes
inside a frozen zone do not see the others gone, as they would in a cut network. A process may be
frozen while it has the metadata file locked, and the lock would block all others. Then the zone
goes on for a moment, and is frozen again.
"""

import asyncio
import signal
import sys
import uuid
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from zonekeeper.client.base import beside_store
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import policy_store
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.metadata.stores.settings import METADATA
from zonekeeper.metadata.stores.timeouts import Timeouts
from zonekeeper.placement.base import misnamed
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.shell.local import (
    local_certificates,
    local_looking,
    local_processes,
    local_room,
    local_shape,
    local_starting,
    local_zookeeper,
)
from zonekeeper.shell.local.local_folder import BadRequestError, Folder, LocalError
from zonekeeper.shell.local.local_looking import LocalStatus
from zonekeeper.shell.local.local_processes import ProcessMark
from zonekeeper.shell.local.local_shape import Asked, Shape
from zonekeeper.shell.local.local_starting import Tell
from zonekeeper.shell.local.local_state import ZOOKEEPER, LocalState
from zonekeeper.shell.reaching import reaching
from zonekeeper.wire.grpc import tls

#: A zone is frozen at most this often until no process in it keeps the metadata locked.
_FREEZE_ATTEMPTS: Final = 20
#: A lock that is held for longer than this counts as held by a frozen process.
_LOCK_TIMEOUT: Final = Timeouts(request_ms=1_000)
_THAW_MS: Final = 50


class LocalCluster:
    """The cluster of one folder; it may not exist yet."""

    def __init__(self, folder: Path) -> None:
        self.folder = Folder(folder)
        #: Takes what a start does now, in words.
        self.tell: Tell = lambda _: None

    @property
    def address(self) -> str:
        """The metadata store's address; raises ``BadRequestError`` if there is no cluster."""
        return self.folder.address(self._there())

    @property
    def environment(self) -> dict[str, str]:
        """Give the variables that tell other commands, and programs, where the cluster is.

        The certificate of commands is named only where they do not find it by the address. Raises
        ``BadRequestError`` if there is no cluster.
        """
        state = self._there()
        told = {METADATA.environment: self.folder.address(state)}
        if state.shape.tls and state.shape.zookeeper:
            files = beside_store.files_in(self.folder.certificates / beside_store.ADMIN)
            paths = (files.authority, files.certificate, files.key)
            for setting, path in zip(tls.CLIENT_SETTINGS, paths, strict=True):
                told[setting.environment] = str(path)
        return told

    async def up(self, asked: Asked | None = None) -> tuple[BookieId, ...]:
        """Start every process that does not run; make the cluster first if there is none.

        ``asked`` are fields of the shape. A field that is left out is that of the existing cluster,
        or the default for a new one.
        """
        if sys.platform != "linux":
            raise BadRequestError("a local cluster needs Linux: it names processes by /proc")
        asked = asked or Asked()
        if self.folder.read() is None:
            self._prepare(Shape(**asked))
        with self.folder.alone():
            state = self.folder.read() or self._make(Shape(**asked))
            if replace(state.shape, **asked) != state.shape:
                raise BadRequestError(
                    f"the cluster in {self.folder.path} has {state.shape}: leave these options "
                    "out, or make another cluster with another --folder"
                )
            async with local_starting.all_or_nothing(self.folder, state, self.tell) as start:
                await start.zookeeper()
                await self._initialise(state)
                await start.bookies(local_shape.places(state.shape))
                await start.autorecovery(local_shape.autorecovery(state.shape))
            return tuple(start.started)

    async def restore(self, zone: ZoneName) -> tuple[BookieId, ...]:
        """Start the processes of a zone that do not run."""
        self._there()
        with self.folder.alone():
            state = self._there()
            wanted = _of_zone(state, zone)
            async with local_starting.all_or_nothing(self.folder, state, self.tell) as start:
                await start.bookies(wanted)
                await start.autorecovery(wanted)
            return tuple(start.started)

    async def kill(self, bookie: BookieId) -> None:
        """End a bookie at once and without warning (SIGKILL)."""
        known = local_shape.places(self._there().shape)
        if bookie not in known:
            raise BadRequestError(misnamed.there_is_no("bookie", bookie, known))
        await self._kill((bookie,), f"{bookie} does not run; nothing was killed")

    async def kill_autorecovery(self, name: BookieId) -> None:
        """End an autorecovery process at once and without warning (SIGKILL)."""
        known = local_shape.autorecovery(self._there().shape)
        if name not in known:
            there = ", ".join(known) or "none"
            raise BadRequestError(f"there is no autorecovery process {name}; there are {there}")
        await self._kill((name,), f"{name} does not run; nothing was killed")

    async def kill_zone(self, zone: ZoneName) -> tuple[BookieId, ...]:
        """End all running processes of a zone at once (SIGKILL)."""
        wanted = _of_zone(self._there(), zone)
        return await self._kill(wanted, f"nothing of zone {zone} runs; nothing was killed")

    async def partition(self, zone: ZoneName) -> tuple[BookieId, ...]:
        """Cut off a zone: its running processes are frozen until ``heal``."""
        self._there()
        with self.folder.alone():
            state = self._there()
            hit = _hit(state, zone, frozen=False)
            if not hit:
                raise BadRequestError(
                    f"nothing of zone {zone} runs that is not cut off; nothing was done"
                )
            await self._freeze(state, hit)
        return tuple(hit)

    async def heal(self, zone: ZoneName) -> tuple[BookieId, ...]:
        """Let the frozen processes of a zone go on."""
        self._there()
        with self.folder.alone():
            state = self._there()
            hit = _hit(state, zone, frozen=True)
            if not hit:
                raise BadRequestError(f"nothing of zone {zone} is cut off; nothing was done")
            _send(hit, signal.SIGCONT)
        return tuple(hit)

    async def down(self, *, purge: bool = False) -> tuple[BookieId, ...]:
        """Stop all processes in order; ``purge`` also removes the files of the cluster."""
        self._there()
        with self.folder.alone():
            state = self._there()
            running = local_starting.running(state)
            others = {name: mark for name, mark in running.items() if name != ZOOKEEPER}
            await local_starting.end(others.values(), signal.SIGTERM)
            if ZOOKEEPER in running:  # last: the others end their sessions with it
                await local_starting.end([running[ZOOKEEPER]], signal.SIGTERM)
            self.folder.write(state.stopped(state.marks.keys()))
            if purge:
                self.folder.purge()
        return tuple(running)

    async def status(self) -> LocalStatus:
        """Look at the whole cluster; changes nothing."""
        return await local_looking.look(self.folder, self._there())

    def _prepare(self, shape: Shape) -> None:
        """Check what a new cluster needs, and make its folder, before the cluster is made."""
        try:
            local_shape.check(shape)
            if shape.zookeeper:
                local_zookeeper.find()
            local_room.capacity_in(self.folder.bookies, len(local_shape.places(shape)))
            self.folder.path.mkdir(parents=True, exist_ok=True)
        except local_shape.BadShapeError as error:
            raise BadRequestError(str(error)) from error
        except OSError as error:
            reason = error.strerror or str(error)
            raise BadRequestError(f"--folder {self.folder.path}: {reason}") from error

    def _make(self, shape: Shape) -> LocalState:
        return self.folder.make(shape, local_zookeeper.free_port() if shape.zookeeper else None)

    async def _initialise(self, state: LocalState) -> None:
        """Make the root, the certificates and the policy, if they do not exist yet."""
        async with local_looking.opened(self.folder, state) as store:
            cluster = await clusters.initialise(store, str(uuid.uuid4()))
            if state.shape.tls:
                names = local_certificates.wanted(state.shape, cluster.instance)
                wall_ms = reaching.wall_ms()
                local_certificates.provide(self.folder.certificates, names, wall_ms=wall_ms)
            if await policy_store.read(cluster) is None:
                rules = local_shape.policy(state.shape)
                await policy_store.write(cluster, rules, replaces=0)

    def _there(self) -> LocalState:
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
            hit = _among(state, wanted)
            if not hit:
                raise BadRequestError(nobody)
            await local_starting.end(hit.values(), signal.SIGKILL)
            self.folder.write(state.stopped(hit))
        return tuple(hit)

    async def _freeze(self, state: LocalState, hit: Mapping[BookieId, ProcessMark]) -> None:
        try:
            for _ in range(_FREEZE_ATTEMPTS):
                _send(hit, signal.SIGSTOP)
                if await self._is_unlocked(state):
                    return
                _send(hit, signal.SIGCONT)
                await asyncio.sleep(_THAW_MS / 1_000)
        except BaseException:
            _send(hit, signal.SIGCONT)
            raise
        raise LocalError("the metadata store does not answer, so nothing was cut off")

    async def _is_unlocked(self, state: LocalState) -> bool:
        """Say whether the store can be written: a session is begun and ended."""
        try:
            await (await open_store(self.folder.address(state), _LOCK_TIMEOUT)).close()
        except StoreError:
            return False
        return True


def _among(state: LocalState, names: Collection[BookieId]) -> dict[BookieId, ProcessMark]:
    """Give the named processes that run, in the order of ``names``."""
    running = local_starting.running(state)
    return {name: running[name] for name in names if name in running}


def _hit(state: LocalState, zone: ZoneName, *, frozen: bool) -> dict[BookieId, ProcessMark]:
    """Give the running processes of a zone that are frozen, or those that are not."""
    return {
        name: mark
        for name, mark in _among(state, _of_zone(state, zone)).items()
        if local_processes.is_frozen(mark) is frozen
    }


def _send(hit: Mapping[BookieId, ProcessMark], number: signal.Signals) -> None:
    for mark in hit.values():
        local_processes.send(mark, number)


def _of_zone(state: LocalState, zone: ZoneName) -> tuple[BookieId, ...]:
    zones = local_shape.zones(state.shape)
    if zone not in zones:
        raise BadRequestError(misnamed.there_is_no("zone", zone, zones))
    return local_shape.in_zone(state.shape, zone)
