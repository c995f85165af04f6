"""Elections as Apache's auditor holds them: numbered ephemeral votes, and the lowest leads.

    <path>/V_<sequence>    ephemeral, names the candidate: lives as long as its session
    <path>                 names the leader, where people and Apache's tools look for it

Leading is known only as of some moment past; what must not be done by two is written with the
leader's session, and refused once that is over (``Leadership.session``).

A *stand-in* votes only when nobody else has voted for a while, and takes its vote back if somebody
was faster. Once it leads nobody takes its place before it ends. Time out of reach of the store does
not count as a while: nobody knows who was there.
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
#: Who waits for his time looks at least so often whether it is another one now.
_LOOK_AGAIN_MS: Final = 5_000
_RETRY_DELAY_MS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """The right to lead, as long as the session lives."""

    session: SessionId


# ── deciding ──


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What a candidate knows: who votes, in order, and what its own vote is."""

    votes: tuple[str, ...]
    mine: str | None
    #: None: there is none, or it is out of reach.
    session: SessionId | None
    #: Since when nobody votes, on the loop's clock; None: somebody does, or it is not known.
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
    """Say what a candidate does next; ``stand_in_after_ms`` is None for an ordinary one."""
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
    """Give the votes among the names of nodes, the leader's first."""
    votes = [name for name in names if name.removeprefix(_VOTE).isdecimal()]
    return tuple(sorted(votes, key=lambda name: int(name.removeprefix(_VOTE))))


# ── doing ──


def auditor_votes(cluster: Cluster) -> str:
    """Say where auditors are elected, ours and Apache's."""
    return cluster.root.below("underreplication/auditorelection")


def zone_watch_votes(cluster: Cluster) -> str:
    """Say where zone watches are elected."""
    return cluster.root.beside("zone-watch")


@asynccontextmanager
async def stand(
    store: MetadataStore,
    votes: str,
    candidate: BookieId,
    *,
    stand_in_after_ms: Callable[[], int] | None = None,
) -> AsyncIterator[AsyncIterator[Leadership | None]]:
    """Stand for election; follow whether this candidate leads (None: it does not, or may not).

    ``stand_in_after_ms`` says how long nobody must have led before this candidate stands; None: it
    stands at once. It may give another answer later, which is felt within seconds. The vote is
    taken back on the way out.
    """
    candidacy = _Candidacy(store, votes, candidate, stand_in_after_ms)
    work = (candidacy.follow_votes(), candidacy.follow_session(), candidacy.run())
    try:
        async with alongside(*work), aclosing(candidacy.states()) as states:
            yield states
    finally:
        # Only now that nobody votes any more. The session's end would do it too.
        with suppress(StoreError):
            await candidacy.withdraw()


async def leader(store: MetadataStore, votes: str) -> BookieId | None:
    """Say who leads now; None: nobody does."""
    for name in in_order(await store.children(votes, sync=True) or ()):
        path = f"{votes}/{name}"
        node = await store.get(path)
        if node is not None:
            with stored_at(path, store.name):
                return underreplication_format.parse_holder(node.value)
    return None


class _Candidacy:
    """Looks at the votes anew whenever something moved, so that it remembers nothing of its own.

    Its vote is the one of its session, so a vote whose answer was lost is found and not doubled.
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
        """Take every step that is due, for as long as we stand."""
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
        """Tell what is known now, unless the session has moved on meanwhile."""
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
        """Take steps until there is nothing to do; say whether we lead, and when to look again."""
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
                    assert scene.session is not None, "nobody leads without a session"
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
        """Wait until something changed, or for a time on the loop's clock, which may change too."""
        delay_s = None
        if until_ms is not None:
            delay_s = max(0, min(until_ms - self._now_ms(), _LOOK_AGAIN_MS)) / 1000
        with suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._changed.wait()

    def _now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)
