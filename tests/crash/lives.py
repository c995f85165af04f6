"""Lives of a storage on a recording disk: what it did, and what it had promised when."""

import asyncio
import errno
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from tests.bookie.segments import keeping
from tests.bookie.segments.keeping import Driver, LedgerPromise
from tests.crash.disk_states import Disk
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem
from zonekeeper.bookie.formats.index import Change, MemoryOrdered
from zonekeeper.bookie.ledgers import admission
from zonekeeper.bookie.segments.arrivals import Sizes
from zonekeeper.bookie.segments.log import IDLE_MS, DiskFailedError
from zonekeeper.bookie.segments.log_ends import QUIET_MS
from zonekeeper.bookie.storage import storage
from zonekeeper.bookie.storage.storage import Storage
from zonekeeper.placement.base.ids import EntryId
from zonekeeper.wire.formats import errors
from zonekeeper.wire.formats.frames import Flags

T = TypeVar("T")

LEDGERS = (1, 2, 3)
#: Longer than a log takes to be covered and to have its end noted.
IDLE_S = 2 * (IDLE_MS + QUIET_MS) / 1_000
_CHANGES = {"create", "write", "allocate", "truncate", "sync", "remove", "rename", "sync_names"}


class LateDisk:
    """Does each piece of work some turns of the loop later, so that disks overtake each other."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._turn = asyncio.Lock()

    async def run(self, work: Callable[[], T]) -> T:
        async with self._turn:
            for _ in range(self._chance.randrange(6)):
                await asyncio.sleep(0)
            return work()

    async def close(self) -> None:
        async with self._turn:
            pass


@dataclass(frozen=True)
class Moment:
    """A disk, an index, and what was promised when they were so."""

    disk: Disk
    index_writes: Sequence[Sequence[Change]]
    index_synced: int
    promised: dict[int, LedgerPromise]
    mark: tuple[int, int]


@dataclass
class Recorder:
    """Notes a moment before each change of the disk or the index."""

    files: MemoryFileSystem
    store: MemoryOrdered
    #: What holds before this life is driven.
    inherited: dict[int, LedgerPromise] = field(default_factory=dict)
    mark: tuple[int, int] = (0, 0)
    driver: Driver | None = None
    kept: Storage | None = None
    moments: list[Moment] = field(default_factory=list)
    #: The moment to be noted; None: each of them.
    only: int | None = None
    #: A sync that fails, counted from the beginning.
    fail_sync: int | None = None
    calls: int = 0
    syncs: int = 0
    kinds: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.files.troubles = self._before
        write = self.store.write

        def recorded(changes: Sequence[Change], *, sync: bool) -> None:
            self._before("write", "index")
            write(changes, sync=sync)

        self.store.write = recorded  # type: ignore[method-assign]  # the index's calls are noted

    def note(self) -> None:
        """Note how things are."""
        promised = self.inherited if self.driver is None else self.driver.snapshot()
        if self.kept is not None:
            self.mark = max(self.mark, self.kept._rewriter._last.mark)
        self.moments.append(
            Moment(
                disk=Disk.of(self.files),
                index_writes=list(self.store.writes),
                index_synced=self.store.synced,
                promised=promised,
                mark=self.mark,
            )
        )

    def _before(self, kind: str, name: str) -> None:
        if kind not in _CHANGES:
            return
        if self.only is None or self.calls == self.only:
            self.note()
        self.calls += 1
        self.kinds.add(f"{kind} {name.split('-', maxsplit=1)[0]}")
        if kind == "sync":
            self.syncs += 1
            if self.syncs - 1 == self.fail_sync:
                raise OSError(errno.EIO, "input/output error", name)


async def play(seed: int) -> Recorder:
    """One life on an empty disk: a script that follows from the seed, and maybe a failing sync."""
    chance = random.Random(seed)
    files = keeping.fresh()
    recorder = Recorder(files=files, store=MemoryOrdered())
    if chance.random() < 0.3:
        recorder.fail_sync = chance.randrange(5, 80)
    sizes = Sizes(
        segment_bytes=chance.choice([2048, 3072, 4096]),
        segments_max=chance.randrange(3, 6),
        round_segments=chance.randrange(1, 5),
    )
    on = replace(
        keeping.devices(files, recorder.store),
        writing=LateDisk(chance),
        background=LateDisk(chance),
    )
    try:
        ends: dict[int, int] = {}
        kept = recorder.kept = await storage.open_storage(on, sizes, keeping.closed_at(ends))
        driver = recorder.driver = Driver(kept, ends)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(kept.run())
            await script(driver, chance)
            kept.log.close()
    except* (OSError, DiskFailedError, errors.IoFailed):
        assert recorder.fail_sync is not None
    recorder.note()
    return recorder


async def script(driver: Driver, chance: random.Random) -> None:
    """Some work in flight at any time; work that waits for a failed disk is cancelled with it.

    In the middle of every third life the log is idle until its end is noted.
    """
    ends = dict.fromkeys(LEDGERS, 0)
    for ledger_id in LEDGERS:
        await driver.state(ledger_id, admission.OpenWanted(opening=keeping.opening(ledger_id)))
    flying: list[Awaitable[None]] = []
    steps = chance.randrange(60, 110)
    for number in range(steps):
        flying.append(_step(driver, chance, ends))
        if chance.random() < 0.4:
            await asyncio.gather(*flying)
            flying.clear()
        elif chance.random() < 0.3:
            await asyncio.sleep(0)
        if number == steps // 2 and steps % 3 == 0:
            await asyncio.sleep(IDLE_S)
    await asyncio.gather(*flying)


def _step(driver: Driver, chance: random.Random, ends: dict[int, int]) -> Awaitable[None]:
    ledger_id = chance.choice(LEDGERS)
    end = ends[ledger_id]
    what = chance.random()
    if what < 0.08:
        return driver.state(ledger_id, _lac(ledger_id, chance.randrange(-1, end + 1)))
    if what < 0.10:
        return driver.state(ledger_id, admission.FenceWanted(master_key=keeping.KEY))
    if what < 0.13:
        opened = admission.OpenWanted(opening=keeping.opening(ledger_id, end))
        limbo = admission.LimboWanted(in_limbo=chance.random() < 0.7)
        return driver.state(ledger_id, opened if what < 0.12 else limbo)
    if what < 0.17:
        if what < 0.14:
            driver.close(ledger_id, chance.randrange(-1, end + 1))
        return driver.force()
    if what < 0.20:
        return asyncio.ensure_future(_collect(driver, ledger_id, chance))
    first, count = end, chance.randrange(1, 6)
    if chance.random() < 0.35:
        # Sent again, framed in another way, written back by a recovery; or ahead of its turn.
        first = max(0, end + chance.randrange(-6, 4))
    ids = list(range(first, first + count))
    if chance.random() < 0.2:
        ids = ids[::2]
    ends[ledger_id] = max(end, ids[-1] + 1)
    flags = chance.choice([Flags.PLAIN, Flags.PLAIN, Flags.RECOVERY, Flags.DEFERRED_SYNC])
    return driver.append(keeping.frame(ledger_id, ids, lac=max(-1, first - 1), flags=flags))


async def _collect(driver: Driver, ledger_id: int, chance: random.Random) -> None:
    """What garbage collection and compaction do, and a writer that does not know of it."""
    await driver.forget(ledger_id)
    if chance.random() < 0.7:
        await driver.state(ledger_id, admission.OpenWanted(opening=keeping.opening(ledger_id)))
    await driver.compact()


def _lac(ledger_id: int, lac: int) -> admission.ExplicitLacWanted:
    return admission.ExplicitLacWanted(packet=keeping.sealer(ledger_id).seal_lac(EntryId(lac)))


async def start_and_check(
    files: MemoryFileSystem, store: MemoryOrdered, moment: Moment, chance: random.Random
) -> Moment:
    """Start from a state, hold it to its promises, live a little; gives a moment of that life."""
    recorder = Recorder(
        files=files,
        store=store,
        inherited=moment.promised,
        mark=moment.mark,
        only=chance.randrange(40),
    )
    sizes = Sizes(segment_bytes=2048, segments_max=4)
    closed = {each: end for each, p in moment.promised.items() if (end := p.end) is not None}
    kept = await keeping.opened(files, store, sizes, policy=keeping.closed_at(closed))
    check_mark(files, moment)
    shown = await keeping.check(kept, moment.promised)
    driver = Driver(kept, closed)
    driver.promised = shown
    recorder.driver, recorder.kept = driver, kept
    log = asyncio.ensure_future(kept.log.run())
    await driver.append(keeping.frame(1, [9_000], lac=chance.randrange(-1, 3)))
    if kept.backlog.sealed:
        await kept._rewriter.round()
    await driver.append(keeping.frame(2, [9_000, 9_001], flags=Flags.DEFERRED_SYNC))
    if chance.random() < 0.25:
        await _collect(driver, chance.choice(LEDGERS), chance)
    await driver.state(3, admission.FenceWanted(master_key=keeping.KEY))
    kept.log.close()
    await log
    await keeping.check(kept, driver.promised)
    recorder.note()
    return recorder.moments[0]


def check_mark(files: MemoryFileSystem, moment: Moment) -> None:
    assert keeping.mark_of(files) >= moment.mark, "the mark went back"
