"""Elections as Apache's auditor holds them: numbered ephemeral votes, and the lowest leads.

    <path>/V_<sequence>    ephemeral, names the candidate: exists as long as its session
    <path>                 names the leader; people and Apache's tools read it there

A candidate knows that it leads only as of some past moment. A write that two processes must not
both make is therefore bound to the leader's session, and is refused once that session is over
(``Leadership.session``).

A *stand-in* votes only when no other candidate has voted for some time. It takes its vote back if
another one was faster. Once it leads, no other candidate replaces it before it ends. Time in which
the store is out of reach does not count, because it is not known which candidates voted then.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never

from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import underreplication_format
from zonekeeper.metadata.formats.malformed import stored_at
from zonekeeper.metadata.store import update
from zonekeeper.metadata.store.background import alongside
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.metadata.store.store import MetadataStore, SessionId, Versioned
from zonekeeper.placement.base.ids import BookieId

_VOTE: Final = "V_"
#: The delay of a stand-in may change, so a waiting candidate checks it at least this often.
_LOOK_AGAIN_MS: Final = 5_000
_RETRY_DELAY_MS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """The right to lead, as long as the session lives."""

    session: SessionId


# ── deciding ──


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The knowledge of a candidate: all votes in order, and its own vote."""

    votes: tuple[str, ...]
    mine: str | None
    #: None if there is no session, or it is out of reach.
    session: SessionId | None
    #: The time on the loop's clock since which there is no vote; None if there is one, or unknown.
    vacant_since_ms: int | None


@dataclass(frozen=True, slots=True)
class Vote:
    """Cast a vote."""


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Take the vote back."""


@dataclass(frozen=True, slots=True)
class Lead:
    """Go on, or begin, to lead."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing until something changes, or until a time on the loop's clock."""

    until_ms: int | None = None


Step: TypeAlias = Vote | Withdraw | Lead | Wait


def next_step(scene: Scene, now_ms: int, *, stand_in_after_ms: int | None) -> Step:
    """Give a candidate's next step; ``stand_in_after_ms`` is None for an ordinary candidate."""
    if scene.session is None:
        return Wait()
    if scene.mine is not None and scene.mine in scene.votes:
        if scene.votes[0] == scene.mine:
            return Lead()
        return Wait() if stand_in_after_ms is None else Withdraw()
    if stand_in_after_ms is None:
        return Vote()
    if scene.vacant_since_ms is None:
        return Wait()
    due_ms = scene.vacant_since_ms + stand_in_after_ms
    return Vote() if now_ms >= due_ms else Wait(until_ms=due_ms)


def in_order(names: tuple[str, ...]) -> tuple[str, ...]:
    """Give the votes among the names of nodes, the leader's vote first."""
    votes = [name for name in names if name.removeprefix(_VOTE).isdecimal()]
    return tuple(sorted(votes, key=lambda name: int(name.removeprefix(_VOTE))))


# ── doing ──


def auditor_votes(cluster: Cluster) -> str:
    """Give the path of the election of auditors, ours and Apache's."""
    return cluster.root.below("underreplication/auditorelection")


def zone_watch_votes(cluster: Cluster) -> str:
    """Give the path of the election of zone watches."""
    return cluster.root.beside("zone-watch")


def log_keeper_votes(cluster: Cluster) -> str:
    """Give the path of the election of log keepers."""
    return cluster.root.beside("log-keeper")


@asynccontextmanager
async def stand(
    store: MetadataStore,
    votes: str,
    candidate: BookieId,
    *,
    stand_in_after_ms: Callable[[], int] | None = None,
) -> AsyncIterator[AsyncIterator[Leadership | None]]:
    """Stand for election; follow whether this candidate leads (None: it does not, or may not).

    ``stand_in_after_ms`` gives the time without a leader after which this candidate stands; None
    means at once. It may give another time later, which takes effect within seconds. The vote is
    taken back at the end of the block.
    """
    candidacy = _Candidacy(store, votes, candidate, stand_in_after_ms)
    work = (candidacy.follow_votes(), candidacy.follow_session(), candidacy.run())
    try:
        async with alongside(*work), aclosing(candidacy.states()) as states:
            yield states
    finally:
        # Only now does no task vote any more. The end of the session would remove the vote too.
        with suppress(StoreError):
            await candidacy.withdraw()


async def leader(store: MetadataStore, votes: str) -> BookieId | None:
    """Give the present leader; None if there is none."""
    for name in in_order(await store.children(votes, sync=True) or ()):
        path = f"{votes}/{name}"
        node = await store.get(path)
        if node is not None:
            with stored_at(path, store.name):
                return underreplication_format.parse_holder(node.value)
    return None


