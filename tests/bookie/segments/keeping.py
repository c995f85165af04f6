"""A storage to test with: the real one, on files and an index in memory, and what it promised."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from zonekeeper.bookie.disk.disks import InlineDisk
from zonekeeper.bookie.disk.files import FileSystem
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem
from zonekeeper.bookie.formats.index import Index, MemoryOrdered
from zonekeeper.bookie.ledgers import admission, records
from zonekeeper.bookie.segments import checkpoint as checkpoints
from zonekeeper.bookie.segments.arrivals import Sizes
from zonekeeper.bookie.segments.devices import Devices
from zonekeeper.bookie.segments.log import LogPut
from zonekeeper.bookie.storage import storage
from zonekeeper.bookie.storage.compaction import Compacting
from zonekeeper.bookie.storage.storage import Storage, StoragePolicy
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.formats import digests, entries, errors, frames
from zonekeeper.wire.formats.frames import Flags, Frame
from zonekeeper.wire.formats.openings import FragmentOpening

KEY = digests.master_key(b"secret")
SIZES = Sizes(segment_bytes=2048, segments_max=4)
#: A minute, for work that takes milliseconds unless the machine is very busy.
TURN_S, TURNS_MAX = 0.001, 60_000
#: Nothing waits for the sake of others.
POLICY = StoragePolicy(compacting=Compacting(bytes_per_second=1 << 40))


def closed_at(ends: Mapping[int, int], policy: StoragePolicy = POLICY) -> StoragePolicy:
    """Let the metadata say of these ledgers that they are closed, now and at any time."""

    async def proven(ledger_ids: Sequence[LedgerId]) -> Mapping[LedgerId, EntryId]:
        return {each: EntryId(ends[each]) for each in ledger_ids if each in ends}

    return replace(policy, ends=proven)


def fresh() -> MemoryFileSystem:
    files = MemoryFileSystem()
    storage.create(files, random.Random(1))
    return files


def devices(files: FileSystem, store: MemoryOrdered) -> Devices:
    return Devices(
        arrival_files=files,
        files=files,
        index=Index(store),
        writing=InlineDisk(),
        background=InlineDisk(),
        reads=InlineDisk(),
    )


async def opened(
    files: FileSystem,
    store: MemoryOrdered,
    sizes: Sizes = SIZES,
    *,
    policy: StoragePolicy | None = None,
) -> Storage:
    return await storage.open_storage(devices(files, store), sizes, policy or POLICY)


class _CrashError(Exception):
    """Ends all of a storage at once."""


@asynccontextmanager
async def running(
    files: FileSystem,
    store: MemoryOrdered,
    sizes: Sizes = SIZES,
    *,
    crash: bool = False,
    policy: StoragePolicy | None = None,
) -> AsyncIterator[Storage]:
    """Run a storage; at the end it stops in order, or (``crash``) in the middle of what it does."""
    on = devices(files, store)
    kept = await storage.open_storage(on, sizes, policy or POLICY)
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(kept.run())
            yield kept
            if crash:
                _crash(on)
            kept.log.close()
    except* _CrashError:
        pass
    await kept.close()


def _crash(on: Devices) -> None:
    for disk in (on.writing, on.background):
        assert isinstance(disk, InlineDisk)
        disk.stop()
    raise _CrashError


def payload(ledger_id: int, entry_id: int) -> bytes:
    return b"%d/%d " % (ledger_id, entry_id) * (1 + entry_id * 7 % 23)


def sealer(ledger_id: int) -> entries.Sealer:
    return entries.Sealer(LedgerId(ledger_id), Digest.CRC32C, b"secret")


def frame(
    ledger_id: int, entry_ids: Sequence[int], *, lac: int = -1, flags: Flags = Flags.PLAIN
) -> Frame:
    """A frame of these entries; what they hold follows from their ids."""
    ids = [EntryId(number) for number in entry_ids]
    seal = sealer(ledger_id).seal
    packets = [seal(each, EntryId(lac), 1 << 20, payload(ledger_id, each)) for each in ids]
    return frames.build(LedgerId(ledger_id), ids, packets, flags)


def opening(ledger_id: int, first: int = 0) -> FragmentOpening:
    return FragmentOpening(
        ledger_id=LedgerId(ledger_id),
        master_key=KEY,
        quorums=Quorums(ensemble=1, write=1, ack=1),
        digest=Digest.CRC32C,
        first_entry_id=EntryId(first),
        ensemble=(BookieId("bk-a-0"),),
    )


@dataclass
class LedgerPromise:
    """What a client was told of a ledger."""

    #: Durable, for sure.
    entries: set[int] = field(default_factory=set)
    #: Sent, and acknowledged or not.
    sent: set[int] = field(default_factory=set)
    fenced: bool = False
    in_limbo: bool = False
    lac: int = -1
    #: The explicit one.
    written_lac: int = -1
    fragments: int = 0
    #: Where the ledger was closed: no entry past that was promised. None: it is open.
    end: int | None = None
    #: What was so before the ledger was told to be forgotten, until that is durable: then either
    #: all of this holds, or the rest does.
    before: "LedgerPromise | None" = None

    def copy(self) -> "LedgerPromise":
        before = None if self.before is None else self.before.copy()
        return replace(self, entries=set(self.entries), sent=set(self.sent), before=before)


class Driver:
    """Puts into a storage as a bookie does, and notes what is promised, in the moment it is."""

    def __init__(self, kept: Storage, ends: dict[int, int] | None = None) -> None:
        """``ends`` is what the metadata says (``closed_at``)."""
        self._kept = kept
        self._ends = {} if ends is None else ends
        self.promised: dict[int, LedgerPromise] = {}
        self.failed: list[errors.ProtocolError] = []
        #: Written, to be durable with the next sync.
        self._deferred: list[tuple[LedgerPromise, set[int]]] = []

    def snapshot(self) -> dict[int, LedgerPromise]:
        return {number: each.copy() for number, each in self.promised.items()}

    def append(self, wanted: Frame) -> "asyncio.Future[None]":
        promise = self._promise(wanted.ledger_id)
        promise.sent.update(wanted.entry_ids)

        def noted() -> None:
            if Flags.DEFERRED_SYNC in wanted.flags:
                self._deferred.append((promise, set(wanted.entry_ids)))
            else:
                self._synced()
                promise.entries.update(wanted.entry_ids)
                promise.lac = max(promise.lac, wanted.last_add_confirmed)

        self._kept.memory.ledger(wanted.ledger_id).sent(wanted)
        return self._put(wanted, noted)

    def state(self, ledger_id: int, event: admission.Event) -> "asyncio.Future[None]":
        """Decide, and hand over what is decided; what is refused breaks the test.

        Metadata has every ledger.
        """
        ledger = self._kept.memory.find(LedgerId(ledger_id))
        effects = ledger.decide(event)
        if admission.AskMetadata() in effects:
            assert isinstance(event, admission.OpenWanted | admission.FenceWanted)
            effects = ledger.decide(replace(event, standing=admission.Stands(master_key=KEY)))
        self._kept.memory.remember(ledger)
        if not ledger.admitted.in_limbo:
            self._promise(ledger_id).in_limbo = False
        promise = self._promise(ledger_id)
        for effect in effects:
            if isinstance(effect, admission.Refuse):
                assert isinstance(effect.error, errors.NotOpened), effect
                continue  # it was forgotten, and not opened again yet
            assert isinstance(effect, admission.WriteRecord), effect
            ledger.sent(effect.record)
            self._put(effect.record, lambda record=effect.record: self._note(record, promise))
        return self.force()

    async def forget(self, ledger_id: int) -> None:
        """What is sent from here on, and nothing else, is there when this returns."""
        old = self._promise(ledger_id)
        new = self.promised[ledger_id] = LedgerPromise(before=old)
        self._ends.pop(ledger_id, None)
        # As it is for the log, it is decided the moment the record is durable.
        await self._kept.forget([LedgerId(ledger_id)])
        new.before = None

    def close(self, ledger_id: int, end: int) -> None:
        """Its metadata says from now on, and for ever, that it is closed there."""
        promise = self._promise(ledger_id)
        # While one is being forgotten, the old one is here still; and ids are never used twice.
        if promise.before is None:
            promise.end = self._ends.setdefault(ledger_id, end)

    async def compact(self) -> int:
        return await self._kept.compact(major=True)

    def force(self) -> "asyncio.Future[None]":
        return self._put(None, self._synced)

    def _note(self, record: records.LedgerRecord, promise: LedgerPromise) -> None:
        self._synced()
        match record:
            case records.FragmentRecord():
                promise.fragments += 1
            case records.FenceRecord():
                promise.fenced = True
            case records.LimboRecord():
                # It may have been told to end meanwhile.
                ledger = self._kept.memory.find(record.ledger_id)
                promise.fenced |= record.in_limbo
                promise.in_limbo = ledger.admitted.in_limbo
            case records.LacRecord(packet=packet):
                promise.written_lac = max(promise.written_lac, admission.lac_of(packet))
                promise.lac = max(promise.lac, promise.written_lac)

    def _synced(self) -> None:
        for promise, ids in self._deferred:
            promise.entries.update(ids)
        self._deferred.clear()

    def _promise(self, ledger_id: int) -> LedgerPromise:
        return self.promised.setdefault(ledger_id, LedgerPromise())

    def _put(self, record: records.Record | None, noted: object) -> "asyncio.Future[None]":
        assert callable(noted)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def written() -> None:
            noted()
            if not done.done():
                done.set_result(None)

        def failed(error: errors.ProtocolError) -> None:
            self.failed.append(error)
            done.cancel()

        self._kept.log.put(LogPut(record=record, written=written, failed=failed))
        return done


async def read_ids(kept: Storage, ledger_id: int) -> set[int]:
    """Read all that is there of a ledger, and check each entry's bytes."""
    ledger = kept.memory.ledgers.get(LedgerId(ledger_id))
    found: set[int] = set()
    last = None if ledger is None else ledger.extents.last
    if ledger is None or last is None:
        return found
    at, check = 0, sealer(ledger_id)
    while at <= last:
        part = await kept.read(ledger, range(at, last + 1), 1 << 20)
        for each in part.frames:
            for entry in frames.unseal(check, each):
                assert entry.payload == payload(ledger_id, entry.entry_id)
                assert entry.entry_id not in found, "an entry is given once"
                found.add(entry.entry_id)
        at = part.next_entry_id
    return found


