"""Wherever the operator dies during a drill, the zone comes back, and the drill ends with a report.

It dies once, after its k-th change: the change was made, and nothing after it. The next operator
knows nothing of it. In other plays each of its calls may fail, and a dead operator stays dead until
long after the zone's time.
"""

import pytest

from tests.operator.drills.drill_world import FOR_MS, DrillWorld
from zonekeeper.operator.kubernetes.api import Json, KubernetesError, ObjectKind

_CHANGES = frozenset({"apply", "create", "edit", "delete", "release"})
#: A drill makes fewer changes than this.
CHANGES_MAX = 40
TURNS_MAX = 120
DEATHS = [
    pytest.param(one, marks=() if one % 4 == 1 else pytest.mark.long)
    for one in range(1, CHANGES_MAX)
]


class EndedError(BaseException):
    """The operator's process has ended, in the midst of a turn."""


class FrailDrillWorld(DrillWorld):
    """A world whose operator dies after so many changes, or whose calls fail now and then."""

    def __init__(self, *, dies_after: int = 0, fails_every: int = 0) -> None:
        super().__init__()
        self.dies_after = dies_after
        self.fails_every = fails_every
        self.is_frail = False
        self.changes = 0
        self.calls = 0
        self.deaths = 0
        self.fate = self._call

    def _call(self, verb: str, kind: ObjectKind) -> None:
        if not self.is_frail:
            return
        if self.dies_after and self.changes == self.dies_after and not self.deaths:
            raise EndedError
        self.calls += 1
        if self.fails_every and self.calls % self.fails_every == 0:
            raise KubernetesError(500, "the API server is busy")
        self.changes += verb in _CHANGES

    async def live(self) -> Json:
        """Let a drill be played to its end, whatever happens to the operator."""
        self.is_frail = True
        is_over = False
        for _ in range(TURNS_MAX):
            found = await self.drill()
            if found.get("phase") == "Ended":
                break
            if found.get("phase") == "Away" and "heldMs" in found and not is_over:
                self.now_ms, is_over = self.now_ms + FOR_MS, True
            try:
                await self.turn()
            except EndedError:
                self.deaths += 1
                await self.reconciler.close()
                self.reconciler = self.new_operator()
            except KubernetesError:
                pass  # the turn has failed, and another one begins
            await self.check()
            await self.controllers()
        self.is_frail = False
        return await self.ended()


async def frail(*, dies_after: int = 0, fails_every: int = 0) -> FrailDrillWorld:
    world = FrailDrillWorld(dies_after=dies_after, fails_every=fails_every)
    await world.settle()
    await world.order()
    return world


@pytest.mark.parametrize("change", DEATHS)
async def test_an_operator_that_dies_ends_the_drill_in_its_next_life(change: int) -> None:
    world = await frail(dies_after=change)

    report = await world.live()

    assert report["outcome"] == "Completed", report
    assert world.deaths <= 1


async def test_the_sweep_reaches_the_last_change_of_a_drill() -> None:
    world = await frail()

    await world.live()

    assert 10 < world.changes < CHANGES_MAX


@pytest.mark.parametrize("every", [29, 31, 37, 41, 43])
async def test_calls_that_fail_keep_no_zone_away(every: int) -> None:
    world = await frail(fails_every=every)

    report = await world.live()

    assert report["outcome"] == "Completed", report


@pytest.mark.parametrize("turns", range(1, 12))
async def test_an_operator_that_comes_late_calls_the_zone_back(turns: int) -> None:
    world = await frail()
    for _ in range(turns):
        await world.turn()
        await world.controllers()
    before = await world.drill()

    world.now_ms += 2 * 60 * 60_000
    await world.reconciler.close()
    world.reconciler = world.new_operator()
    if before.get("phase") is None:
        await world.settle()
        assert await world.drill() == {}, "its order is too old"
        return
    report = await world.ended()

    assert report["phase"] == "Ended"
    assert await world.replicas() == {"a": 2, "b": 2, "c": 2}
