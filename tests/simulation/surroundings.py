"""What every process of a simulated world finds around it, and tells its doings to."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final

from tests.simulation import history as seen
from tests.simulation.loop import loop
from tests.simulation.scenarios import MetaWeather, Scenario
from zonekeeper.metadata.stores.memory import Kind, Loss, MemoryStore, Passage, Weather
from zonekeeper.metadata.stores.memory_server import MemoryServer
from zonekeeper.metadata.stores.timeouts import Timeouts
from zonekeeper.wire.twin import Network
from zonekeeper.wire.twin import Weather as NetworkWeather

ROOT: Final = "/ledgers"
SESSION_MS: Final = 2_000
TIMEOUTS: Final = Timeouts(session_ms=SESSION_MS, request_ms=1_500)

#: How the network is before the first fault, and after the last.
CALM: Final = NetworkWeather(delay_min_ms=0.2, delay_max_ms=2)


class Surroundings:
    """One world's network, metadata service, chance and history."""

    def __init__(self, scenario: Scenario, tasks: asyncio.TaskGroup) -> None:
        self.scenario = scenario
        self.tasks = tasks
        self.server = MemoryServer()
        self.network = Network(tasks=tasks, chance=scenario.chance("network"), weather=CALM)
        self.history = seen.History()
        #: What the metadata store's network is like now.
        self.meta = MetaWeather()
        self._loop = loop()

    def note(self, event: seen.Event) -> None:
        """Write an event down."""
        self.history.add(event, self.now_ms())

    def now_ms(self) -> int:
        """Give the time since the world began."""
        return int(self._loop.time() * 1_000)

    def later(self, delay_ms: float, call: Callable[[], object]) -> None:
        """Have something done, by nobody in the world."""
        self._loop.call_later(delay_ms / 1_000, call)

    def open_store(self, name: str) -> MemoryStore:
        """Give a process its connection to the metadata store."""
        store = MemoryStore(self.server, root=ROOT, timeouts=TIMEOUTS)
        store.weather = _weather(lambda: self.meta, self.scenario.chance(f"metadata of {name}"))
        return store


def _weather(now: Callable[[], MetaWeather], chance: Random) -> Weather:
    def pass_by(kind: Kind) -> Passage:
        del kind
        weather = now()
        drawn = chance.random()
        loss = Loss.NOTHING
        if drawn < weather.request_loss:
            loss = Loss.REQUEST
        elif drawn < weather.request_loss + weather.answer_loss:
            loss = Loss.ANSWER
        return Passage(
            there_ms=int(chance.random() * weather.delay_max_ms),
            back_ms=int(chance.random() * weather.delay_max_ms),
            loss=loss,
        )

    return pass_by
