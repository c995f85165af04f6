"""One bookie's process on one disk, what was promised on it, and how that is read back.

The load is one client whose ledgers have one copy: the bookie alone keeps the promise.
"""

import asyncio
import random
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from tests.faults.faulty_bookie import NONE, happens
from tests.support import careful_files
from tests.support.bookie_processes import BookieProcesses, bookie_processes, make_cluster
from zonekeeper.client.api import client as clients
from zonekeeper.client.api.client import Client
from zonekeeper.client.api.writer import Writer
from zonekeeper.client.base import errors
from zonekeeper.placement.base.ids import NO_ENTRY, BookieId, EntryId, LedgerId, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.policy.rules import PlacementRules, Policy

BOOKIE = BookieId("bk-a-0")
ONE = Quorums(ensemble=1, write=1, ack=1, ack_zones=1)
LEDGERS_A_LIFE = 5
LIVES_KEPT = 2
#: Enough for some arrival segments, so that they are rewritten and used again.
LIFE_BYTES = 80 << 20
SIZES_BYTES = (10, 1_000, 30_000, 400_000)
#: For each half of a life; a whole one takes 7 s, and 34 s were seen on a very busy machine.
LIMIT_S = 180
#: A minute: many rounds of all that is done from time to time, on a busy machine, too.
BACKGROUND_LOOKS = 1_200
LOOK_S = 0.05
#: What is deleted is collected, and its space given back, while the next load goes on.
FLAGS = {
    "--gc-interval": "500ms",
    "--minor-compaction-interval": "1s",
    "--major-compaction-interval": "2s",
    "--compaction-rate": "1GiB",
}


def command(fault: str) -> list[str]:
    """Give the command of a bookie to which this happens."""
    return [sys.executable, "-m", "tests.faults.faulty_bookie", fault]


class World:
    """One disk, and all that was promised on it."""

    def __init__(self, address: str, bookies: BookieProcesses, chance: random.Random) -> None:
        self.address = address
        self.bookies = bookies
        self.chance = chance
        #: By life: the last entry of each ledger that was acknowledged.
        self.promised: list[dict[LedgerId, EntryId]] = []
        #: Called after the process was killed, and before the next one starts.
        self.after_kill: Callable[[], None] = lambda: None

    async def life(self, fault: str) -> bool:
        """Start with a fault, load, come to an end, start without, and read what was promised.

        Says whether the fault has happened; the load goes on for a while until it has, and what the
        bookie does in the background is then waited for.
        """
        operation, _, rest = fault.partition(":")

        def happened() -> bool:
            return operation == "kill" or happens(fault) in self.bookies.words(BOOKIE)

        self.bookies.launch(BOOKIE, command(NONE if operation == "kill" else fault))
        if await asyncio.to_thread(self.bookies.is_ready, BOOKIE):
            part = int(rest) / 100 if operation == "kill" else 1.0
            async with asyncio.timeout(LIMIT_S), clients.connect(self.address) as client:
                await self._load(client, int(part * LIFE_BYTES), happened)
            await self._background(happened)
        self.bookies.kill(BOOKIE)
        self.after_kill()
        self.bookies.launch(BOOKIE, command(NONE))
        assert await asyncio.to_thread(self.bookies.is_ready, BOOKIE), self.bookies.words(BOOKIE)
        async with asyncio.timeout(LIMIT_S), clients.connect(self.address) as client:
            for ledgers in self.promised:
                for ledger_id, last in ledgers.items():
                    await check(client, ledger_id, last)
            for ledgers in self.promised[:-LIVES_KEPT]:
                for ledger_id in ledgers:
                    await client.delete(ledger_id)
        self.promised = self.promised[-LIVES_KEPT:]
        self.bookies.kill(BOOKIE)
        self.after_kill()
        assert careful_files.CLOSED not in self.bookies.words(BOOKIE)
        return happened()

    async def _background(self, enough: Callable[[], bool]) -> None:
        """Let collections and compactions go on; on a fast machine the load is over before them."""
        for _ in range(BACKGROUND_LOOKS):
            if enough() or self.bookies.ended():
                return
            await asyncio.sleep(LOOK_S)

    async def _load(self, client: Client, size_bytes: int, enough: Callable[[], bool]) -> None:
        writers: list[Writer] = []
        try:
            try:
                for _ in range(LEDGERS_A_LIFE):
                    writers.append(await client.create(quorums=ONE))
            except errors.NotEnoughBookies:
                return  # it died before its first work
            async with asyncio.TaskGroup() as group:
                for writer in writers:
                    group.create_task(fill(writer, size_bytes // LEDGERS_A_LIFE, enough))
            self.promised.append({writer.ledger_id: writer.last_confirmed for writer in writers})
        finally:
            for writer in writers:
                writer.halt()


def payload(ledger_id: LedgerId, entry_id: EntryId) -> bytes:
    """Make an entry's content: it follows from its name."""
    chance = random.Random(ledger_id << 32 | entry_id)
    start = f"{ledger_id}:{entry_id}:".encode()
    return start + bytes([chance.randrange(256)]) * chance.choice(SIZES_BYTES)


async def fill(writer: Writer, size_bytes: int, enough: Callable[[], bool]) -> None:
    """Append until so much is written, and it is enough, or the bookie is gone."""
    written, most = 0, size_bytes
    try:
        while written < most:
            data = payload(writer.ledger_id, EntryId(writer.last_appended + 1))
            await writer.append(data)
            written += len(data)
            if written >= most and most < LIFE_BYTES and not enough():
                most += size_bytes // 8
        await writer.flush()
    except errors.ClientError:
        writer.halt()


async def check(client: Client, ledger_id: LedgerId, acked: EntryId) -> None:
    """Read a ledger; what was acknowledged must be there, and everything as it was written."""
    reader = await client.open(ledger_id, recover=True)
    assert reader.last_confirmed >= acked, f"ledger {ledger_id}: acknowledged entries are lost"
    if reader.last_confirmed == NO_ENTRY:
        return
    expected = EntryId(0)
    async for batch in reader.read(EntryId(0), reader.last_confirmed):
        for entry in batch:
            assert entry.entry_id == expected
            assert entry.payload == payload(ledger_id, expected), f"{ledger_id}:{expected}"
            expected = EntryId(expected + 1)
    assert expected == reader.last_confirmed + 1


@asynccontextmanager
async def world(folder: Path, seed: int, flags: Mapping[str, str] = FLAGS) -> AsyncIterator[World]:
    address = f"sqlite://{folder}/meta.db"
    zones = {BOOKIE: ZoneName("a")}
    rules = PlacementRules(zones=(ZoneName("a"),), min_zones=1, desired_zones=1, strict=False)
    await make_cluster(address, Policy(placement=rules, quorums=ONE))
    with bookie_processes(address, folder, zones, flags=flags) as bookies:
        yield World(address, bookies, random.Random(seed))
