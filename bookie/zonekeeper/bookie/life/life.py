"""The life of a bookie without sockets, signals and threads: the same in a process and simulated.

Start: the cookie is checked or written → the start is counted → the disk is read. A step that fails
ends the life, and no later step happens. So a registered bookie has its cookie, its boot epoch and
its data.

Running (``Presence``): after a lost session the bookie registers again, on the side of its mode.
Until then it goes on serving clients that have its address. Before each registration it looks
whether the metadata was set back. A bookie that lost its registration to a later start of itself
ends: two processes would acknowledge entries on two disks that differ.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from zonekeeper.bookie.disk.disks import Disk
from zonekeeper.bookie.disk.files import FileSystem
from zonekeeper.bookie.formats.index import Index, Ordered
from zonekeeper.bookie.ledgers import admission
from zonekeeper.bookie.life import boots, identity
from zonekeeper.bookie.life.witness import Witness
from zonekeeper.bookie.segments.arrivals import Sizes
from zonekeeper.bookie.segments.devices import Devices
from zonekeeper.bookie.serving.service import BookieServer
from zonekeeper.bookie.serving.vouching import Standings, Vouched
from zonekeeper.bookie.storage import storage as storages
from zonekeeper.bookie.storage.rewrite import Ends
from zonekeeper.bookie.storage.storage import Storage, StoragePolicy
from zonekeeper.metadata.bookies import bookie_records
from zonekeeper.metadata.bookies.registration import Mode, Registrar
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.cookies import Cookie
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.formats.service_info import ReadOnlyReason
from zonekeeper.metadata.ledgers import ledgers, vouchers
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.metadata.store.store import MetadataStore, SessionId
from zonekeeper.placement.base.chance import Chance
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.placement.base.locations import Location
from zonekeeper.wire.formats import digests
from zonekeeper.wire.formats.errors import MetadataAway

STORAGE: Final = "storage"
SERVING: Final = "serving"
REGISTERED: Final = "registered"

LEAVE_TIMEOUT_MS: Final = 3_000
_RETRY_DELAY_MS: Final = 500

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class BookieGround:
    """The folders of a bookie, the disks that work on them, and wall time."""

    #: By path; the data folder is under None.
    folders: Mapping[str | None, FileSystem]
    #: The folder for arrival segments, perhaps the data folder.
    journal: FileSystem
    #: The folders for sorted segments, perhaps only the data folder.
    ledgers: Sequence[FileSystem]
    writing: Disk
    background: Disk
    reads: Disk
    #: For reads of the newest entries.
    tails: Disk
    #: Opens the index's store; blocks.
    open_index: Callable[[], Ordered]
    #: Gives the sizes for a device of this many bytes.
    sizes: Callable[[int], Sizes]
    wall_ms: Callable[[], int]
    #: Within this block all that the disk keeps is read into memory.
    reading_in: Callable[[], AbstractContextManager[None]] = nullcontext


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A life that has begun; the bookie does not serve yet."""

    cookie: Cookie
    boot_epoch: int
    storage: Storage
    witness: Witness


async def begin(
    cluster: Cluster,
    mine: Cookie,
    location: Location | None,
    ground: BookieGround,
    *,
    policy: StoragePolicy,
    chance: Chance,
) -> Begun:
    """Do all steps of a start before serving.

    If the folder is this bookie's, the witness looks first. So a store that was set back is marked
    even if it does not know the bookie any more, and the bookie is refused.

    Raises the errors of ``identity.settle_all``, ``boots.next_boot`` and ``storage.open_storage``.
    """
    writing = ground.writing
    witness = Witness(
        cluster, mine.bookie, ground.folders[None], ground.background, wall_ms=ground.wall_ms
    )
    version = await writing.run(partial(identity.read, ground.folders[None]))
    if version is not None and identity.is_of(version, mine):
        await witness.try_look()
    cookie = await identity.settle_all(
        cluster, mine, location, ground.folders, disk=writing, chance=chance
    )
    boot_epoch = await boots.next_boot(
        cluster, cookie.bookie, ground.folders, journal=ground.journal, disk=writing
    )
    devices = Devices(
        arrival_files=ground.journal,
        sorted_files=ground.ledgers,
        files=ground.folders[None],
        index=Index(await writing.run(ground.open_index)),
        writing=writing,
        background=ground.background,
        reads=ground.reads,
        tails=ground.tails,
    )
    space = await writing.run(ground.journal.space)
    with ground.reading_in():
        storage = await storages.open_storage(
            devices, ground.sizes(space.total_bytes), replace(policy, ends=ends_in(cluster))
        )
    if any(ledger.durable.in_limbo for ledger in storage.memory.ledgers.values()):
        await bookie_records.lost_data(cluster, cookie.bookie, boot_epoch)
    return Begun(cookie=cookie, boot_epoch=boot_epoch, storage=storage, witness=witness)


def ends_in(cluster: Cluster) -> Ends:
    """Give a function that asks the metadata for ledgers' ends.

    If one of them cannot be read, all ends of that call are unknown.
    """

    async def proven(ledger_ids: Sequence[LedgerId]) -> Mapping[LedgerId, EntryId]:
        try:
            return await ledgers.proven_ends(cluster, ledger_ids)
        except (StoreError, UnreadableError):
            return {}  # all entries are kept while an end is unknown

    return proven


