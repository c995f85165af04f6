"""A process that wrote many logs dies: takeovers are bounded, and cost the same for each log."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from tests.client.lab import ROOT, TIMEOUTS, Lab, played
from tests.log.logging_lab import WallClock, create, message
from tests.log.standby_lab import SMALL, until
from zonekeeper.client.api.client import Surroundings
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.log.api.log_client import LogClient
from zonekeeper.log.api.log_standby import LogStandby, WriterOpener
from zonekeeper.log.api.log_writer import LogWriter
from zonekeeper.log.standby.standing import SESSION_MS
from zonekeeper.metadata.formats.log_record import LogWriterMark
from zonekeeper.metadata.stores.memory import MemoryStore, Passage, RequestKind
from zonekeeper.placement.base.ids import ZoneName

TAKEOVERS = 4
FEW = 4
#: Of one log, from the death of its writer to the first acknowledgement of the next one. The
#: standby reads the names of the candidates, and the node that is gone. The client reads the record
#: for the decision, follows it, and opens the log: that is nearly all of it.
STANDBY_READS = 2
REQUESTS_MAX = 27


@dataclass
class Process:
    """Stands by for many logs."""

    lab: Lab
    name: str
    zone: str
    store: MemoryStore | None = None
    logs: LogClient | None = None
    standby: LogStandby | None = None
    asked: Counter[tuple[str, RequestKind]] = field(default_factory=Counter)
    appended: set[str] = field(default_factory=set)
    opening: int = 0
    opening_most: int = 0

    @asynccontextmanager
    async def running(self, names: list[str]) -> AsyncIterator[None]:
        async def open_session() -> MemoryStore:
            times = replace(TIMEOUTS, session_ms=SESSION_MS)
            self.store = MemoryStore(self.lab.server, root=ROOT, timeouts=times)
            self.store.weather = lambda kind: self.count("standby", kind)
            self.lab.stores.append(self.store)
            return self.store

        async with self.lab.client(self.name, ClientConfig(zone=ZoneName(self.zone))) as client:
            assert isinstance(client.cluster.store, MemoryStore)
            client.cluster.store.weather = lambda kind: self.count("client", kind)
            surroundings = Surroundings(Random(self.name), WallClock())
            self.logs = LogClient(client, surroundings, open_session=open_session)
            async with self.logs.standby(self.name, takeovers=TAKEOVERS) as self.standby:
                self.standby._open_writer = self.watched(self.standby._open_writer)
                async with asyncio.TaskGroup() as group:
                    tasks = [group.create_task(self.hold(name)) for name in names]
                    yield
                    for task in tasks:
                        task.cancel()

    def count(self, whose: str, kind: RequestKind) -> Passage:
        self.asked[whose, kind] += 1
        return Passage()

    def watched(self, opened: WriterOpener) -> WriterOpener:
        @asynccontextmanager
        async def opening(name: str, mark: LogWriterMark) -> AsyncIterator[LogWriter]:
            self.opening += 1
            self.opening_most = max(self.opening_most, self.opening)
            async with opened(name, mark) as writer:
                self.opening -= 1
                yield writer

        return opening

    async def hold(self, name: str) -> None:
        assert self.standby is not None
        async with self.standby.turn(name, ["a", "b"]) as turn:
            sequence = await turn.writer.append(message(turn.writer.next_sequence))
            await turn.writer.stored(sequence)
            self.appended.add(name)
            await turn.over()

    def stands_for_all(self, names: list[str]) -> bool:
        return self.standby is not None and all(map(self.standby.stands_for, names))


@pytest.mark.parametrize("count", [3, 40])
@played(bookies_in=SMALL)
async def test_a_process_has_one_session_for_all_its_logs(lab: Lab, count: int) -> None:
    names = [f"orders/{number}" for number in range(count)]
    for name in names:
        await create(lab, name=name)
    before = len(lab.server._sessions)
    process = Process(lab, "a-1", "a")
    async with process.running(names):
        await until(lambda: len(process.appended) == count)
        assert process.opening_most == min(count, TAKEOVERS)
        assert len(lab.server._sessions) == before + 2, "the client's, and the standby's"


@played(bookies_in=SMALL)
async def test_the_takeovers_of_a_process_cost_the_same_for_each_log(lab: Lab) -> None:
    few, many = await died(lab, FEW), await died(lab, 10 * FEW)
    assert few["standby", RequestKind.READ] == FEW * STANDBY_READS
    assert many["standby", RequestKind.READ] == 10 * FEW * STANDBY_READS
    assert not few["standby", RequestKind.WRITE]
    assert not many["standby", RequestKind.WRITE]
    assert few.total() <= FEW * REQUESTS_MAX
    assert many.total() <= 10 * few.total()


async def died(lab: Lab, count: int) -> Counter[tuple[str, RequestKind]]:
    """Let a process of so many logs die; give what the next one asks, until it writes them all."""
    names = [f"orders-{count}/{number}" for number in range(count)]
    for name in names:
        await create(lab, name=name)
    first, second = Process(lab, f"a-{count}", "a"), Process(lab, f"b-{count}", "b")
    dies = asyncio.Event()
    living = lab.tasks.create_task(live(first, names, dies))
    await until(lambda: len(first.appended) == count)
    async with second.running(names):
        await until(lambda: second.stands_for_all(names))
        assert not second.appended
        assert first.store is not None
        first.store.cut()
        dies.set()
        await living
        second.asked.clear()
        await until(lambda: len(second.appended) == count)
        assert second.opening_most == min(count, TAKEOVERS)
        return second.asked.copy()


async def live(process: Process, names: list[str], dies: asyncio.Event) -> None:
    async with process.running(names):
        await dies.wait()
