"""The turns of a process that has lost the right to act change nothing, in no store."""

from collections.abc import Callable, Coroutine
from typing import TypeVar

import pytest

from tests.operator.resources import KEY, SPACE, URI
from tests.operator.worlds import World
from zonekeeper.operator.cluster import desired
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.kubernetes.api import BOOKIE_CLUSTERS, EVENTS, ObjectKind
from zonekeeper.operator.lead.keeping_lease import LeaseLostError
from zonekeeper.operator.lead.leading import Right
from zonekeeper.operator.lead.leased_api import LeasedKubernetes
from zonekeeper.operator.plan.plans import InitialiseRoot
from zonekeeper.operator.roots.roots import Roots
from zonekeeper.operator.run.acting import Actor
from zonekeeper.operator.run.reconciling import Reconciler

T = TypeVar("T")


class EndingRight(Right):
    """The right of a process that is frozen in the middle of a turn: it ends after some acts."""

    def __init__(self, acts: int) -> None:
        self.left = acts
        self.refused = 0

    def left_ms(self) -> int:
        return max(self.left, 0)

    async def perform(self, act: Callable[[], Coroutine[object, object, T]]) -> T:
        if self.left <= 0:
            self.refused += 1
            raise LeaseLostError("nothing was done")
        self.left -= 1
        return await act()


async def picture(world: World) -> tuple[object, ...]:
    objects, stored = await world.picture()
    return objects, stored, await world.kubernetes.list(EVENTS, SPACE)


@pytest.mark.parametrize("acts", range(12))
@pytest.mark.parametrize("leaves", [False, True])
async def test_nothing_is_written_after_the_last_act_that_was_permitted(
    acts: int, leaves: bool
) -> None:
    world = World(onDelete="Delete")
    if leaves:
        await world.settle()
        world.delete()
    right = EndingRight(acts)
    leased = LeasedKubernetes(world.kubernetes, right)
    world.reconciler = Reconciler(world.surroundings(kubernetes=leased, right=right), KEY)
    for _ in range(40):
        await turned(world)
        await world.controllers()
        if right.refused:
            break
    assert right.refused, "it never wanted to act again"
    before = await picture(world)
    writes: list[str] = []

    def note(verb: str, kind: ObjectKind) -> None:
        if verb not in ("get", "list"):
            writes.append(f"{verb} {kind.name}")

    world.fate = note
    for _ in range(5):
        await turned(world)

    assert writes == []
    assert await picture(world) == before
    assert world.kubernetes.peek(BOOKIE_CLUSTERS, SPACE, "log") is not None


async def turned(world: World) -> None:
    """Do a turn, which may fail because the right has ended."""
    try:
        await world.turn()
    except LeaseLostError:
        return


async def test_the_metadata_store_is_not_written_without_the_right() -> None:
    world = World()
    item = await world.get()
    wanted = desired.read(item)
    assert isinstance(wanted, Desired)
    root = Roots(world.open_for_operator)
    acts = (InitialiseRoot(wanted.policy),)

    refused = await Actor(world.kubernetes, root, EndingRight(0)).perform(acts, item, URI)
    assert "nothing was done" in refused[0]
    assert await world.nodes_in_store() == []

    done = await Actor(world.kubernetes, root, EndingRight(1)).perform(acts, item, URI)
    assert done == ()
    assert await world.nodes_in_store() != []
    await root.close()
