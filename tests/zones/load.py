"""A quorum writer that goes on whatever happens, ledger after ledger.

It remembers what it was told is acknowledged, and what an entry holds follows from its name, so
that everything can be read again and compared in the end.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from zonekeeper.client.api.client import Client
from zonekeeper.client.api.writer import Writer
from zonekeeper.client.base import errors
from zonekeeper.metadata.store.background import alongside
from zonekeeper.placement.base.ids import NO_ENTRY, EntryId, LedgerId

#: A ledger is closed after so many, and the next one begun.
LEDGER_ENTRIES: Final = 300
BURST_ENTRIES: Final = 20
_ENTRY_BYTES_MAX: Final = 2_000
#: Between bursts: a writer at full speed would leave no time to other processes on a small machine.
_REST_S: Final = 0.05
#: Before a ledger is asked for again where none could be had.
_AGAIN_S: Final = 0.2


def payload(ledger_id: LedgerId, entry_id: EntryId) -> bytes:
    """Make an entry's content: its name, and padding that follows from it."""
    chance = random.Random(ledger_id << 32 | entry_id)
    return f"{ledger_id}:{entry_id}:".encode() + bytes(chance.randrange(_ENTRY_BYTES_MAX))


class Load:
    """What is written, and what was acknowledged of it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._ended = asyncio.Event()
        self.acked: dict[LedgerId, EntryId] = {}
        self.writer: Writer | None = None
        #: What stopped a ledger before its end, and what kept one from being created.
        self.failures: list[errors.ClientError] = []

    async def run(self) -> None:
        """Write until ``end``."""
        while not self._ended.is_set():
            try:
                self.writer = await self._client.create()
            except errors.ClientError as error:
                self.failures.append(error)
                await asyncio.sleep(_AGAIN_S)
                continue
            await self._fill(self.writer)

    def end(self) -> None:
        """Let the writer close its ledger and stop."""
        self._ended.set()

    @property
    def entries(self) -> int:
        """How many entries were acknowledged so far."""
        return sum(last + 1 for last in self.acked.values())

    async def _fill(self, writer: Writer) -> None:
        try:
            while writer.last_appended + 1 < LEDGER_ENTRIES and not self._ended.is_set():
                await append(writer, BURST_ENTRIES)
                await writer.flush()
                self.acked[writer.ledger_id] = writer.last_confirmed
                await asyncio.sleep(_REST_S)
            await writer.close()
        except errors.ClientError as error:
            self.failures.append(error)
            writer.halt()
        finally:
            self.acked[writer.ledger_id] = writer.last_confirmed


@asynccontextmanager
async def under_load(client: Client) -> AsyncIterator[Load]:
    """Write while the block runs; in the end the last ledger is closed."""
    load = Load(client)
    async with alongside(), asyncio.TaskGroup() as group:
        group.create_task(load.run())
        try:
            yield load
        finally:
            load.end()


async def append(writer: Writer, count: int) -> None:
    """Append so many entries more."""
    for _ in range(count):
        entry_id = EntryId(writer.last_appended + 1)
        await writer.append(payload(writer.ledger_id, entry_id))


async def check(client: Client, ledger_id: LedgerId, acked: EntryId, *, recover: bool) -> None:
    """Read a ledger: what was acknowledged is there, and everything as it was written."""
    reader = await client.open(ledger_id, recover=recover)
    assert reader.last_confirmed >= acked, f"ledger {ledger_id}: acknowledged entries are lost"
    last = reader.last_confirmed if recover else acked
    if last == NO_ENTRY:
        return
    expected = EntryId(0)
    async for batch in reader.read(EntryId(0), last):
        for entry in batch:
            assert entry.entry_id == expected
            assert entry.payload == payload(ledger_id, expected), f"{ledger_id}:{expected}"
            expected = EntryId(expected + 1)
    assert expected == last + 1
