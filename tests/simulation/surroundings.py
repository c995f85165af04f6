"""What every process of a simulated world finds around it, and tells its doings to."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Final

from tests.simulation import history as seen
from tests.simulation.loop import Between, Clock, Process, loop
from tests.simulation.scenarios import MetaWeather, Scenario
from tests.support import roles
from zonekeeper.bookie.segments.counters import StorageCounters
from zonekeeper.bookie.storage.storage import Storage
from zonekeeper.metadata.access.acl_book import NodeCaller
from zonekeeper.metadata.access.node_rights import StoreRole
from zonekeeper.metadata.store.store import SessionId, Write, Written, name_of, parent_of
from zonekeeper.metadata.stores.memory import (
    ExchangeLoss,
    MemoryStore,
    Passage,
    RequestKind,
    Weather,
)
from zonekeeper.metadata.stores.memory_server import ITSELF, MemoryServer
from zonekeeper.metadata.stores.timeouts import Timeouts
from zonekeeper.metadata.stores.tree import Node
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.wire.twin.twin import Network
from zonekeeper.wire.twin.twin import Weather as NetworkWeather

ROOT: Final = "/ledgers"
INSTANCE: Final = "6f2ee3ee-52a8-4b5c-8f0e-4a3c8d5f0c11"
#: How long a process may be silent before its session is over, where nothing else is said.
SESSION_MS: Final = 2_000
_REQUEST_MS: Final = 1_500

#: How the network is before the first fault, and after the last.
CALM: Final = NetworkWeather(delay_min_ms=0.2, delay_max_ms=2)


#: Arrival segments that were sorted: after each a checkpoint names it, and it is used again.
REWRITTEN: Final = "segments rewritten"
#: Lives of bookies that began with a checkpoint that a rewrite left.
BEGAN_BEHIND_A_ROUND: Final = "starts behind a rewrite"
#: Sessions that ended while their process knew nothing of it.
EXPIRED: Final = "sessions run out"
#: Frames on disks that are not what was written.
ROTTEN: Final = "frames rotten"

#: A read is lost so many times more rarely than a write. It is only asked again, and what it takes
#: down with it makes every process ask everything again.
_READS_LOST: Final = 5

#: How long before the world, at most, a process's clock began.
_BEGAN_MAX_S: Final = 100_000


def _nobody_listens() -> None:
    pass


class _Service(MemoryServer):
    """A metadata service that lives by the world's time, whichever process asks it."""

    #: Sessions that it has ended, and that no client gave back.
    sessions_ended = 0
    #: What it is set back to; None: there is no backup yet.
    _backup: dict[str, Node] | None = None
    #: Is told when it was set back; ``ids_lost`` is where the ids ended before.
    on_set_back: Callable[[], None] = staticmethod(_nobody_listens)
    ids_lost = 0

    def back_up(self) -> None:
        """Keep all nodes as they are now, but those of sessions."""
        self._backup = {path: node for path, node in self._nodes.items() if node.owner is None}

    def set_back(self) -> bool:
        """Be what the backup says; all sessions end. False: there is no backup."""
        if self._backup is None:
            return False
        for session in list(self._sessions):
            loop().as_world(super().expire, session)
        self.ids_lost = self.ids_given_out()
        children: dict[str, set[str]] = {path: set() for path in self._backup}
        for path in self._backup.keys() - {"/"}:
            children[parent_of(path)].add(name_of(path))
        self._children = children
        self._nodes = {
            path: replace(node, child_count=len(children[path]))
            for path, node in self._backup.items()
        }
        self._history.clear()
        self.on_set_back()
        return True

    def ids_given_out(self) -> int:
        """Give a number that all short ids are below that were given out."""
        node = self._nodes.get(f"{ROOT}/idgen")
        return 0 if node is None else node.children_made

    def paths(self) -> list[str]:
        """Give the paths of all nodes."""
        return sorted(self._nodes)

    def expire(self, session: SessionId) -> None:
        self.sessions_ended += self.lives(session)
        super().expire(session)

    def unheard(self, session: SessionId) -> None:
        loop().as_world(super().unheard, session)

    def apply(
        self, writes: Sequence[Write], session: SessionId, caller: NodeCaller = ITSELF
    ) -> tuple[Written, ...]:
        return loop().as_world(super().apply, writes, session, caller)

    def seen_at(self, time: float) -> int:
        return super().seen_at(loop().world_time_of(time))


