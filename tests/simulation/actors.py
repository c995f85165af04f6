"""The users of a simulated cluster: readers and recoverers (``writing``: writers), as processes.

They do what applications do, through the public face of the real client, and write down what they
asked for and what they were told. Errors of the client are lived with, and written down; anything
else that ends an actor is a bug. An actor that dies is followed by another of its name, which knows
nothing of it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from random import Random
from typing import Final

from tests.simulation import history as seen
from tests.simulation.loop import Process, loop
from tests.simulation.surroundings import Store, Surroundings
from zonekeeper.client.api import client as clients
from zonekeeper.client.api.client import Client
from zonekeeper.client.api.reader import Reader
from zonekeeper.client.base import errors
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.metadata.bookies import registration
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.placement.base.ids import NO_ENTRY, BookieId, EntryId, LedgerId, ZoneName
from zonekeeper.replication.run.autorecovery import Autorecovery, Worker
from zonekeeper.wire.contract.links import LinkSettings
from zonekeeper.wire.formats.entries import Entry
from zonekeeper.wire.link.stream_link import StreamLink

#: What a client's writers may hold, its lanes, and what a read of it may bring: most have enough,
#: some so little that appends wait for room, lanes are full, and reads come in pieces.
_WRITER_BYTES: Final = (64 << 20, 64 << 20, 1_200, 500)
_LANE_BYTES: Final = (64 << 20, 64 << 20, 1_000, 400)
_READ_BYTES: Final = (2 << 20, 2 << 20, 200)


#: Some give an entry up soon. The others wait for longer than the patience of the liveness phase:
#: what has come to no end by then would not have come to one.
_ADD_TIMEOUTS_MS: Final = (90_000, 90_000, 90_000, 300)


def _link_settings(timeout_ms: int, budget_bytes: int) -> LinkSettings:
    return LinkSettings(
        budget_bytes=budget_bytes,
        connect_timeout_ms=timeout_ms // 2,
        append_timeout_ms=timeout_ms,
        read_timeout_ms=timeout_ms,
        call_timeout_ms=timeout_ms,
        back_off_first_ms=50,
        back_off_max_ms=1_000,
    )


#: After a failure, an actor tries again so much later.
AGAIN_MS: Final = 150


class Board:
    """What actors tell each other outside the world: which ledgers there are."""

    def __init__(self) -> None:
        self.ledgers: list[LedgerId] = []
        #: The writer of the newest ledger.
        self.writer = ""
        #: Ledgers whose writers have not come to an end, whatever end; in order. One may stand here
        #: twice: a store that was set back may give its id once more.
        self.under_way: list[LedgerId] = []
        #: The batch that comes next by the checkpoint of each query, which outlives its drivers.
        self.checkpoints: dict[str, int] = {}

    def choose(self, chance: Random) -> LedgerId | None:
        """Give a ledger, most often a new one."""
        if not self.ledgers:
            return None
        return chance.choice((*self.ledgers, *self.ledgers[-1:] * 3))


def _nobody_cares(who: str) -> None:
    del who


class Observer:
    """Sees the metadata store and every disk as they are, for the checker's eyes only."""

    def __init__(
        self,
        around: Surroundings,
        holds: Callable[[BookieId, LedgerId, EntryId], bool],
    ) -> None:
        self.board = Board()
        self.ledgers: dict[LedgerId, LedgerMetadata] = {}
        #: Ledgers whose last ensemble had an ack quorum of bookies without their disks, or in limbo
        #: for the ledger, when it was chosen. So nobody can say that it is empty.
        self.doomed: set[LedgerId] = set()
        #: Is told the name of each actor that begins a recovery.
        self.on_recovery: Callable[[str], None] = _nobody_cares
        #: Set, and at once cleared, when there is something to recover.
        self.tip = asyncio.Event()
        self.around = around
        self._holds = holds

    def copies(self, ledger_id: LedgerId, first: int, last: int) -> tuple[int, ...]:
        """Give how many copies each of these entries has where metadata shows it."""
        metadata = self.ledgers.get(ledger_id)
        if metadata is None:
            return ()
        return tuple(self._copies(metadata, ledger_id, entry) for entry in range(first, last + 1))

    def password(self, ledger_id: LedgerId) -> bytes:
        """Give what a ledger is opened with; its creator may be gone without a word."""
        metadata = self.ledgers.get(ledger_id)
        return b"" if metadata is None else metadata.password

    def _copies(self, metadata: LedgerMetadata, ledger_id: LedgerId, entry: int) -> int:
        return sum(
            self._holds(bookie, ledger_id, EntryId(entry)) for bookie in members(metadata, entry)
        )


def members(metadata: LedgerMetadata, entry: int) -> list[BookieId]:
    """Give whose an entry is, by what metadata shows."""
    ensemble = metadata.fragment_of(EntryId(entry)).ensemble
    size = metadata.ensemble_size
    return [ensemble[(entry + step) % size] for step in range(metadata.write_quorum)]


