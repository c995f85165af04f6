"""Damage at rest: one file of a bookie that stands still is removed, cut, zeroed or changed.

A bookie is made once: it lives twice, and is then stopped in order, or was idle long enough to be
*covered* and is killed. Each damage is done to a copy of all its folders, RocksDB included, and the
bookie is started on that. Damage is *noticed* if

* the start is refused, with words that name the file and say what to do, or
* what was in the damaged place reads as unknown.

Or nothing that counts was damaged: then all that was promised is there. An entry that is denied, an
entry with another content, a fence, limbo or LAC that is gone: each is damage that went unnoticed.
"""

import asyncio
import random
import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
from rocksdict import DbClosedError

from tests.bookie.segments import keeping
from tests.bookie.segments.keeping import Driver, LedgerPromise
from tests.crash import lives
from zonekeeper.bookie.disk.disks import InlineDisk
from zonekeeper.bookie.disk.files import RealFile, RealFileSystem
from zonekeeper.bookie.ledgers import admission
from zonekeeper.bookie.life import data_folder, identity, life
from zonekeeper.bookie.life.life import BookieGround
from zonekeeper.bookie.segments.arrivals import Sizes
from zonekeeper.bookie.segments.rocks import RocksOrdered
from zonekeeper.bookie.storage.storage import Storage
from zonekeeper.metadata.bookies import bookie_records, cookie_store
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.formats import cookies
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.metadata.stores.memory_server import MemoryServer
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.troubles import Trouble
from zonekeeper.wire.formats import errors, frames

BOOKIE: Final = BookieId("bk-a-0")
INSTANCE: Final = "d58c3de9-d9c6-429e-be20-474dcad4d089"
WHERE: Final = Location(ZoneName("a"), UpgradeDomain("ud-0"))
LIVES: Final = 2
INDEX: Final = "index"
#: What a refusal may tell a person to do.
REMEDIES: Final = (
    "restore",
    "put back",
    "replace-disk",
    "rebuild-index",
    "mount",
    "start that version",
)


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What the bookie's folders are, and how it came to rest."""

    #: The names of the folders beside that of the data: the journal, then the ledger directories.
    others: tuple[str, ...]
    stopped: bool

    def journal(self, root: Path) -> Path | None:
        return root / self.others[0] if self.others else None

    def ledgers(self, root: Path) -> list[Path]:
        return [root / name for name in self.others[1:]]


SHAPES: Final = tuple(
    Shape(others=others, stopped=stopped)
    for others in ((), ("journal", "ledgers-1", "ledgers-2"))
    for stopped in (True, False)
)


@dataclass(frozen=True, kw_only=True)
class AtRest:
    """A bookie that stands still: its folders, and what it promised."""

    shape: Shape
    root: Path
    promised: Mapping[int, LedgerPromise]

    def files(self) -> list[Path]:
        """Give all files below the root, relative to it, sorted."""
        found = (path.relative_to(self.root) for path in self.root.rglob("*") if path.is_file())
        return sorted(found)


