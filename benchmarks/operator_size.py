"""What the operator costs, by the size of what it runs: requests and CPU of a minute.

    python -m benchmarks.operator_size

Time is played on the twins of Kubernetes and ZooKeeper, with simulated bookies: a minute at rest, a
minute after a zone has gone, and the leaving of three bookies a zone. A request is one call of the
API server or one exchange with the metadata store. CPU is that of the operator's turns, with the
twins' answers. Clusters do not know each other, so ten clusters are ten worlds in one process.
"""

import asyncio
import collections
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.operator import worlds
from tests.operator.resources import KEY, SPACE
from tests.operator.scaling.removing_world import RemovingWorld
from zonekeeper.metadata.store.store import MetadataStore
from zonekeeper.metadata.stores.memory import MemoryStore, Passage, RequestKind
from zonekeeper.operator.kubernetes.api import PODS, ObjectKind
from zonekeeper.operator.run.reconciling import Reconciler

#: Clusters, and the bookies that each has in each of three zones.
SIZES = ((1, 10), (10, 10), (1, 100))
MINUTE_MS = 60_000
#: Bookies that leave, by zone; then at most so many minutes.
LEAVING = 3
LEAVING_MINUTES_MAX = 60


@dataclass(slots=True)
class Spent:
    """What turns have cost."""

    turns: int = 0
    cpu_s: float = 0.0
    requests: collections.Counter[str] = field(default_factory=collections.Counter)


class CountedWorld(RemovingWorld):
    """A world that counts what its operator asks."""

    def __init__(self, **spec: object) -> None:
        super().__init__(**spec)
        self.spent = Spent()
        self.fate = self._asked

    async def open_for_operator(self, address: str) -> MetadataStore:
        """Open the metadata store, and count the exchanges with it."""
        store = await super().open_for_operator(address)
        assert isinstance(store, MemoryStore)
        store.weather = self._exchanged
        return store

    def new_operator(self) -> Reconciler:
        """Give an operator that follows bookies, as the process does."""
        return Reconciler(self.surroundings(), KEY, wake=lambda: None)

    async def pass_minute(self) -> None:
        """Let a minute pass, with a turn where one is due."""
        end_ms = self.now_ms + MINUTE_MS
        while self.now_ms < end_ms:
            before = time.process_time()
            wait_ms = await self.turn()
            self.spent.cpu_s += time.process_time() - before
            self.spent.turns += 1
            assert wait_ms is not None, "the resource stays"
            self.now_ms += max(0, min(wait_ms, end_ms - self.now_ms) - worlds.TURN_MS)
            await self.controllers()

    async def lose(self, zone: str, bookies: int) -> None:
        """Let the bookies of a zone go; no controller makes them anew."""
        names = {f"log-{zone}-{number}" for number in range(bookies)}
        for name in names:
            self.kubernetes.mark_deleted(PODS, SPACE, name)
        await self.end_sessions(names & self.registered.keys())
        self.is_controlled = False

    is_controlled = True

    async def controllers(self) -> None:
        """Do what controllers do, unless a zone is away."""
        if self.is_controlled:
            await super().controllers()

    def _asked(self, verb: str, kind: ObjectKind) -> None:
        self.spent.requests[f"{verb} {kind.plural}"] += 1

    def _exchanged(self, kind: RequestKind) -> Passage:
        self.spent.requests[f"metadata {kind.value}"] += 1
        return Passage()


async def measure(clusters: int, per_zone: int) -> None:
    """Measure clusters of one size."""
    title = f"{clusters} x {3 * per_zone} bookies"
    made = [CountedWorld(bookiesPerZone=per_zone) for _ in range(clusters)]
    for world in made:
        await world.settle()
        await world.pass_minute()
        world.spent = Spent()
        await world.pass_minute()
    show(f"{title}, a minute at rest", made)
    for world in made:
        await world.write_ledger(*(f"log-{zone}-{per_zone - 1}" for zone in "abc"))
        world.spent = Spent()
        await world.change(bookiesPerZone=per_zone - LEAVING)
        for _ in range(LEAVING_MINUTES_MAX):
            await world.pass_minute()
            if len(await world.cookies()) == 3 * (per_zone - LEAVING):
                break
        else:
            raise AssertionError(f"{title}: they do not leave")
    show(f"{title}, {3 * LEAVING} leave", made)
    for world in made:
        await world.settle()
        await world.lose("a", per_zone - LEAVING)
        world.spent = Spent()
        await world.pass_minute()
    show(f"{title}, the minute after a zone has gone", made)


def show(title: str, made: Sequence[CountedWorld]) -> None:
    """Print what worlds have spent."""
    total = collections.Counter[str]()
    for world in made:
        total += world.spent.requests
    stored = sum(count for name, count in total.items() if name.startswith("metadata "))
    turns, cpu_s = (sum(getattr(one.spent, what) for one in made) for what in ("turns", "cpu_s"))
    print(
        f"{title}: {turns} turns, {total.total() - stored} requests of the API server, "
        f"{stored} of the metadata store, {cpu_s:.2f} CPU-s"
    )


def main() -> None:
    """Measure every size."""
    logging.disable(logging.WARNING)
    for clusters, per_zone in SIZES:
        asyncio.run(measure(clusters, per_zone))


if __name__ == "__main__":
    main()