class _Candidacy:
    """Reads the votes again at every change, so that it need not remember anything itself.

    Its vote is the vote of its session. So a vote whose answer was lost is found, and not cast
    twice.
    """

    def __init__(
        self,
        store: MetadataStore,
        path: str,
        candidate: BookieId,
        stand_in_after_ms: Callable[[], int] | None,
    ) -> None:
        self._store = store
        self._path = path
        self._value = underreplication_format.render_holder(candidate)
        self._stand_in_after_ms = stand_in_after_ms
        self._changed = asyncio.Event()
        self._known: Leadership | None = None
        self._told = asyncio.Event()
        self._vacant_since_ms: int | None = None

    async def follow_votes(self) -> None:
        async with self._store.watch_children(self._path) as states:
            async for _ in states:
                self._changed.set()

    async def follow_session(self) -> None:
        async with self._store.watch_session() as sessions:
            async for session in sessions:
                if not session.connected:
                    self._vacant_since_ms = None
                self._know(self._known)
                self._changed.set()

    async def run(self) -> None:
        """Take every step that is due, as long as this candidate stands."""
        while True:
            self._changed.clear()
            try:
                leadership, until_ms = await self._proceed()
            except StoreError as error:
                if not (error.retryable or error.maybe_applied):
                    raise
                leadership, until_ms = None, self._now_ms() + _RETRY_DELAY_MS
            self._know(leadership)
            await self._moved(until_ms)

    async def states(self) -> AsyncGenerator[Leadership | None, None]:
        last = self._known
        yield last
        while True:
            await self._told.wait()
            self._told.clear()
            if self._known != last:
                last = self._known
                yield last

    def _know(self, leadership: Leadership | None) -> None:
        """Publish what is known now, unless the session has changed meanwhile."""
        session = self._store.session
        if leadership is not None and (not session.connected or session.id != leadership.session):
            leadership = None
        self._known = leadership
        self._told.set()

    async def withdraw(self) -> None:
        """Take back every vote of this session."""
        session = self._store.session.id
        for name, node in await self._votes():
            if session is not None and node.owner == session:
                await self._store.delete(
                    f"{self._path}/{name}", version=node.version, session=session
                )

    async def _proceed(self) -> tuple[Leadership | None, int | None]:
        """Take steps until there is nothing to do; give the leadership, and when to look again."""
        while True:
            scene = await self._scene()
            after_ms = None if self._stand_in_after_ms is None else self._stand_in_after_ms()
            step = next_step(scene, self._now_ms(), stand_in_after_ms=after_ms)
            match step:
                case Vote():
                    await self._store.create(
                        f"{self._path}/{_VOTE}",
                        self._value,
                        ephemeral=True,
                        sequential=True,
                        make_parents=True,
                        session=scene.session,
                    )
                case Withdraw():
                    await self.withdraw()
                case Lead():
                    assert scene.session is not None, "no candidate leads without a session"
                    await self._announce(scene.session)
                    return Leadership(session=scene.session), None
                case Wait(until_ms):
                    return None, until_ms
                case _:
                    assert_never(step)

    async def _scene(self) -> Scene:
        session = self._store.session
        votes = await self._votes()
        if votes or not session.connected:
            self._vacant_since_ms = None
        elif self._vacant_since_ms is None:
            self._vacant_since_ms = self._now_ms()
        return Scene(
            votes=tuple(name for name, _ in votes),
            mine=next((name for name, node in votes if node.owner == session.id), None),
            session=session.id if session.connected else None,
            vacant_since_ms=self._vacant_since_ms,
        )

    async def _votes(self) -> list[tuple[str, Versioned]]:
        names = in_order(await self._store.children(self._path, sync=True) or ())
        nodes = [(name, await self._store.get(f"{self._path}/{name}")) for name in names]
        return [(name, node) for name, node in nodes if node is not None]

    async def _announce(self, session: SessionId) -> None:
        def decide(node: Versioned | None) -> update.Decision:
            same = node is not None and node.value == self._value
            return update.Keep() if same else update.Store(self._value)

        await update.update(self._store, self._path, decide, session=session)

    async def _moved(self, until_ms: int | None) -> None:
        """Wait for a change, or until a time on the loop's clock, which may be set anew."""
        delay_s = None
        if until_ms is not None:
            delay_s = max(0, min(until_ms - self._now_ms(), _LOOK_AGAIN_MS)) / 1000
        with suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._changed.wait()

    def _now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)