@dataclass
class Tally:
    """What became of damages, by the name of the damaged kind of file."""

    refused: dict[str, int] = field(default_factory=dict)
    unknown: dict[str, int] = field(default_factory=dict)
    harmless: dict[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        return sum(sum(each.values()) for each in (self.refused, self.unknown, self.harmless))


async def made(shape: Shape, root: Path, work: Path, seed: int) -> AtRest:
    """Let a bookie live below ``work``, and leave it at rest below ``root``."""
    chance = random.Random(seed)
    promised: dict[int, LedgerPromise] = {}
    for number in range(1, LIVES + 1):
        async with started(shape, work, number - 1) as kept:
            running = asyncio.ensure_future(kept.run())
            driver = Driver(kept)
            driver.promised = promised
            await lives.script(driver, chance)
            promised = driver.snapshot()
            if number == LIVES and not shape.stopped:
                await asyncio.sleep(lives.IDLE_S)
                shutil.copytree(work, root)
            kept.log.close()
            await running
    if shape.stopped:
        shutil.copytree(work, root)
    shutil.rmtree(work)
    return AtRest(shape=shape, root=root, promised=promised)


@asynccontextmanager
async def started(shape: Shape, root: Path, starts: int) -> AsyncIterator[Storage]:
    """Start the bookie on these folders; the store knows of so many starts."""
    with all_closed(), ExitStack() as stack:
        journal, ledgers = shape.journal(root), shape.ledgers(root)
        root.mkdir(exist_ok=True)  # noqa: ASYNC240 no other task waits for it
        held = stack.enter_context(data_folder.all_held(root / "data", journal, ledgers))
        disk = InlineDisk()
        store = MemoryStore(MemoryServer())
        cluster = await clusters.initialise(store, INSTANCE)
        # The cookie names folders; a copy of them is at the same place for the bookie.
        renamed = {
            None if path is None else f"/{Path(path).name}": files
            for path, files in held.folders.items()
        }
        there = Shape(others=shape.others, stopped=shape.stopped)
        mine = identity.of_bookie(
            BOOKIE,
            cluster,
            Path("/data"),
            journal=there.journal(Path("/")),
            ledgers=there.ledgers(Path("/")),
        )
        if starts:
            await cookie_store.create(cluster, cookies.located(mine, WHERE))
            assert await bookie_records.count_boot(cluster, BOOKIE, starts)
        ground = BookieGround(
            folders=renamed,
            journal=held.journal,
            ledgers=held.ledgers,
            writing=disk,
            background=disk,
            reads=disk,
            tails=disk,
            open_index=lambda: opened_index(root, stack),
            sizes=lambda total: Sizes(segment_bytes=3072, segments_max=4, round_segments=2),
            wall_ms=lambda: 1,
        )
        try:
            begun = await life.begin(
                cluster, mine, WHERE, ground, policy=keeping.POLICY, chance=random.Random(1)
            )
            yield begun.storage
            await begun.storage.close()
        finally:
            await store.close()


def opened_index(root: Path, stack: ExitStack) -> RocksOrdered:
    """Open the index, and close it at the end of a start that is refused, too."""
    index = RocksOrdered(root / "data" / INDEX)

    def close() -> None:
        with suppress(DbClosedError):
            index.close()

    stack.callback(close)
    return index


@contextmanager
def all_closed() -> Iterator[None]:
    """Close at the end what a refused start left open, as the end of its process does."""
    opened: list[RealFile] = []
    original = RealFileSystem._open

    def noting(files: RealFileSystem, name: str, flags: int) -> RealFile:
        opened.append(original(files, name, flags))
        return opened[-1]

    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RealFileSystem, "_open", noting)
            yield
    finally:
        for file in opened:
            file.close()


def removed(path: Path, chance: random.Random) -> None:
    del chance
    path.unlink()


def cut(path: Path, chance: random.Random) -> None:
    """Truncate the file, more often near the end of what it holds."""
    size = path.stat().st_size
    used = max(1, len(path.read_bytes().rstrip(b"\0")))
    at = chance.choice([0, chance.randrange(size), chance.randrange(used), max(0, used - 1)])
    with path.open("r+b") as file:
        file.truncate(at)


