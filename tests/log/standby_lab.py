"""Candidates of a log in a small cluster in virtual time."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from tests.client.lab import ROOT, TIMEOUTS, Lab
from tests.log.logging_lab import NAME, WallClock, check_whole, message, read_all
from zonekeeper.client.api.client import Surroundings
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.log.api.log_client import LogClient
from zonekeeper.log.api.log_standby import LogStandby, LogTurn
from zonekeeper.log.standby.standing import SESSION_MS
from zonekeeper.metadata.logs.log_candidates import CandidateTaken
from zonekeeper.metadata.stores.memory import ExchangeLoss, MemoryStore, Passage, RequestKind
from zonekeeper.metadata.stores.memory_server import MemoryServer
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.base.troubles import Trouble

ZONES: Final = ("a", "b")
#: A bookie for each zone: enough here, and fast.
SMALL: Final = {"a": 1, "b": 1, "c": 1}
#: Longer than any takeover takes in virtual time, and a limit for what never comes.
SOON_S: Final = 60.0


class Killed(Exception):
    """Ends a candidate as a kill would."""


@dataclass
class Host:
    """A process that stands by for one log, and appends while it is its turn."""

    name: str
    zone: str
    lab: Lab
    zones: Sequence[str] = ZONES
    log: str = NAME
    #: Its session as a candidate, and its client.
    store: MemoryStore | None = None
    logs: LogClient | None = None
    standby: LogStandby | None = None
    #: The present turn.
    turn: LogTurn | None = None
    turns: int = 0
    #: The sequences that were acknowledged to it.
    acked: list[int] = field(default_factory=list)
    #: Why it ended, if not by its kill.
    failure: BaseException | None = None
    ended: bool = False
    #: It appends by itself while this is set.
    busy: bool = True
    leaving: bool = False
    pace_s: float = 0.2
    #: Makes its session's store.
    make_store: Callable[[MemoryServer], MemoryStore] = field(
        default=lambda server: MemoryStore(
            server, root=ROOT, timeouts=replace(TIMEOUTS, session_ms=SESSION_MS)
        )
    )
    _kill: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None

    def start(self) -> "Host":
        self._task = self.lab.tasks.create_task(self._run())
        return self

    def stands(self) -> bool:
        """Does it stand for the log, as far as it knows itself?"""
        return self.standby is not None and self.standby.stands_for(self.log)

    async def kill(self) -> None:
        """Die: nothing is closed, and the session is silent."""
        assert self.store is not None
        assert self.logs is not None
        self.store.cut()
        self._kill.set()
        await until(lambda: self.ended)

    async def leave(self) -> None:
        """End in order; one that waits for its turn just goes."""
        self.leaving = True
        assert self._task is not None
        if self.turn is None:
            self._task.cancel()
        await until(lambda: self.ended)

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[LogClient]:
        async def open_session() -> MemoryStore:
            self.store = self.make_store(self.lab.server)
            self.lab.stores.append(self.store)
            return self.store

        config = ClientConfig(zone=ZoneName(self.zone))
        async with self.lab.client(self.name, config) as client:
            chance = random.Random(f"{self.name} {self.lab.chance.random()}")
            yield LogClient(client, Surroundings(chance, WallClock()), open_session=open_session)

    async def _run(self) -> None:
        try:
            async with asyncio.TaskGroup() as group:
                dying = group.create_task(self._die())
                async with self._client() as self.logs:
                    address = f"{self.name}:70"
                    async with self.logs.standby(self.name, address=address) as self.standby:
                        while not self.leaving:
                            await self._take_turn(self.standby)
                dying.cancel()
        except* Killed:
            pass
        except* Trouble as errors:
            self.failure = errors.exceptions[0]
        finally:
            self.turn = None
            self.ended = True

    async def _die(self) -> None:
        await self._kill.wait()
        raise Killed

    async def _take_turn(self, standby: LogStandby) -> None:
        async with standby.turn(self.log, self.zones) as turn:
            self.turns += 1
            self.turn = turn
            try:
                while self.busy and not self.leaving:
                    sequence = await turn.writer.append(message(turn.writer.next_sequence))
                    await turn.writer.stored(sequence)
                    self.acked.append(sequence)
                    await asyncio.sleep(self.pace_s)
                if not self.leaving:
                    await turn.over()
            finally:
                self.turn = None


async def until(is_so: Callable[[], bool], within_s: float = SOON_S) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(within_s):
        while not is_so():  # noqa: ASYNC110 it is looked at from outside
            await asyncio.sleep(0.01)


def all_acked(*hosts: Host) -> list[int]:
    return sorted(one for host in hosts for one in host.acked)


async def finish(lab: Lab, *hosts: Host) -> None:
    """End all hosts; each acknowledged message is in the log once, and nothing is in it twice."""
    for host in hosts:
        if not host.ended:
            await host.leave()
        assert host.failure is None or isinstance(host.failure, CandidateTaken)
    async with lab.client("check") as client:
        count = len(await read_all(client))
    await check_whole(lab, count)
    acked = all_acked(*hosts)
    assert len(set(acked)) == len(acked), "a message was acknowledged to two writers"
    assert acked[-1] < count


def writes(host: Host) -> bool:
    return host.turn is not None


async def writing_host(lab: Lab, name: str, zone: str) -> Host:
    """Start a candidate, and wait until it writes."""
    host = Host(name, zone, lab).start()
    await until(lambda: len(host.acked) > 3)
    return host


def lose_first_answers(store: MemoryStore, count: int) -> None:
    """Let a store lose the answers of its next writes."""
    left = count

    def weather(kind: RequestKind) -> Passage:
        nonlocal left
        if kind is RequestKind.READ or left == 0:
            return Passage()
        left -= 1
        return Passage(loss=ExchangeLoss.ANSWER)

    store.weather = weather