class Store(MemoryStore):
    """A connection to the metadata service, which its world knows while there is a process."""

    def __init__(
        self,
        server: MemoryServer,
        timeouts: Timeouts,
        known: dict["Store", None],
        role: StoreRole,
    ) -> None:
        super().__init__(server, root=ROOT, timeouts=timeouts, mine=(roles.of(role),))
        self._known = known
        known[self] = None

    async def close(self) -> None:
        self._known.pop(self, None)
        await super().close()

    def leave(self) -> None:
        """Be cut off for good: the process is no more."""
        self._known.pop(self, None)
        self.cut()


class Surroundings:
    """One world's network, metadata service, chance and history."""

    def __init__(self, scenario: Scenario, tasks: asyncio.TaskGroup) -> None:
        self.scenario = scenario
        self.tasks = tasks
        self.server = _Service()
        self._loop = loop()
        self._clocks = scenario.chance("clocks")
        self.network = Network(
            tasks=tasks,
            chance=scenario.chance("network"),
            weather=CALM,
            timing=Between(self._loop),
        )
        self.history = seen.History()
        #: Of all lives of bookies.
        self._counters: list[StorageCounters] = []
        self._work: Counter[str] = Counter()
        #: What the metadata store's network is like now.
        self.meta = MetaWeather()
        self._stores: dict[Store, None] = {}
        self._stores_cut = False
        #: Ledgers from before the store was set back.
        self.from_before: frozenset[LedgerId] = frozenset()

    def note(self, event: seen.Event) -> None:
        """Write an event down."""
        self.history.add(event, self.now_ms())

    def began(self, storage: Storage) -> None:
        """Hear of what a bookie begins a life with."""
        self._counters.append(storage.counters)
        self.did(BEGAN_BEHIND_A_ROUND, bool(storage.segments))

    def did(self, what: str, times: int = 1) -> None:
        """Hear of something that no process in the world sees."""
        self._work[what] += times

    def work(self) -> Counter[str]:
        """Give what bookies did that no client sees, and how often."""
        segments = sum(counters.rewritten_segments for counters in self._counters)
        return self._work + Counter({REWRITTEN: segments, EXPIRED: self.server.sessions_ended})

    def now_ms(self) -> int:
        """Give the time since the world began."""
        return int(self._loop.world_time() * 1_000)

    def later(self, delay_ms: float, call: Callable[[], object]) -> None:
        """Have something done, by no process of the world."""
        self._loop.call_at_world(self._loop.world_time() + delay_ms / 1_000, call)

    def process(self, name: str) -> Process:
        """Make a process, with a clock of its own."""
        drift = self.scenario.clock_drift
        began_s = self._clocks.random() * _BEGAN_MAX_S
        return Process(name, Clock(began_s, 1 + drift * (2 * self._clocks.random() - 1)))

    def cut_stores(self, *, sessions_last: bool) -> None:
        """Take the metadata service away from all; its sessions end, or last as it stood still."""
        self._stores_cut = True
        for store in self._stores:
            store.cut()
            if sessions_last and store.session.id is not None:
                self.server.heard(store.session.id)

    def mend_stores(self) -> None:
        """Give the metadata service back to all."""
        self._stores_cut = False
        for store in self._stores:
            store.mend()

    def open_store(self, name: str) -> Store:
        """Give a process its connection to the metadata store."""
        timeouts = Timeouts(session_ms=self.scenario.session_ms, request_ms=_REQUEST_MS)
        store = Store(self.server, timeouts, self._stores, _role_of(name))
        if self._stores_cut:
            store.cut()
        store.weather = _weather(lambda: self.meta, self.scenario.chance(f"metadata of {name}"))
        return store


#: The actors that are no clients, by what their names begin with.
_ROLES: Final = {
    "autorecovery": StoreRole.AUTORECOVERY,
    "log-keeper": StoreRole.AUTORECOVERY,
    "mender": StoreRole.ADMIN,
    "a person": StoreRole.ADMIN,
    "stranger": StoreRole.ADMIN,
    "bk-": StoreRole.BOOKIE,
}


def _role_of(name: str) -> StoreRole:
    actor = name.rpartition(" of ")[2]
    found = (role for begin, role in _ROLES.items() if actor.startswith(begin))
    return next(found, StoreRole.CLIENT)


def _weather(now: Callable[[], MetaWeather], chance: Random) -> Weather:
    def pass_by(kind: RequestKind) -> Passage:
        weather = now()
        drawn = chance.random() * (_READS_LOST if kind is RequestKind.READ else 1)
        loss = ExchangeLoss.NOTHING
        if drawn < weather.request_loss:
            loss = ExchangeLoss.REQUEST
        elif drawn < weather.request_loss + weather.answer_loss:
            loss = ExchangeLoss.ANSWER
        return Passage(
            there_ms=int(chance.random() * weather.delay_max_ms),
            back_ms=int(chance.random() * weather.delay_max_ms),
            loss=loss,
        )

    return pass_by