class _Links:
    """A ``link_pool.LinkFactory`` over the network in memory; addresses stand in the store."""

    def __init__(
        self,
        around: Surroundings,
        cluster: Cluster,
        name: str,
        settings: LinkSettings,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._around = around
        self._cluster = cluster
        self._name = name
        self._tasks = tasks
        self._settings = settings

    async def find(self, bookie_id: BookieId) -> str | None:
        try:
            info = await registration.read_service_info(self._cluster, bookie_id)
        except StoreError:
            return None
        return None if info is None else bookie_id

    def make(self, bookie_id: BookieId, address: str) -> StreamLink:
        assert address == bookie_id
        return self._around.network.link(self._name, bookie_id, self._settings, tasks=self._tasks)


@asynccontextmanager
async def client_of(
    around: Surroundings, name: str, store: MemoryStore, chance: Random
) -> AsyncIterator[Client]:
    """Give a client to a process that has a connection to the metadata store."""
    cluster = await clusters.open_cluster(store)
    config = ClientConfig(
        zone=ZoneName(chance.choice("abc")),
        writer_budget_bytes=chance.choice(_WRITER_BYTES),
        add_timeout_ms=chance.choice(_ADD_TIMEOUTS_MS),
        read_bytes=chance.choice(_READ_BYTES),
        start_timeout_ms=3_000,
    )
    lanes = _link_settings(around.scenario.habits.timeout_ms, chance.choice(_LANE_BYTES))
    async with clients.on(
        cluster,
        lambda tasks: _Links(around, cluster, name, lanes, tasks),
        config,
        clients.Surroundings(chance, lambda: 0),
    ) as client:
        yield client


Doing = Callable[["Life"], Awaitable[None]]


@dataclass(slots=True)
class Life:
    """One life of an actor: its process and what dies with it."""

    name: str
    process: Process
    chance: Random
    around: Surroundings
    observer: Observer
    #: How an entry's writer is told apart from a later one of the same name.
    number: int
    store: Store | None = None
    task: "asyncio.Task[None] | None" = None
    client: Client | None = None
    handles: int = 0

    @property
    def the_client(self) -> Client:
        assert self.client is not None
        return self.client

    def handle(self) -> str:
        """Name another handle of this process."""
        self.handles += 1
        return f"{self.process.name}/{self.handles}"


@dataclass(slots=True)
class Actor:
    """An actor's place: an actor of that name is there, or was and will be."""

    name: str
    around: Surroundings
    observer: Observer
    doing: Doing
    life: Life | None = None
    lives: int = field(default=0)

    def start(self) -> None:
        """Start an actor, if there is none."""
        if self.life is not None:
            return
        self.lives += 1
        process = self.around.process(f"{self.name}.{self.lives}")
        chance = self.around.scenario.chance(f"life {self.lives} of {self.name}")
        life = Life(self.name, process, chance, self.around, self.observer, self.lives)
        self.life = life
        life.task = self.around.tasks.create_task(self._live(life), context=process.context)

    def crash(self, bookies: Sequence[BookieId]) -> None:
        """End the process at once."""
        life, self.life = self.life, None
        if life is None:
            return
        # Cut off first: no process hears what its tasks do while they are cancelled.
        if life.store is not None:
            life.store.leave()
        for bookie in bookies:
            self.around.network.disconnect(self.name, bookie)
        loop().go_on(life.process)
        if life.task is not None:
            life.task.cancel()

    async def _live(self, life: Life) -> None:
        while self.life is life:
            life.store = self.around.open_store(f"life {life.number} of {life.name}")
            try:
                async with client_of(self.around, life.name, life.store, life.chance) as client:
                    life.client = client
                    await self.doing(life)
                    return
            except (errors.ClientError, StoreError):
                await life.store.close()
                await asyncio.sleep(AGAIN_MS / 1_000)
            except Exception as error:  # noqa: BLE001 whatever it is, it is a bug to report
                self.around.note(seen.Broke(what=f"{life.process.name}: {_first(error)!r}"))
                return


async def follow_ledgers(life: Life) -> None:
    """Open ledgers without a recovery, and read on as they grow."""
    while True:
        ledger_id = life.observer.board.choose(life.chance)
        if ledger_id is not None:
            handle = life.handle()
            follow = life.chance.choices((_tail, _glimpse, _follow), (4, 2, 4))[0]
            try:
                await follow(life, handle, ledger_id)
            except errors.ClientError as error:
                note_failed(life.around, handle, ledger_id, error)
            except TimeoutError:
                pass
        await asyncio.sleep(life.chance.random())


async def _open(life: Life, ledger_id: LedgerId) -> Reader:
    password = life.observer.password(ledger_id)
    return await life.the_client.open(ledger_id, password=password, recover=False)


async def _follow(life: Life, handle: str, ledger_id: LedgerId) -> None:
    reader = await _open(life, ledger_id)
    following, known = EntryId(0), NO_ENTRY
    for _ in range(life.chance.randrange(1, 6)):
        life.around.note(seen.Asked(handle=handle, ledger=ledger_id))
        confirmed = await reader.read_last_confirmed()
        _note_confirmed(life, handle, ledger_id, EntryId(known + 1), confirmed)
        known = confirmed
        following = await read_on(life.around, reader, handle, following, confirmed)
        await asyncio.sleep(life.chance.random())


async def _tail(life: Life, handle: str, ledger_id: LedgerId) -> None:
    """Follow a ledger as it grows, until its end or for a while."""
    reader, following = await _open(life, ledger_id), EntryId(0)
    async with asyncio.timeout(life.chance.random() * 3), reader.follow() as tail:
        while entries := await tail.read_many(1 << 20):
            _note_confirmed(life, handle, ledger_id, following, entries[-1].entry_id)
            for entry in entries:
                _note_got(life.around, handle, ledger_id, following, entry)
                following = EntryId(following + 1)
        life.around.note(
            seen.Ended(handle=handle, ledger=ledger_id, following=following, last=None)
        )


async def _glimpse(life: Life, handle: str, ledger_id: LedgerId) -> None:
    """Look at what may never be confirmed: it is what its writer appended, whatever comes of it."""
    reader, wanted = await _open(life, ledger_id), EntryId(0)
    async with aclosing(reader.read_unconfirmed()) as batches:
        async for batch in batches:
            for entry in batch:
                life.around.note(
                    seen.Glimpsed(
                        handle=handle,
                        ledger=ledger_id,
                        wanted=wanted,
                        entry=entry.entry_id,
                        value=bytes(entry.payload),
                    )
                )
                wanted = EntryId(wanted + 1)


def note_failed(
    around: Surroundings, who: str, ledger_id: LedgerId | None, error: errors.ClientError
) -> None:
    """Write an error down: the checker knows which of them the state of the world allows."""
    around.note(
        seen.Failed(
            who=who, ledger=ledger_id, error=type(error).__name__, retryable=error.retryable
        )
    )


def _note_confirmed(
    life: Life, handle: str, ledger_id: LedgerId, first: EntryId, last: EntryId
) -> None:
    copies = life.observer.copies(ledger_id, first, last)
    life.around.note(
        seen.Confirmed(handle=handle, ledger=ledger_id, first=first, last=last, copies=copies)
    )


def _note_got(
    around: Surroundings, handle: str, ledger_id: LedgerId, wanted: EntryId, entry: Entry
) -> None:
    around.note(
        seen.Got(
            handle=handle,
            ledger=ledger_id,
            wanted=wanted,
            entry=entry.entry_id,
            value=bytes(entry.payload),
        )
    )


async def recover_ledgers(life: Life) -> None:
    """Take ledgers from their writers, and read what became of them."""
    grid_ms = life.around.scenario.habits.grid_ms
    while True:
        now_ms = life.around.now_ms()
        wait_ms = grid_ms - now_ms % grid_ms + int(life.chance.random() ** 4 * grid_ms)
        tipped = False
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_ms / 1_000):
                tipped = await life.observer.tip.wait()
                await asyncio.sleep(life.chance.random() ** 2 * 0.1)
        board = life.observer.board
        ledger_id = board.ledgers[-1] if tipped else board.choose(life.chance)
        if ledger_id is None or (not tipped and life.chance.random() < 0.4):
            continue
        life.observer.on_recovery(life.name)
        with suppress(errors.ClientError):
            await recover(life.observer, life.the_client, life.handle(), ledger_id)
            continue
        await asyncio.sleep(life.chance.random())


