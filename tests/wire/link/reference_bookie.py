"""A small honest bookie in memory: what a disk would keep is kept in dictionaries.

It does all that ``BookieService`` asks, answers appends when its group commit comes round, and lets
a test hold that commit back. ``Disk`` outlives a bookie, so that a restart can be played.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import NO_ENTRY, BookieId, EntryId, LedgerId
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import (
    carriers,
    digests,
    entries,
    errors,
    frames,
    openings,
    proofs,
)
from zonekeeper.wire.formats.digests import MasterKey
from zonekeeper.wire.formats.frames import Flags, Frame
from zonekeeper.wire.formats.proofs import Shown

#: The key of each ledger of which ``Disk.keys`` says nothing.
USUAL_KEY: Final = digests.master_key(b"passwd")


@dataclass
class Ledger:
    key: MasterKey
    digest: Digest = Digest.CRC32C
    fenced: bool = False
    packets: dict[EntryId, bytes] = field(default_factory=dict)
    explicit_lac: bytes | None = None
    fragments: list[openings.FragmentOpening] = field(default_factory=list)

    @property
    def confirmed(self) -> EntryId:
        known = [entries.header(packet).last_add_confirmed for packet in self.packets.values()]
        if self.explicit_lac is not None:
            known.append(EntryId(int.from_bytes(self.explicit_lac[8:16], "big")))
        return max(known, default=NO_ENTRY)


@dataclass
class Disk:
    ledgers: dict[LedgerId, Ledger] = field(default_factory=dict)
    #: What metadata would say of ledgers that are not here; of all others it says ``USUAL_KEY``.
    keys: dict[LedgerId, MasterKey] = field(default_factory=dict)
    #: The owners that metadata would say.
    owners: dict[LedgerId, str] = field(default_factory=dict)
    boots: int = 0


class ReferenceBookie:
    def __init__(self, bookie_id: BookieId, disk: Disk, *, commit_s: float = 0.0) -> None:
        disk.boots += 1
        self.bookie_id = bookie_id
        self.disk = disk
        self.boot_epoch = disk.boots
        self.commit_s = commit_s
        self.read_only = False
        #: Do requests that only look at a ledger need its key?
        self.wants_keys = False
        self.compactions: list[bool] = []
        self.out_of_limbo: list[tuple[LedgerId, int]] = []
        self.batches = 0
        self.forced: list[LedgerId] = []
        #: While set, nothing but openings is committed, and nothing else is answered.
        self.held = False
        self._queue: list[tuple[carriers.Request, service.Replies]] = []
        self._scheduled = False
        self._news = asyncio.Event()
        self._taken_in = asyncio.Event()

    @property
    def waiting(self) -> int:
        """How many appends are here without an answer."""
        return len(self._queue)

    async def has_taken_in(self) -> None:
        """Wait for an append to come."""
        await self._taken_in.wait()

    async def owner(self, ledger_id: LedgerId, *, also_unknown: bool, create_token: int = 0) -> str:
        del create_token  # it deletes nothing
        is_known = also_unknown or ledger_id in self.disk.ledgers
        return self.disk.owners.get(ledger_id, "") if is_known else ""

    def append(self, items: Sequence[carriers.Request], replies: service.Replies) -> None:
        for item in items:
            if isinstance(item, carriers.Open) and item.judge is not None:
                refusal = item.judge(self.disk.owners.get(item.opening.ledger_id, ""))
                if refusal is not None:
                    replies.refused(item.number, refusal)
                    items = [each for each in items if each is not item]
        self._queue += [(item, replies) for item in items]
        if any(not isinstance(item, carriers.Open) for item in items):
            self.batches += 1
            self._taken_in.set()
        self._schedule()

    def release(self) -> None:
        """Commit what was held back."""
        self.held = False
        self._schedule()

    async def read(self, request: service.ReadRequest) -> service.ReadReply:
        if request.fence_key is not None:
            await self.fence(request.ledger_id, request.fence_key)
        ledger = self._proven(request.ledger_id, request.fence_key or request.key)
        found: list[EntryId] = []
        size_bytes = 0
        following = request.last_entry_id + 1
        for number in range(request.first_entry_id, request.last_entry_id + 1, request.step):
            packet = ledger.packets.get(EntryId(number))
            if packet is None:
                continue
            if found and size_bytes + len(packet) > request.bytes_max:
                following = number
                break
            found.append(EntryId(number))
            size_bytes += len(packet)
        return service.ReadReply(
            frames=self._frames(request.ledger_id, found),
            next_entry_id=EntryId(following),
            last_add_confirmed=ledger.confirmed if request.fence_key is None else None,
        )

    async def fence(
        self, ledger_id: LedgerId, master_key: Shown, create_token: int = 0
    ) -> service.LacEvidence:
        del create_token  # it deletes nothing
        self._with_key(ledger_id, master_key).fenced = True
        return await self.read_lac(ledger_id, master_key)

    async def read_lac(self, ledger_id: LedgerId, key: Shown | None = None) -> service.LacEvidence:
        ledger = self._proven(ledger_id, key)
        last = max(ledger.packets, default=None)
        return service.LacEvidence(
            explicit_lac=ledger.explicit_lac,
            last_entry=None if last is None else ledger.packets[last],
        )

    async def force(self, ledger_id: LedgerId, key: Shown | None = None) -> None:
        if ledger_id in self.disk.ledgers:
            self._proven(ledger_id, key)
        self.forced.append(ledger_id)

    async def tail(self, request: service.TailRequest) -> AsyncGenerator[service.TailUpdate, None]:
        following = request.first_entry_id
        while True:
            ledger = self._proven(request.ledger_id, request.key)
            new = [number for number in ledger.packets if following <= number <= ledger.confirmed]
            yield service.TailUpdate(
                last_add_confirmed=ledger.confirmed,
                frames=self._frames(request.ledger_id, sorted(new)),
            )
            following = EntryId(max([following, *(number + 1 for number in new)]))
            self._news.clear()
            try:
                async with asyncio.timeout(request.quiet_ms / 1_000):
                    await self._news.wait()
            except TimeoutError:
                continue

    async def list_entries(self, request: service.ListEntriesRequest) -> service.EntryRanges:
        ranges: list[tuple[EntryId, EntryId]] = []
        for number in sorted(self._proven(request.ledger_id, request.key).packets):
            if number < request.first_entry_id:
                continue
            if ranges and ranges[-1][1] + 1 == number:
                ranges[-1] = (ranges[-1][0], number)
            else:
                ranges.append((number, number))
        page = tuple(ranges[: request.ranges_max])
        return service.EntryRanges(ranges=page, complete=len(page) == len(ranges))

    async def info(self) -> service.BookieInfo:
        return service.BookieInfo(
            bookie_id=self.bookie_id,
            state=service.BookieState.READ_ONLY if self.read_only else service.BookieState.WRITABLE,
            boot_epoch=self.boot_epoch,
            version="reference",
            total_bytes=1 << 40,
            free_bytes=1 << 39,
        )

    async def set_read_only(self, *, read_only: bool) -> None:
        self.read_only = read_only

    async def end_limbo(self, ledger_id: LedgerId, boot_epoch: int) -> None:
        self.out_of_limbo.append((ledger_id, boot_epoch))

    async def compact(self, *, major: bool) -> None:
        self.compactions.append(major)

    def _schedule(self) -> None:
        if self._queue and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_later(self.commit_s, self._commit)

    def _commit(self) -> None:
        self._scheduled = False
        queue, self._queue = self._queue, []
        for item, replies in queue:
            if self.held and not isinstance(item, carriers.Open):
                self._queue.append((item, replies))
                continue
            try:
                self._write(item)
            except errors.ProtocolError as error:
                replies.refused(item.number, error)
            else:
                replies.acked([item.number])
        self._news.set()

    def _write(self, item: carriers.Request) -> None:
        if isinstance(item, carriers.Open):
            shown = item.shown or item.opening.master_key
            opened = self._with_key(item.opening.ledger_id, shown)
            opened.digest = item.opening.digest
            opened.fragments.append(replace(item.opening, master_key=opened.key))
            return
        if isinstance(item, carriers.WriteLac):
            self._known(item.ledger_id).explicit_lac = item.packet
            return
        ledger = self._known(item.frame.ledger_id)
        if self.read_only:
            raise errors.ReadOnly(f"{self.bookie_id} takes no new data")
        if ledger.fenced and Flags.RECOVERY not in item.frame.flags:
            raise errors.Fenced(f"ledger {item.frame.ledger_id} is fenced")
        for number, packet in item.frame:
            there = ledger.packets.get(number)
            if there is not None and not entries.same(there, packet, ledger.digest):
                raise errors.EntryMismatch(f"entry {number} is here, and another one")
        for number, packet in item.frame:
            ledger.packets[number] = bytes(packet)

    def _known(self, ledger_id: LedgerId) -> Ledger:
        ledger = self.disk.ledgers.get(ledger_id)
        if ledger is None:
            raise errors.NoSuchLedger(f"ledger {ledger_id} was never here")
        return ledger

    def _proven(self, ledger_id: LedgerId, shown: Shown | None) -> Ledger:
        ledger = self._known(ledger_id)
        if self.wants_keys and proofs.needed(ledger.key) and not proofs.fits(shown, ledger.key):
            raise errors.UnauthorizedAccess(f"ledger {ledger_id} has another master key")
        return ledger

    def _with_key(self, ledger_id: LedgerId, shown: Shown) -> Ledger:
        key = self.disk.keys.get(ledger_id, USUAL_KEY)
        if (known := self.disk.ledgers.get(ledger_id)) is not None:
            key = known.key
        elif isinstance(shown, bytes):
            key = shown
        if not proofs.fits(shown, key):
            raise errors.UnauthorizedAccess(f"ledger {ledger_id} has another master key")
        return self.disk.ledgers.setdefault(ledger_id, Ledger(key))

    def _frames(self, ledger_id: LedgerId, numbers: Sequence[EntryId]) -> tuple[Frame, ...]:
        if not numbers:
            return ()
        packets = self._known(ledger_id).packets
        return (frames.build(ledger_id, numbers, [packets[number] for number in numbers]),)
