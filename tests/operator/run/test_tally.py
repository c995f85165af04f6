"""The tasks of resources count how their turns end."""

import asyncio
from dataclasses import replace

from tests.operator.resources import KEY, SPACE
from tests.operator.worlds import World
from tests.support import virtual_time
from zonekeeper.operator.kubernetes.api import BOOKIE_CLUSTERS, KubernetesError, ObjectKind
from zonekeeper.operator.run.reconciling import Clocks, Reconcilers
from zonekeeper.operator.run.turn_figures import WELL_MS_MAX, TurnTally


def now_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1_000)


def refuse(verb: str, kind: ObjectKind) -> None:
    if verb == "list":
        raise KubernetesError(500, "no")


def refuse_acts(verb: str, kind: ObjectKind) -> None:
    if verb == "apply" and kind != BOOKIE_CLUSTERS:
        raise KubernetesError(403, "a quota forbids it")


@virtual_time.played
async def test_turns_are_counted_as_they_end() -> None:
    world = World()
    tally = TurnTally(now_ms)
    clocks = Clocks(wall=world.clocks.wall, monotonic_ms=now_ms)
    async with asyncio.TaskGroup() as group:
        around = replace(world.surroundings(), clocks=clocks, spawn=group.create_task)
        reconcilers = Reconcilers(around, group, tally=tally)
        reconcilers.wake(KEY)
        await asyncio.sleep(60)
        one = tally.clusters[str(KEY)]
        assert one.ended_well > 2
        assert (one.failed, one.failed_acts) == (0, 0)
        assert one.figures is not None
        assert one.figures.bookies_asked == 6
        assert one.figures.predicate == "NotObserved", "no controller looks at templates here"

        world.kubernetes.disturb = refuse
        await asyncio.sleep(WELL_MS_MAX / 1_000 + 60)
        assert one.failed > 2
        assert tally.stalled()

        world.kubernetes.disturb = refuse_acts
        world.kubernetes.mark_deleted(BOOKIE_CLUSTERS, SPACE, "log")
        reconcilers.wake(KEY)
        await asyncio.sleep(1)
        assert tally.clusters == {}, "the resource is gone, and is not waited for"
        assert not tally.stalled()


@virtual_time.played
async def test_a_turn_whose_act_is_refused_has_ended_well() -> None:
    world = World()
    tally = TurnTally(now_ms)
    clocks = Clocks(wall=world.clocks.wall, monotonic_ms=now_ms)
    world.kubernetes.disturb = refuse_acts
    async with asyncio.TaskGroup() as group:
        around = replace(world.surroundings(), clocks=clocks, spawn=group.create_task)
        reconcilers = Reconcilers(around, group, tally=tally)
        reconcilers.wake(KEY)
        await asyncio.sleep(WELL_MS_MAX / 1_000 * 3)
        one = tally.clusters[str(KEY)]
        assert one.failed == 0
        assert one.failed_acts > 5
        assert not tally.stalled(), "a restart would not help"
        reconcilers.stop()