async def repair_ledgers(life: Life) -> None:
    """Be auditor, stand-in zone watch and replicator, as far as one is elected."""
    worker = Worker(
        name=BookieId(life.process.name), chance=life.chance, wall_ms=life.around.now_ms
    )
    await Autorecovery(life.the_client, worker).run()


async def recover(observer: Observer, client: Client, handle: str, ledger_id: LedgerId) -> EntryId:
    """Recover a ledger, read all of it, and give its end; raises ``ClientError``."""
    around = observer.around
    try:
        reader = await client.open(ledger_id, password=observer.password(ledger_id), recover=True)
        last = reader.metadata.last_entry
        around.note(seen.Recovered(ledger=ledger_id, last=last))
        await read_on(around, reader, handle, EntryId(0), last)
    except errors.ClientError as error:
        note_failed(around, handle, ledger_id, error)
        raise
    return last


async def read_on(
    around: Surroundings, reader: Reader, handle: str, first: EntryId, last: EntryId
) -> EntryId:
    """Read entries and write them down; give the one that comes next."""
    wanted = first
    if first > last:
        return first
    try:
        async with aclosing(reader.read_entries(first, last)) as entries:
            async for entry in entries:
                _note_got(around, handle, reader.ledger_id, wanted, entry)
                wanted = EntryId(wanted + 1)
    except errors.EntryLost:
        around.note(seen.Denied(handle=handle, ledger=reader.ledger_id, entry=wanted))
        raise
    around.note(seen.Ended(handle=handle, ledger=reader.ledger_id, following=wanted, last=last))
    return wanted


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