def zeroed(path: Path, chance: random.Random) -> None:
    """Zero the whole file, or a piece of it."""
    data = path.read_bytes()
    used = max(1, len(data.rstrip(b"\0")))
    at = chance.choice([0, chance.randrange(used), used // 512 * 512])
    end = chance.choice([len(data), at + 1, min(len(data), at + 512)])
    path.write_bytes(data[:at] + bytes(end - at) + data[end:])


def flipped(path: Path, chance: random.Random) -> None:
    """Flip some bits, most of them in what the file holds."""
    data = bytearray(path.read_bytes())
    used = max(1, len(bytes(data).rstrip(b"\0")))
    for _ in range(chance.choice([1, 1, 8])):
        data[chance.randrange(chance.choice([used, used, len(data)]))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


#: The kinds of files that hold entries.
HOLD_ENTRIES: Final = ("arrival", "sorted")
KINDS: Final[Sequence[Callable[[Path, random.Random], None]]] = (removed, cut, zeroed, flipped)


async def one(at_rest: AtRest, work: Path, seed: int, tally: Tally) -> None:
    """Do one damage, start, and count what became of it; raises if it went unnoticed."""
    chance = random.Random(seed)
    by_kind: dict[str, list[Path]] = {}
    for path in at_rest.files():
        by_kind.setdefault(kind_of(path), []).append(path)
    # However many files of a kind there are. Those that hold entries twice as often as others.
    kinds = [*sorted(by_kind), *HOLD_ENTRIES]
    name = chance.choice(by_kind[chance.choice(kinds)])
    damage = chance.choice(KINDS)
    shutil.copytree(at_rest.root, work)
    if damage is not removed and not (work / name).stat().st_size:
        damage = removed
    damage(work / name, chance)
    said = f"damage {seed}: {damage.__name__} {name} of {at_rest.shape}"
    try:
        async with started(at_rest.shape, work, LIVES) as kept:
            unknown = await judged(kept, at_rest.promised, said)
    except (Trouble, OSError) as refusal:
        assert_clear(refusal, name, said, is_gone=not (work / name).exists())
        into = tally.refused
    else:
        into = tally.unknown if unknown else tally.harmless
    finally:
        shutil.rmtree(work)
    into[kind_of(name)] = into.get(kind_of(name), 0) + 1


def kind_of(name: Path) -> str:
    """Give the kind of a file: its name without a number."""
    if INDEX in name.parts:
        return INDEX
    return name.name.split("-0")[0]


def assert_clear(refusal: Trouble | OSError, name: Path, said: str, *, is_gone: bool) -> None:
    """A refusal names what is damaged, and says what to do."""
    words = str(refusal)
    named = {"index": INDEX, "VERSION": "cookie"}.get(kind_of(name), name.name)
    # Of a segment in the middle of the log that is gone, nothing knows the name.
    is_named = (
        named in words
        or name.name in words
        or ("the arrival segment of generation" in words and is_gone)
    )
    assert is_named, f"{said}: refused without its name: {words}"
    assert any(remedy in words for remedy in REMEDIES), f"{said}: what is to be done? {words}"


async def judged(kept: Storage, promised: Mapping[int, LedgerPromise], said: str) -> int:
    """Read all that was promised; give how many entries are unknown."""
    unknown = 0
    for number, promise in promised.items():
        before = promise.before
        assert before is None, "at rest nothing is under way"
        ledger = kept.memory.find(LedgerId(number))
        state = ledger.durable
        assert state.fenced or not promise.fenced, f"{said}: ledger {number} lost its fence"
        assert state.in_limbo >= promise.in_limbo, f"{said}: ledger {number} lost its limbo"
        assert ledger.confirmed >= promise.lac, f"{said}: ledger {number}: the LAC fell"
        assert admission.lac_of(state.explicit_lac) >= promise.written_lac, f"{said}: LAC"
        assert len(state.fragments) >= promise.fragments, f"{said}: ledger {number} lost hints"
        for entry_id in sorted(promise.entries):
            if promise.end is None or entry_id <= promise.end:
                found = await is_found(kept, number, entry_id, said)
                assert found is not False or state.in_limbo, f"{said}: {number}/{entry_id} denied"
                unknown += not found
    return unknown


async def is_found(kept: Storage, number: int, entry_id: int, said: str) -> bool | None:
    """Say whether an entry is here; None: that is unknown."""
    ledger = kept.memory.find(LedgerId(number))
    try:
        part = await kept.read(ledger, range(entry_id, entry_id + 1), 1)
    except errors.IoFailed:
        return None
    for each in part.frames:
        for entry in frames.unseal(keeping.sealer(number), each):
            same = entry.payload == keeping.payload(number, entry.entry_id)
            assert same, f"{said}: {number}/{entry.entry_id} has another content"
            if entry.entry_id == EntryId(entry_id):
                return True
    return False
