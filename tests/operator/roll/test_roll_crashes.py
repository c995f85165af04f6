"""Wherever the operator dies while a cluster is made and rolled, the end is the same.

The operator dies after every so many of its changes, in Kubernetes or in the metadata store: the
change was made, and nothing after it. Each time an operator begins that knows nothing of it.
"""

from collections.abc import Awaitable, Callable, Sequence

import pytest

from tests.operator import resources
from tests.operator.roll import rolling_world
from tests.operator.roll.rolling_world import NEW, OLD, THIRD, UnitsAway
from tests.operator.worlds import World
from zonekeeper.metadata.store.store import MetadataStore, SessionId, Write, Written
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.operator.kubernetes.api import ObjectKind

pytestmark = pytest.mark.simulation

#: The calls that change something in Kubernetes.
_CHANGES = frozenset({"apply", "create", "delete", "release"})
#: An operator that lives for much shorter than this never sees the zone watch evaluate twice, and
#: does nothing for good reason.
LIFE = 17
#: All positions of the deaths; together more than 200 of them. ``make check`` has some of them.
OFFSETS = [pytest.param(one, marks=() if one % 6 == 0 else pytest.mark.long) for one in range(LIFE)]
DEATHS_MIN = 12
DEATHS_MAX = 100


class DiedError(BaseException):
    """The operator's process has ended, in the midst of a turn."""


class MortalWorld(World):
    """A world whose operator dies after every so many changes."""

    def __init__(self, offset: int, image: str) -> None:
        super().__init__(None, image=image)
        self._changes = offset
        self._is_dead = False
        self.deaths = 0
        self.fate = self._call

    async def open_for_operator(self, address: str) -> MetadataStore:
        return MortalStore(self, self.root_of(address))

    def _call(self, verb: str, kind: ObjectKind) -> None:
        self.live()
        if verb in _CHANGES:
            self.count_change()

    def live(self) -> None:
        """Die, if the last change was the last of this life."""
        if self._is_dead:
            raise DiedError

    def count_change(self) -> None:
        """Count a change that is about to be made."""
        self._changes += 1
        self._is_dead = self._changes % LIFE == 0

    async def live_on(self, look: Callable[[], Awaitable[object]]) -> None:
        """Settle; an operator that has died is followed by one that knows nothing."""
        for _ in range(DEATHS_MAX):
            try:
                await self.settle(after_turn=look)
            except DiedError:
                self.deaths += 1
                self._is_dead = False
                await self.reconciler.close()
                self.reconciler = self.new_operator()
                await look()
                await self.controllers()
            else:
                return
        raise AssertionError("it dies for ever")


class MortalStore(MemoryStore):
    """The metadata store as an operator reaches it that may be dead."""

    def __init__(self, world: MortalWorld, root: str) -> None:
        super().__init__(world.server, root=root)
        self._world = world

    async def commit(
        self, writes: Sequence[Write], *, session: SessionId | None = None
    ) -> tuple[Written, ...]:
        self._world.live()
        self._world.count_change()
        return await super().commit(writes, session=session)


@pytest.mark.parametrize("offset", OFFSETS)
async def test_an_operator_that_dies_again_and_again_makes_and_rolls_the_same_cluster(
    offset: int,
) -> None:
    world = MortalWorld(offset, OLD)
    await world.live_on(world.picture)
    assert set((await rolling_world.images(world)).values()) == {OLD}

    watched = UnitsAway(world)
    await world.change(image=NEW)
    await world.live_on(watched.look)

    await world.change(image=THIRD)
    await world.live_on(watched.look)

    assert world.deaths >= DEATHS_MIN
    assert set((await rolling_world.images(world)).values()) == {THIRD}
    assert set((await rolling_world.templates(world)).values()) == {THIRD}
    assert resources.statuses(await world.conditions()) == {"True"}
    assert (await rolling_world.roll(world))["phase"] == "Settled"
    assert await rolling_world.declared(world) == []
