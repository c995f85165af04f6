"""A bookie to test with: the real one, on files in memory and a disk that the loop plays."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from zonekeeper.bookie.disk.disks import Disk, InlineDisk
from zonekeeper.bookie.disk.files import FileSystem
from zonekeeper.bookie.formats.index import Index, MemoryOrdered
from zonekeeper.bookie.ledgers import admission
from zonekeeper.bookie.segments import checkpoint
from zonekeeper.bookie.segments.arrivals import Sizes
from zonekeeper.bookie.segments.devices import Devices
from zonekeeper.bookie.serving.capacity import BookieLimits
from zonekeeper.bookie.serving.service import BookieServer
from zonekeeper.bookie.serving.vouching import Vouched, no_vouchers
from zonekeeper.bookie.storage import storage
from zonekeeper.bookie.storage.storage import Storage
from zonekeeper.placement.base.chance import Chance
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import BookieId, EntryId, LedgerId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import carriers, digests, entries, errors, frames, openings
from zonekeeper.wire.formats.frames import Flags, Frame

BOOKIE = BookieId("bk-a-0")
LEDGER = LedgerId(7)
KEY = digests.master_key(b"secret")
OTHER_KEY = digests.master_key(b"guess")
SIZES = Sizes(segment_bytes=1 << 16)
SEALER = entries.Sealer(LEDGER, Digest.CRC32C, b"secret")


#: What metadata says of every ledger in most tests.
THERE = admission.Stands(master_key=KEY)


async def all_there(ledger_id: LedgerId) -> admission.Standing:
    """Say of every ledger that it is in the metadata, with the key of these tests."""
    del ledger_id
    return THERE


@dataclass(frozen=True)
class Folders:
    """The folders of a bookie that has a device for its arrival segments."""

    data: FileSystem
    journal: FileSystem


class _CrashError(Exception):
    """Ends all of a bookie at once."""


@asynccontextmanager
async def running(
    files: FileSystem | Folders,
    *,
    crash: bool = False,
    limits: BookieLimits | None = None,
    boot_epoch: int = 1,
    sizes: Sizes = SIZES,
    vouched: Vouched = no_vouchers,
) -> AsyncIterator[BookieServer]:
    """Run a bookie; at the end it stops in order, or (``crash``) in the middle of what it does."""
    disks = [InlineDisk(), InlineDisk()]
    kept = await open_storage(files, *disks, sizes=sizes)
    try:
        async with asyncio.TaskGroup() as tasks:
            bookie = BookieServer(
                BOOKIE,
                kept,
                boot_epoch=boot_epoch,
                version="test",
                tasks=tasks,
                limits=limits,
            )
            bookie.vouched = vouched
            bookie.standing = all_there
            tasks.create_task(kept.run())
            yield bookie
            if crash:
                _crash(disks)
            bookie.drain()
            kept.log.close()
    except* _CrashError:
        pass


def _crash(disks: Sequence[InlineDisk]) -> None:
    for disk in disks:
        disk.stop()
    raise _CrashError


async def open_storage(
    files: FileSystem | Folders,
    writing: Disk,
    background: Disk,
    *,
    index: MemoryOrdered | None = None,
    chance: Chance | None = None,
    sizes: Sizes = SIZES,
) -> Storage:
    """Open a storage, made if it was not; without an index that was kept, that is built again."""
    folders = files if isinstance(files, Folders) else Folders(data=files, journal=files)
    if checkpoint.NAME not in folders.data.names():
        storage.create(folders.data, chance or random.Random(1))
    devices = Devices(
        arrival_files=folders.journal,
        files=folders.data,
        index=Index(index or MemoryOrdered()),
        writing=writing,
        background=background,
        reads=InlineDisk(),
    )
    return await storage.open_storage(devices, sizes)


class Outcomes:
    """Hears what becomes of appends: None for an ack, or the error."""

    def __init__(self) -> None:
        self.heard: dict[int, errors.ProtocolError | None] = {}
        self._changed = asyncio.Event()

    @property
    def peer(self) -> object:
        return self

    def acked(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._note(number, None)

    def refused(self, number: int, error: errors.ProtocolError) -> None:
        self._note(number, error)

    def _note(self, number: int, outcome: errors.ProtocolError | None) -> None:
        assert number not in self.heard, "each append is answered once"
        self.heard[number] = outcome
        self._changed.set()

    async def of(self, number: int) -> errors.ProtocolError | None:
        while number not in self.heard:
            self._changed.clear()
            await self._changed.wait()
        return self.heard[number]


def opening(
    *,
    ledger_id: LedgerId = LEDGER,
    key: digests.MasterKey = KEY,
    first: int = 0,
    digest: Digest = Digest.CRC32C,
) -> openings.FragmentOpening:
    return openings.FragmentOpening(
        ledger_id=ledger_id,
        master_key=key,
        quorums=Quorums(ensemble=3, write=3, ack=2),
        digest=digest,
        first_entry_id=EntryId(first),
        ensemble=(BOOKIE, BookieId("bk-b-0"), BookieId("bk-c-0")),
    )


async def open_fragment(bookie: service.BookieService, wanted: openings.FragmentOpening) -> None:
    """Open a fragment; raises what it is refused with."""
    heard = Outcomes()
    bookie.append([carriers.Open(number=0, opening=wanted)], heard)
    if (refused := await heard.of(0)) is not None:
        raise refused


def payload(entry_id: int) -> bytes:
    return b"entry %d" % entry_id


def packet(entry_id: int, *, lac: int = -1, data: bytes | None = None) -> bytes:
    data = payload(entry_id) if data is None else data
    return SEALER.seal(EntryId(entry_id), EntryId(lac), 1 << 20, data)


def frame(
    *entry_ids: int, lac: int = -1, data: bytes | None = None, recovery: bool = False
) -> Frame:
    """A frame of these entries; what they hold follows from the id."""
    ids = [EntryId(number) for number in entry_ids]
    packets = [packet(number, lac=lac, data=data) for number in ids]
    return frames.build(LEDGER, ids, packets, Flags.RECOVERY if recovery else Flags.PLAIN)


def lac_packet(lac: int) -> bytes:
    return SEALER.seal_lac(EntryId(lac))


async def append(bookie: BookieServer, *wanted: Frame) -> list[errors.ProtocolError | None]:
    """Append frames at once, and give their outcomes."""
    heard = Outcomes()
    bookie.append([carriers.Append(number=n, frame=f) for n, f in enumerate(wanted)], heard)
    return [await heard.of(number) for number in range(len(wanted))]


async def write_lac(bookie: BookieServer, data: bytes) -> errors.ProtocolError | None:
    heard = Outcomes()
    bookie.append([carriers.WriteLac(number=0, ledger_id=LEDGER, packet=data)], heard)
    return await heard.of(0)


async def read_ids(
    bookie: BookieServer,
    first: int = 0,
    last: int = 1 << 40,
    *,
    key: digests.MasterKey | None = None,
) -> list[int]:
    """Read to the end, check each entry's bytes, and give the ids."""
    found: list[int] = []
    while first <= last:
        reply = await bookie.read(
            service.ReadRequest(
                ledger_id=LEDGER,
                first_entry_id=EntryId(first),
                last_entry_id=EntryId(last),
                bytes_max=1 << 20,
                fence_key=key,
            )
        )
        for part in reply.frames:
            for entry in frames.unseal(SEALER, part):
                assert entry.payload == payload(entry.entry_id)
                found.append(entry.entry_id)
        first = reply.next_entry_id
    return found
