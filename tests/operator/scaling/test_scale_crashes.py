"""Wherever the operator dies while bookies are removed, or raised again, the end is the same.

It dies after every so many of its changes: the change was made, and nothing after it. Each time an
operator begins that knows nothing of it. Other changes it makes, and never hears the answer. It
reads from a follower of the metadata store that is behind, where a read does not ask for more.
"""

from collections.abc import Awaitable, Callable, Sequence

import pytest

from tests.operator.scaling.removing_world import KEPT, GoneWatch, RemovingWorld
from tests.operator.worlds import PATIENT
from zonekeeper.metadata.store.errors import StoreUnavailableError
from zonekeeper.metadata.store.store import MetadataStore, SessionId, Write, Written
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.operator.kubernetes.api import KubernetesError, ObjectKind

pytestmark = pytest.mark.simulation

_CHANGES = frozenset({"apply", "create", "delete", "release"})
#: Shorter, and an operator never sees the zone watch evaluate after the last change.
LIFE = 7
OFFSETS = [pytest.param(one, marks=() if one % 3 == 0 else pytest.mark.long) for one in range(LIFE)]
#: An answer is lost after so many changes; it is no divisor of a life.
LOSES_EVERY = 5
#: So far a follower is behind; a turn takes less.
LAG_MS = 40
#: What a follower that is behind has not shown yet is seen a little later.
AGAIN_MAX = 20
DEATHS_MIN = 4
DEATHS_MAX = 100
ALL = {f"log-{zone}-{number}" for zone in "abc" for number in range(3)}
DELETE = {"size": "1Gi", "onScaleDown": "Delete"}


class EndedError(BaseException):
    """The operator's process has ended, in the midst of a turn."""


class FrailWorld(RemovingWorld):
    """A world whose operator dies after every so many changes, and does not hear every answer."""

    def __init__(self, offset: int, **spec: object) -> None:
        super().__init__(**{"storage": DELETE, **spec})
        self._changes = offset
        self._is_dead = False
        self.is_frail = False
        self.deaths = 0
        self.lost = 0
        self.fate = self._call

    async def open_for_operator(self, address: str) -> MetadataStore:
        if self.is_cut_off:
            raise StoreUnavailableError("nobody answers", store=address)
        return FrailStore(self, self.root_of(address))

    def _call(self, verb: str, kind: ObjectKind) -> None:
        if self.is_frail:
            self.live()
            if verb in _CHANGES and self.count_change():
                raise KubernetesError(500, "the API server is busy")

    def live(self) -> None:
        """Die, if the last change was the last of this life."""
        if self._is_dead:
            raise EndedError

    def count_change(self) -> bool:
        """Count a change that is about to be made; is its answer lost?"""
        self._changes += 1
        self._is_dead = self._changes % LIFE == 0
        is_lost = not self._is_dead and self._changes % LOSES_EVERY == 0
        self.lost += is_lost
        return is_lost

    async def live_on(self, look: Callable[[], Awaitable[object]]) -> None:
        """Settle; an operator that has died is followed by one that knows nothing."""
        self.is_frail = True
        for _ in range(DEATHS_MAX):
            try:
                await self.settle(after_turn=look)
            except EndedError:
                self.deaths += 1
                self._is_dead = False
                await self.reconciler.close()
                self.reconciler = self.new_operator()
                await look()
                await self.controllers()
            except KubernetesError:
                await self.controllers()  # the turn has failed, and another one begins
            else:
                self.is_frail = False
                return
        raise AssertionError("it dies for ever")


class FrailStore(MemoryStore):
    """The metadata store as an operator reaches it that may be dead, or hear no answer."""

    def __init__(self, world: FrailWorld, root: str) -> None:
        super().__init__(world.server, root=root, timeouts=PATIENT)
        self.read_lag_ms = LAG_MS
        self._world = world

    async def commit(
        self, writes: Sequence[Write], *, session: SessionId | None = None
    ) -> tuple[Written, ...]:
        if not self._world.is_frail:
            return await super().commit(writes, session=session)
        self._world.live()
        is_lost = self._world.count_change()
        written = await super().commit(writes, session=session)
        if is_lost:
            raise StoreUnavailableError("no answer", store=self.name, maybe_applied=True)
        return written


async def frail(offset: int) -> FrailWorld:
    world = FrailWorld(offset)
    await world.settle()
    for number in range(3):
        await world.write_ledger(*(f"log-{zone}-{number}" for zone in "abc"))
    return world


async def ends(world: FrailWorld, watch: GoneWatch, cookies: set[str]) -> None:
    """Let an operator that dies again and again work until it has ended."""
    await ended(world, lambda: world.live_on(watch.look), cookies)


async def ended(
    world: RemovingWorld, go_on: Callable[[], Awaitable[object]], cookies: set[str]
) -> None:
    """Let all work until it has ended, with these bookies and no others."""
    for _ in range(AGAIN_MAX):
        await go_on()
        world.now_ms += 60_000  # a listing that has failed is repeated
        is_left = await world.orders() or await world.scaling()
        if not is_left and await world.cookies() == cookies == {*await world.claims()}:
            return
    raise AssertionError(f"it does not end: {await world.scaling()}")


@pytest.mark.parametrize("offset", OFFSETS)
async def test_an_operator_that_dies_again_and_again_removes_the_same_bookies(offset: int) -> None:
    world = await frail(offset)
    watch = GoneWatch(world)

    await world.change(bookiesPerZone=2)
    await ends(world, watch, KEPT)

    assert world.deaths >= DEATHS_MIN
    assert await world.cookies() == KEPT
    assert {*await world.claims()} == KEPT
    assert await world.orders() == {}
    assert await world.replicas() == {"a": 2, "b": 2, "c": 2}
    assert await world.scaling() == {}
    before = await world.picture()
    await world.turn()
    assert await world.picture() == before, "at rest there is no write"


@pytest.mark.parametrize(
    "turns",
    [
        pytest.param(one, marks=() if one in (4, 9, 14, 19) else pytest.mark.long)
        for one in range(2, 26)
    ],
)
async def test_raised_again_at_any_moment_every_bookie_is_there_again(turns: int) -> None:
    world = await frail(turns)
    watch = GoneWatch(world)
    await world.change(bookiesPerZone=2)
    for _ in range(turns):
        await world.turn()
        await watch.look()
        await world.controllers()

    await world.change(bookiesPerZone=3)
    await ends(world, watch, ALL)

    assert await world.cookies() == ALL
    assert {*await world.claims()} == ALL
    assert await world.orders() == {}
    assert world.refusing == set()
    assert await world.replicas() == {"a": 3, "b": 3, "c": 3}
    assert (await world.conditions())["Ready"] == ("True", "AllReady")
    for what, one in watch.gone:
        assert what != "claim" or ("cookie", one) in watch.gone
