"""The entries that the demonstration writes, and the check of them afterwards.

The content of an entry follows from its ledger and its id, so the check needs no copy of it. An
entry counts as acknowledged when the client has said so, never before.
"""

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from zonekeeper.client.api.client import Client
from zonekeeper.client.api.writer import Writer
from zonekeeper.client.base import errors
from zonekeeper.placement.base.ids import NO_ENTRY, BookieId, EntryId, LedgerId

ENTRY_BYTES: Final = 1_000
ENTRIES_EACH: Final = 20
EVERY_MS: Final = 20
#: A ledger is closed after this many entries, and a new one begun, as a log cut into ledgers does.
LEDGER_ENTRIES: Final = 4_000
#: Entries that could not be written in time are written later, if they are late by this at most.
BEHIND_MAX_MS: Final = 1_000
_PAUSE_MS: Final = 200


def payload(ledger_id: LedgerId, entry_id: int) -> bytes:
    """Give the content of an entry."""
    return hashlib.shake_128(b"%d/%d" % (ledger_id, entry_id)).digest(ENTRY_BYTES)


@dataclass(slots=True)
class AckTiming:
    """The latencies of acknowledgements in one part of the demonstration."""

    name: str
    entries: int = 0
    latencies_ms: list[float] = field(default_factory=list)

    def quantile_ms(self, share: float) -> float:
        """Give the latency that this share of them did not exceed; 0 if there were none."""
        ordered = sorted(self.latencies_ms)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0


class Load:
    """A writer at a steady rate; if it cannot go on in a ledger, it goes on in a new one."""

    def __init__(self, client: Client, say: Callable[[str], None], part: str) -> None:
        self._client = client
        self._say = say
        self._loop = asyncio.get_running_loop()
        self._writer: Writer | None = None
        self._seen: tuple[BookieId, ...] = ()
        self._unheard: asyncio.Queue[tuple[Writer, EntryId, float]] = asyncio.Queue()
        self._ending = False
        #: The last acknowledged entry of each ledger.
        self.acked: dict[LedgerId, EntryId] = {}
        self.timings: list[AckTiming] = [AckTiming(part)]

    @property
    def ensemble(self) -> tuple[BookieId, ...]:
        """The bookies to which entries are written now."""
        return () if self._writer is None else self._writer.ensemble

    @property
    def entries_acked(self) -> int:
        """The number of acknowledged entries, in all ledgers."""
        return sum(last + 1 for last in self.acked.values())

    @property
    def timing(self) -> AckTiming:
        """The figures of the present part, or while it has none, of the last part that has some."""
        return next((part for part in reversed(self.timings) if part.entries), self.timings[0])

    def part(self, name: str) -> None:
        """Begin a new part, with figures of its own."""
        self.timings.append(AckTiming(name))

    async def run(self) -> None:
        """Write until ``end``; returns when all that was appended is acknowledged."""
        async with asyncio.TaskGroup() as tasks:
            hearing = tasks.create_task(self._hear())
            await self._write()
            await self._unheard.join()
            hearing.cancel()

    def end(self) -> None:
        """Stop writing."""
        self._ending = True

    async def _write(self) -> None:
        due_s = self._loop.time()
        while not self._ending:
            try:
                if self._writer is None or self._writer.last_appended + 1 >= LEDGER_ENTRIES:
                    await self._begin_ledger()
                await self._append()
            except errors.ClientError as error:
                self._say(f"{error}")
                await self._create_again()
            due_s = max(due_s + EVERY_MS / 1_000, self._loop.time() - BEHIND_MAX_MS / 1_000)
            await asyncio.sleep(due_s - self._loop.time())
        if self._writer is not None:
            try:
                await self._writer.close()
            except errors.ClientError as error:
                self._say(f"{error}")

    async def _begin_ledger(self) -> None:
        """Close the present ledger, and go on in a new one."""
        if self._writer is not None:
            await self._writer.close()
        await self._create()

    async def _append(self) -> None:
        writer, begun_s = self._writer, self._loop.time()
        assert writer is not None, "a ledger was begun"
        for _ in range(ENTRIES_EACH):
            await writer.append(payload(writer.ledger_id, writer.last_appended + 1))
        self._unheard.put_nowait((writer, writer.last_appended, begun_s))
        self._show_ensemble(writer)

    def _show_ensemble(self, writer: Writer) -> None:
        if writer.ensemble != self._seen:
            left = [name for name in self._seen if name not in writer.ensemble]
            came = [name for name in writer.ensemble if name not in self._seen]
            self._say(
                f"ledger {writer.ledger_id}: ensemble change: {', '.join(left)} out, "
                f"{', '.join(came)} in"
            )
            self._seen = writer.ensemble

    async def _create(self) -> None:
        self._writer = writer = await self._client.create()
        self._seen = writer.ensemble
        self.acked[writer.ledger_id] = NO_ENTRY

    async def _create_again(self) -> None:
        try:
            await self._create()
        except errors.ClientError as error:
            self._say(f"{error}")
            await asyncio.sleep(_PAUSE_MS / 1_000)

    async def _hear(self) -> None:
        """Note acknowledgements, in the order in which they come."""
        while True:
            writer, last, begun_s = await self._unheard.get()
            try:
                await writer.flushed(last)
            except errors.ClientError:
                last = writer.last_confirmed  # whether later entries are acknowledged is not known
            before = self.acked[writer.ledger_id]
            self.acked[writer.ledger_id] = max(before, last)
            timing = self.timings[-1]
            timing.entries += self.acked[writer.ledger_id] - before
            timing.latencies_ms.append((self._loop.time() - begun_s) * 1_000)
            self._unheard.task_done()


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerFate:
    """The result of reading back a ledger's acknowledged entries."""

    ledger_id: LedgerId
    acked: int
    #: The number of entries that were read back the same, byte for byte: ``0 <= same <= acked``.
    same: int
    #: The reason why other entries were not; empty if all were.
    reason: str = ""

    @property
    def whole(self) -> bool:
        """Is every acknowledged entry there?"""
        return self.same == self.acked


async def check(client: Client, ledger_id: LedgerId, last: EntryId) -> LedgerFate:
    """Read a ledger back up to an entry, and compare; an open ledger is recovered."""
    same, reason = 0, ""
    expected = 0
    try:
        reader = await client.open(ledger_id, recover=True)
        end = min(last, reader.last_confirmed)
        if end < last:
            reason = f"it ends at entry {end}"
        if end >= 0:
            async for entry in reader.read_entries(0, end):
                if entry.entry_id != expected:
                    reason = reason or f"entry {entry.entry_id} came for entry {expected}"
                elif bytes(entry.payload) == payload(ledger_id, expected):
                    same += 1
                else:
                    reason = reason or f"entry {expected} has another content"
                expected += 1
    except errors.ClientError as error:
        reason = str(error)
    return LedgerFate(ledger_id=ledger_id, acked=last + 1, same=same, reason=reason)
