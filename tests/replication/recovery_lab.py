"""Auto-replication whole, over real bookies in virtual time, and what a test does to it.

The timers are short, their order is that of production: a zone is held before its losses are
repaired.
"""

import asyncio
import dataclasses
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from tests.client import lab
from tests.client.lab import Lab
from tests.replication.repair_lab import payload
from tests.support import playing
from zonekeeper.client.api.client import Client
from zonekeeper.client.api.writer import Writer
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
from zonekeeper.metadata.ledgers import ledgers, underreplication
from zonekeeper.metadata.store.background import TasksBeside, alongside
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.placement.base.ids import BookieId, LedgerId, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.base.units import MINUTE_MS, SECOND_MS
from zonekeeper.placement.policy.rules import CheckIntervals, Policy, RepairRules
from zonekeeper.replication.run.autorecovery import Autorecovery, Worker

QUICK = RepairRules(
    bytes_per_second=0,
    respread_bytes_per_second=0,
    bookie_recovery_delay_ms=MINUTE_MS,
    open_ledger_grace_ms=10 * SECOND_MS,
    checks=CheckIntervals(
        bookies_ms=10 * MINUTE_MS, placement_ms=5 * MINUTE_MS, replicas_ms=60 * MINUTE_MS
    ),
)


def rules(repair: RepairRules = QUICK) -> Policy:
    given = lab.policy()
    watched = dataclasses.replace(
        given.zone_watch,
        evaluate_every_ms=5 * SECOND_MS,
        suspect_for_ms=20 * SECOND_MS,
        start_grace_ms=30 * SECOND_MS,
        hold_up_ms=MINUTE_MS,
    )
    return dataclasses.replace(given, zone_watch=watched, repair=repair)


class Recovering:
    """A cluster, an application's client, and processes that repair."""

    def __init__(self, lab_: Lab, client: Client, tasks: TasksBeside) -> None:
        self.lab = lab_
        self.client = client
        self.cluster = client.cluster
        self.tasks = tasks

    @asynccontextmanager
    async def process(self, name: str, zone: str = "a") -> AsyncIterator[Autorecovery]:
        """Run one process beside the block."""
        async with self.lab.client(name, ClientConfig(zone=ZoneName(zone))) as client:
            worker = Worker(name=BookieId(name), chance=random.Random(name), wall_ms=self.wall_ms)
            process = Autorecovery(client, worker)
            async with alongside(process.run()):
                await process.view.known()
                yield process

    @staticmethod
    def wall_ms() -> int:
        return int(asyncio.get_running_loop().time() * 1_000)

    async def written(
        self, count: int = 10, *, closed: bool = True, quorums: Quorums | None = None
    ) -> Writer:
        writer = await self.client.create(quorums=quorums, password=b"secret")
        for number in range(count):
            await writer.append(payload(number))
        await writer.flush()
        await asyncio.sleep(0.2)
        if closed:
            await writer.close()
        self.lab.writers.append(writer)
        return writer

    async def readable(self, ledger_id: LedgerId) -> int:
        """Read a ledger whole; give how many entries it has, all of them right."""
        reader = await self.client.open(ledger_id, password=b"secret", recover=True)
        last = reader.metadata.last_entry
        number = 0
        if last >= 0:
            async for batch in reader.read(0, last):
                for entry in batch:
                    assert bytes(entry.payload) == payload(entry.entry_id)
                    number += 1
        return number

    async def ledger(self, ledger_id: LedgerId) -> LedgerMetadata:
        stored = await ledgers.read(self.cluster, ledger_id, sync=True)
        assert stored is not None
        return stored.metadata

    async def marks(self) -> list[LedgerId]:
        return [ledger_id async for ledger_id in underreplication.ids(self.cluster)]

    async def until(self, holds: Callable[[], Awaitable[bool]], within_s: float) -> None:
        """Wait for something in the store."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + within_s
        while not await holds():
            assert loop.time() < end_s, f"it does not hold within {within_s} s"
            await asyncio.sleep(1)


def store_of(process: Autorecovery) -> MemoryStore:
    """Give the store of a process, for its weather."""
    store = process.client.cluster.store
    assert isinstance(store, MemoryStore)
    return store


def play(
    scenario: Callable[[Recovering], Awaitable[None]],
    *,
    given: Policy | None = None,
    bookies_in: dict[str, int] | None = None,
) -> None:
    """Play a scenario; it starts the processes that it wants."""

    async def staged(lab_: Lab) -> None:
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(lab_.client("application"))
            tasks = await stack.enter_async_context(alongside())
            await scenario(Recovering(lab_, client, tasks))

    lab.play(staged, rules=given or rules(), bookies_in=bookies_in)


played = playing.by(play)
