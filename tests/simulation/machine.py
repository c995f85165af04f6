"""A simulated bookie: the real one, on a disk that outlives it and a process that may die.

The way up is the real one, ``bookie.life``, over the twins. Segments are small, so that a life has
rewrites in it. The index is as forgetful as a disk: a power loss may take its newest writes, or all
of it.
A start that fails for want of the metadata store is tried again, as a supervisor would; anything
else that ends a bookie, and that was not ordered, is a bug.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

from tests.simulation import disk as disks
from tests.simulation import history as seen
from tests.simulation import keeping
from tests.simulation.disk import Rot, SimulatedDisk
from tests.simulation.loop import Process, loop
from tests.simulation.scenarios import Scenario
from tests.simulation.surroundings import Store, Surroundings
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem, no_troubles
from zonekeeper.bookie.formats import locations
from zonekeeper.bookie.formats.index import Index, MemoryOrdered
from zonekeeper.bookie.ledgers import extents
from zonekeeper.bookie.life import identity
from zonekeeper.bookie.life import life as lives
from zonekeeper.bookie.life.data_folder import HeldFolders
from zonekeeper.bookie.life.life import BookieGround, Conditions, Presence
from zonekeeper.bookie.segments import directories
from zonekeeper.bookie.segments.arrivals import Sizes
from zonekeeper.bookie.segments.log import DiskFailedError
from zonekeeper.bookie.serving.service import BookieServer
from zonekeeper.bookie.storage.ledgers import Ledger
from zonekeeper.bookie.storage.storage import StoragePolicy
from zonekeeper.bookie.tools import replacing
from zonekeeper.bookie.tools.replacing import NewDisk
from zonekeeper.metadata.bookies.registration import NameTakenError, Registrar
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.formats import service_info
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.placement.base.locations import Location
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import carriers, entries
from zonekeeper.wire.formats.errors import ProtocolError
from zonekeeper.wire.formats.frames import Frame
from zonekeeper.wire.formats.proofs import Shown
from zonekeeper.wire.host.serving import Host
from zonekeeper.wire.running.bookie_config import KeyRule

#: Where its disk is mounted.
DATA: Final = Path("/data")

_START_AGAIN_MS = 500
#: The wall clock at the begin of a world.
_EPOCH_MS = 1_000_000
_SEGMENTS_MAX = 6
#: Where time is long and ledgers are repaired: a target gets as much as there is.
_LARGE_BYTES = 256 << 10
#: How likely a power loss takes the whole index.
_INDEX_LOST = 0.1
#: How much of what may rot does so at a time.
_ROTTEN = 0.5


class _Watched(BookieServer):
    """A bookie that remembers which fences it has answered for."""

    def watch(
        self,
        on_frame: Callable[[Frame], None],
        on_recovery_read: Callable[[LedgerId, EntryId], None],
    ) -> None:
        self.fenced: set[LedgerId] = set()
        self._on_frame = on_frame
        self._on_recovery_read = on_recovery_read

    async def forget(self, ledger_id: LedgerId) -> None:
        """Forget a ledger, as collection does."""
        if ledger_id in self._memory.ledgers:
            await self._storage.forget([ledger_id])

    def append(self, items: Sequence[carriers.Request], replies: service.Replies) -> None:
        for item in items:
            if isinstance(item, carriers.Append):
                self._on_frame(item.frame)
        super().append(items, replies)

    async def fence(
        self, ledger_id: LedgerId, master_key: Shown, create_token: int = 0
    ) -> service.LacEvidence:
        answer = await super().fence(ledger_id, master_key, create_token)
        self.fenced.add(ledger_id)
        return answer

    async def read(self, request: service.ReadRequest) -> service.ReadReply:
        if request.fence_key is not None:
            self._on_recovery_read(request.ledger_id, request.first_entry_id)
        answer = await super().read(request)
        if request.fence_key is not None:
            self.fenced.add(request.ledger_id)
        return answer


@dataclass(slots=True)
class _Life:
    """One life of a process: what dies with it."""

    process: Process
    writing: SimulatedDisk
    background: SimulatedDisk
    reads: SimulatedDisk
    tails: SimulatedDisk
    store: Store | None = None
    bookie: _Watched | None = None
    task: "asyncio.Task[None] | None" = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class Machine:
    """One bookie's place: it is there or not, its files always are."""

    def __init__(self, around: Surroundings, bookie_id: BookieId, location: Location) -> None:
        self.id = bookie_id
        self.location = location
        self.files = MemoryFileSystem()
        self.index = MemoryOrdered()
        self.slow_ms = 0.0
        self.stays_dead = False
        #: Has it lost its disk, and not got another?
        self.diskless = False
        self.ledgers: dict[LedgerId, Ledger] = {}
        #: Hears of each frame that comes.
        self.on_frame: Callable[[BookieId, Frame], None] = _nobody_listens
        #: Hears of each read of a recovery: of which ledger, and from which entry on.
        self.on_recovery_read: Callable[[LedgerId, EntryId], None] = _nobody_listens
        self._around = around
        self._chance: Random = around.scenario.chance(f"disk of {bookie_id}")
        self._life: _Life | None = None
        self._lives = 0
        #: The mode that a person ordered while the bookie was away.
        self._wanted_read_only: bool | None = None
        #: What went with each disk that it had before.
        self._lost: list[dict[LedgerId, Ledger]] = []
        #: When it lost a disk last.
        self.lost_ms = -1
        #: Has it served from the disk that it has?
        self.served = True

    @property
    def running(self) -> bool:
        """Is there a process, on its way up or serving?"""
        return self._life is not None

    @property
    def process(self) -> Process | None:
        """The process, while there is one."""
        return None if self._life is None else self._life.process

    @property
    def store(self) -> MemoryStore | None:
        """The process's connection to the metadata store."""
        return None if self._life is None else self._life.store

    @property
    def serving(self) -> BookieServer | None:
        """The bookie, while it serves."""
        return None if self._life is None else self._life.bookie

    def start(self) -> None:
        """Let there be a process, if there is none."""
        if self._life is not None or self.stays_dead or self.diskless:
            return
        self._lives += 1
        process = self._around.process(f"{self.id}.{self._lives}")
        life = _Life(
            process,
            SimulatedDisk(self._disk_ms),
            SimulatedDisk(self._disk_ms),
            SimulatedDisk(self._disk_ms),
            SimulatedDisk(self._disk_ms),
        )
        self._life = life
        life.task = self._around.tasks.create_task(self._live(life), context=process.context)

    def crash(self, *, power: bool, half_open: bool = False) -> None:
        """End the process at once. Power loss: what was not synced may be gone.

        Half-open: its clients hear of it only by keep-alive.
        """
        life = self._life
        if life is None:
            return
        if life.bookie is not None:
            self._around.note(seen.Crashed(kept=self.kept()))
        self._life = None
        # Cut off first: no process hears what its tasks do while they are cancelled.
        if life.store is not None:
            life.store.leave()
        if life.bookie is not None:
            self._around.network.take_down(self.id, half_open=half_open)
        life.reads.stop()
        life.tails.stop()
        self.files = disks.crash((life.writing, life.background), self.files, self._chance)
        self.files.troubles = no_troubles
        if power:
            self.files = self.files.crashed(self._chance)
            self.index = self._index_after()
        loop().go_on(life.process)
        if life.task is not None:
            life.task.cancel()

    def lose_disk(self) -> None:
        """End the process, and everything that it ever wrote."""
        self.crash(power=True)
        self._around.note(seen.DiskLost(bookie=self.id))
        self._lost.append(self.ledgers)
        self.lost_ms = self._around.now_ms()
        self.ledgers, self.served = {}, False
        self.files, self.index = MemoryFileSystem(), MemoryOrdered()
        self.diskless = True

    def get_disk(self, prepared: NewDisk) -> None:
        """Get an empty disk, prepared by the real tool, and start."""
        held = HeldFolders(folders={None: self.files}, journal=self.files, ledgers=(self.files,))
        replacing.replace_disk(held, prepared, self._chance)
        self.diskless = False
        self.start()

    def rot(self, rot: Rot) -> int:
        """Let some frames rot; give how many.

        Only such as were sorted: of what a start has to read again, it would say that it is
        damaged, and be right.
        """
        frames = {(row.extent.offset, row.extent.size) for row in Index(self.index).rows()}
        rotting = [frame for frame in sorted(frames) if self._chance.random() < _ROTTEN]
        for location, size in rotting:
            number = locations.sorted_number(location)
            assert number is not None, "the index is of sorted segments"
            name, offset = directories.name_of(number), locations.offset_of(location)
            there = self.files.open(name).read(offset, size)
            disks.overwrite(self.files, name, offset, rot(there, self._chance))
        return len(rotting)

    def fail_next_sync(self) -> None:
        """Let the disk refuse to make something durable, once."""

        def refuse_once(kind: str, name: str) -> None:
            if kind == "sync":
                self.files.troubles = no_troubles
                raise OSError(5, "ordered by the scenario", name)

        self.files.troubles = refuse_once

    async def set_read_only(self, *, read_only: bool) -> None:
        """Do what a person does who makes it read-only, or writable again: at its next start, if
        it is not there."""
        life = self._life
        if life is None or life.bookie is None:
            self._wanted_read_only = read_only
            return
        try:
            await life.bookie.set_read_only(read_only=read_only)
        except ProtocolError:  # its disk fails, and it is about to end
            self._wanted_read_only = read_only

    async def collect(self, ledger_id: LedgerId) -> bool:
        """Forget a ledger that was deleted; False: it is not known whether that is done."""
        life = self._life
        if life is None or life.bookie is None:
            return False
        self._forgets(ledger_id)
        try:
            await life.bookie.forget(ledger_id)
        except ProtocolError:
            return False
        return True

    async def end_limbo(self) -> bool:
        """Be told, by somebody who repaired nothing, that all limbo is over."""
        life = self._life
        if life is None or life.bookie is None:
            return False
        told = False
        for ledger_id in self.in_limbo():
            told = True
            with suppress(ProtocolError):
                boot_epoch = (await life.bookie.info()).boot_epoch
                await life.bookie.end_limbo(ledger_id, boot_epoch)
        return told

    def in_limbo(self) -> list[LedgerId]:
        """Give the ledgers that it is in limbo for, as it was when it served last."""
        return [one for one, ledger in self.ledgers.items() if ledger.durable.in_limbo]

    def holds(self, ledger_id: LedgerId, entry_id: EntryId) -> bool:
        """Does this bookie say, or did it say until it died, that it has the entry on disk?

        A copy on a lost disk counts only while the bookie owes it: the promise is about the others
        then. What the bookie may deny is no copy.
        """
        if self.has(ledger_id, entry_id):
            return True
        return self.owes(ledger_id) and self.lost(ledger_id, entry_id)

    def has(self, ledger_id: LedgerId, entry_id: EntryId) -> bool:
        """Is the entry on the disk that it has?"""
        return _has(self.ledgers, ledger_id, entry_id)

    def owes(self, ledger_id: LedgerId) -> bool:
        """Is what it lost of a ledger unknown, and never denied, until it is repaired?"""
        if not self.served:
            return True
        ledger = self.ledgers.get(ledger_id)
        return ledger is not None and ledger.durable.in_limbo

    def lost(self, ledger_id: LedgerId, entry_id: EntryId) -> bool:
        """Was the entry on a disk that it lost?"""
        return any(_has(ledgers, ledger_id, entry_id) for ledgers in self._lost)

    def kept(self) -> tuple[seen.Kept, ...]:
        """Give all that this bookie answers for; before it serves, what its disk says."""
        told = None if self._life is None or self._life.bookie is None else self._life.bookie.fenced
        return tuple(
            seen.Kept(
                bookie=self.id,
                ledger=ledger_id,
                entries=frozenset(
                    EntryId(entry)
                    for first, last in extents.joined(
                        ledger.extents.between(EntryId(0), EntryId(entries.ID_END))
                    )
                    for entry in range(first, last + 1)
                ),
                confirmed=ledger.confirmed,
                fenced=ledger.durable.fenced if told is None else ledger_id in told,
            )
            for ledger_id, ledger in self.ledgers.items()
        )

    def _forgets(self, ledger_id: LedgerId) -> None:
        if self._life is not None and self._life.bookie is not None:
            self._life.bookie.fenced.discard(ledger_id)  # its id may come again
        self._around.note(seen.Collected(bookie=self.id, ledger=ledger_id))

    def _index_after(self) -> MemoryOrdered:
        """Give the index as a power loss may leave it."""
        if self._chance.random() < _INDEX_LOST:
            return MemoryOrdered()
        index = self.index
        return index.crashed(self._chance.randint(index.synced, len(index.writes)))

    def _disk_ms(self) -> float:
        return (1 + self._around.scenario.disk_max_ms * self._chance.random()) + self.slow_ms

    async def _live(self, life: _Life) -> None:
        """Come up, and serve until the process ends."""
        while self._life is life:
            try:
                await self._serve(life)
            except* (StoreError, NameTakenError):
                await self._end(life)
            except* (DiskFailedError, OSError):
                self.crash(power=False)
                self._around.later(_START_AGAIN_MS, self.start)
            except* Exception as group:  # noqa: BLE001 whatever it is, it is a bug to report
                self._around.note(seen.Broke(what=f"{life.process.name}: {_first(group)!r}"))
                self.crash(power=False)
            if self._life is life:
                await asyncio.sleep(_START_AGAIN_MS / 1_000)

    async def _end(self, life: _Life) -> None:
        """Give back what a process gives back that ends by itself."""
        if life.store is not None:
            await life.store.close()
            life.store = None
        if life.bookie is not None:
            self._around.note(seen.Crashed(kept=self.kept()))
            self._around.network.take_down(self.id)
            life.bookie = None

    async def _serve(self, life: _Life) -> None:
        around = self._around
        life.store = around.open_store(f"{self.id}")
        cluster = await clusters.open_cluster(life.store)
        mine = identity.of_bookie(self.id, cluster, DATA)
        begun = await lives.begin(
            cluster,
            mine,
            self.location,
            self._ground(life),
            policy=StoragePolicy(
                compacting=keeping.compacting(around.scenario.upkeep_every_ms),
                wall_ms=lambda: _EPOCH_MS + around.now_ms(),
            ),
            chance=self._chance,
        )
        storage = begun.storage
        around.began(storage)
        self.ledgers, self.served = storage.memory.ledgers, True
        around.note(seen.Restarted(bookie=self.id, kept=self.kept()))
        async with asyncio.TaskGroup() as tasks:
            bookie = _Watched(
                self.id,
                storage,
                boot_epoch=begun.boot_epoch,
                version="sim",
                tasks=tasks,
            )
            bookie.vouched = lives.vouched_in(cluster, self.id)
            bookie.standing = lives.standing_in(cluster)
            bookie.keys.rule = KeyRule.ON
            bookie.watch(partial(self.on_frame, self.id), self.on_recovery_read)
            tasks.create_task(storage.run())
            if every_ms := around.scenario.upkeep_every_ms:
                telling = keeping.Telling(storage, self._forgets)
                tasks.create_task(
                    keeping.collect(cluster, self.id, telling, begun.witness, every_ms)
                )
            life.bookie = bookie
            host = Host(bookie)
            storage.memory.on_forgetting = host.forgotten
            around.network.put_up(self.id, host, tasks=tasks)
            if self._wanted_read_only is not None:
                await bookie.set_read_only(read_only=self._wanted_read_only)
                self._wanted_read_only = None
            info = service_info.of_bookie(
                self.id, 3181, self.location, tls=False, boot_epoch=begun.boot_epoch
            )
            registrar = Registrar(
                cluster, self.id, info, session_timeout_ms=around.scenario.session_ms
            )
            await Presence(registrar, bookie, life.store, Conditions(), begun.witness).keep()

    def _ground(self, life: _Life) -> BookieGround:
        sizes = _sizes(self._around.scenario)
        return BookieGround(
            folders={None: self.files},
            journal=self.files,
            ledgers=(self.files,),
            writing=life.writing,
            background=life.background,
            reads=life.reads,
            tails=life.tails,
            open_index=lambda: self.index,
            sizes=lambda total_bytes: sizes,
            wall_ms=_wall_ms,
        )


def _sizes(scenario: Scenario) -> Sizes:
    """Give segments that are as small as they may be: the largest batch must fit.

    One that would be large is begun by others: a quarter of a segment, at most.
    """
    if scenario.autorecoveries:
        return Sizes(segment_bytes=_LARGE_BYTES, segments_max=_SEGMENTS_MAX)
    return Sizes(
        segment_bytes=512 + scenario.habits.ledger_bytes_max * 4 // 3,
        segments_max=_SEGMENTS_MAX,
        round_segments=1,
    )


def _has(ledgers: Mapping[LedgerId, Ledger], ledger_id: LedgerId, entry_id: EntryId) -> bool:
    ledger = ledgers.get(ledger_id)
    return ledger is not None and any(True for _ in ledger.extents.between(entry_id, entry_id))


def _wall_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1_000)


def _nobody_listens(*what: object) -> None:
    del what


def _first(group: BaseException) -> BaseException:
    while isinstance(group, BaseExceptionGroup):
        group = group.exceptions[0]
    return group