async def check(kept: Storage, promised: dict[int, LedgerPromise]) -> dict[int, LedgerPromise]:
    """Hold a storage to what was promised; gives what it shows, which is promised from now on."""
    shown: dict[int, LedgerPromise] = {}
    for number, promise in promised.items():
        at: LedgerPromise | None = promise
        while at is not None:
            try:
                shown[number] = await _check_one(kept, number, at)
            except AssertionError:
                if at.before is None:
                    raise
                at = at.before
            else:
                break
    return shown


async def _check_one(kept: Storage, number: int, promise: LedgerPromise) -> LedgerPromise:
    found = await read_ids(kept, number)
    end = max(promise.entries, default=-1) if promise.end is None else promise.end
    lost = {each for each in promise.entries if each <= end} - found
    assert not lost, f"ledger {number}: entries {sorted(lost)} were acknowledged, and are gone"
    assert found <= promise.sent, f"ledger {number}: {sorted(found - promise.sent)} from where?"
    ledger = kept.memory.find(LedgerId(number))
    state = ledger.durable
    assert ledger.admitted == state
    assert state.fenced or not promise.fenced, f"ledger {number} is not fenced any more"
    assert state.in_limbo >= promise.in_limbo, f"ledger {number} is not in limbo any more"
    assert ledger.confirmed >= promise.lac, f"ledger {number}: the LAC fell"
    assert admission.lac_of(state.explicit_lac) >= promise.written_lac, "the LAC fell"
    assert len(state.fragments) >= promise.fragments, f"ledger {number}: lost fragment hints"
    assert promise.fragments == 0 or state.master_key == KEY
    assert ledger.highest >= max(found, default=-1)
    assert ledger.extents.last == max(found, default=None), f"ledger {number}: which is the last?"
    return LedgerPromise(
        entries=found,
        end=promise.end,
        sent=promise.sent,
        fenced=state.fenced,
        in_limbo=state.in_limbo,
        lac=ledger.confirmed,
        written_lac=admission.lac_of(state.explicit_lac),
        fragments=len(state.fragments),
    )


async def let_work(until: Callable[[], bool]) -> None:
    """Let the storage go on until something is so, and then as far as it comes by itself.

    In virtual time, too, where a loop of turns without any time would let no disk do its work.
    """
    for _ in range(TURNS_MAX):
        if until():
            break
        await asyncio.sleep(TURN_S)
    assert until()
    for _ in range(100):
        await asyncio.sleep(TURN_S / 10)


def mark_of(files: FileSystem) -> tuple[int, int]:
    return checkpoints.load(files).mark


def sorted_names(files: FileSystem) -> list[str]:
    return [name for name in files.names() if name.startswith("sorted-")]


async def fill(driver: Driver, ledger_ids: Sequence[int], count: int) -> None:
    """Write to ledgers in turn, two entries at a time."""
    for ledger_id in ledger_ids:
        await driver.state(ledger_id, admission.OpenWanted(opening=opening(ledger_id)))
    for first in range(0, 2 * count, 2):
        for ledger_id in ledger_ids:
            await driver.append(frame(ledger_id, [first, first + 1]))