def standing_in(cluster: Cluster) -> Standings:
    """Give a function that reads what metadata says of a ledger.

    What cannot be read is unknown: the request is refused, and may be sent again.
    """

    async def standing(ledger_id: LedgerId) -> admission.Standing:
        try:
            stored = await ledgers.read(cluster, ledger_id, sync=True)
        except (StoreError, UnreadableError) as error:
            raise MetadataAway(
                f"ledger {ledger_id}: its metadata is needed here, and cannot be read: {error}"
            ) from error
        if stored is None:
            return admission.Gone()
        key = digests.master_key(stored.metadata.password)
        return admission.Stands(
            master_key=key,
            create_token=stored.metadata.create_token,
            owner=stored.metadata.owner,
        )

    return standing


def vouched_in(cluster: Cluster, bookie: BookieId) -> Vouched:
    """Give a function that asks the metadata for a repair's voucher.

    A voucher that cannot be read is none: the limbo lasts.
    """

    async def vouched(ledger_id: LedgerId, boot_epoch: int) -> bool:
        try:
            voucher = await vouchers.read(cluster, ledger_id, bookie)
        except UnreadableError:
            return False
        except StoreError as error:
            raise MetadataAway(
                f"{bookie} must read the voucher for ledger {ledger_id} before its limbo ends: "
                f"{error}"
            ) from error
        return voucher is not None and voucher.boot_epoch == boot_epoch

    return vouched


class Conditions:
    """The conditions that a bookie must meet to be ready, by name, in the order of a start.

    A remark is no condition: a bookie with remarks is ready, and shows them.
    """

    def __init__(self, *names: str) -> None:
        self._missing: dict[str, str] = dict.fromkeys(names, "not yet")
        self._remarks: dict[str, str] = {}

    def met(self, name: str) -> None:
        """Note that a condition is met."""
        self._missing.pop(name, None)

    def missing(self, name: str, why: str) -> None:
        """Note that a condition is not met, and why."""
        self._missing[name] = why

    def remark(self, name: str, text: str | None) -> None:
        """Replace the remark of this name; None: there is nothing to remark."""
        self._remarks.pop(name, None)
        if text is not None:
            self._remarks[name] = text

    @property
    def remarks(self) -> dict[str, str]:
        """The remarks, by name."""
        return dict(self._remarks)

    @property
    def unmet(self) -> dict[str, str]:
        """The conditions that are not met, and why."""
        return dict(self._missing)


class Presence:
    """Keeps a bookie registered, on the side of its mode, until it leaves."""

    def __init__(
        self,
        registrar: Registrar,
        bookie: BookieServer,
        store: MetadataStore,
        conditions: Conditions,
        witness: Witness,
    ) -> None:
        self._registrar = registrar
        self._witness = witness
        self._bookie = bookie
        self._store = store
        self._conditions = conditions
        #: Set when the bookie is registered for the first time.
        self.begun = asyncio.Event()
        #: The last registration that was logged: its side and its session.
        self._told: tuple[Mode, SessionId | None] | None = None
        #: One task registers at a time, and reads the mode under this lock. So a task that waited
        #: does not register with an old mode.
        self._turn = asyncio.Lock()

    async def keep(self) -> None:
        """Register, and register again whenever needed, until cancelled.

        Raises ``NameTakenError`` as soon as a later start of this bookie is seen to be registered.
        """
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_session())
            tasks.create_task(self._follow_mode())
            for mode in Mode:
                tasks.create_task(self._follow_registration(mode))

    async def leave(self) -> None:
        """Take the registration back; if that fails or is late, it ends with the session."""
        try:
            async with asyncio.timeout(LEAVE_TIMEOUT_MS / 1_000):
                await self._registrar.leave()
        except (TimeoutError, StoreError) as error:
            _logger.warning("the registration ends only with the session: %s", error)

    async def _follow_session(self) -> None:
        """Register in each new session; while there is none, mark the condition as not met."""
        async with self._store.watch_session() as sessions:
            async for session in sessions:
                if session.id is None or not session.connected:
                    self._conditions.missing(REGISTERED, f"{self._store.name} is out of reach")
                else:
                    await self._register()

    async def _follow_mode(self) -> None:
        while True:
            await self._bookie.modes.other_than(self._bookie.modes.reasons)
            await self._register()

    async def _follow_registration(self, mode: Mode) -> None:
        await self.begun.wait()  # what is seen first is then not from before the registration
        async with aclosing(self._registrar.taken_away(mode)) as lapses:
            async for _ in lapses:
                _logger.warning("the registration was taken away; registering again")
                self._told = None
                await self._register()

    async def _register(self) -> None:
        """Return when the bookie is registered with the mode and the reasons of that moment.

        All registrations are made here. Before each one, and in its session, the witness looks. So
        a store that was set back is marked before the bookie gets entries of ledgers with ids that
        the store gave out before.
        """
        registered: tuple[ReadOnlyReason, ...] | None = None
        while registered != self._bookie.modes.reasons:
            try:
                async with self._turn:
                    wanted = self._bookie.modes.reasons
                    self._registrar.say_read_only(wanted)
                    mode = Mode.READ_ONLY if wanted else Mode.WRITABLE
                    await self._registrar.register(mode, first=self._witness.try_look)
            except StoreError as error:
                if not error.retryable:
                    raise
                self._conditions.missing(REGISTERED, str(error))
                _logger.debug("not registered: %s", error)
                await asyncio.sleep(_RETRY_DELAY_MS / 1_000)
            else:
                registered = wanted
                self._log(mode)
        self._conditions.met(REGISTERED)
        self.begun.set()

    def _log(self, mode: Mode) -> None:
        """Log a registration: once for each side in each session."""
        told = (mode, self._store.session.id)
        if told != self._told:
            self._told = told
            _logger.info("registered as %s", mode.value, extra={"mode": mode.value})
