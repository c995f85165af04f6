"""A caller without room waits; none overtakes, none is forgotten, and no byte is lost."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import playing, virtual_time
from zonekeeper.wire.link.byte_budget import ByteBudget

BYTES_MAX = 100


class Crowd:
    """Callers that come, stay until they are sent away, and give back what they took."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self.budget = ByteBudget(BYTES_MAX)
        self.entered: list[int] = []
        self.inside: dict[int, int] = {}
        self._tasks = tasks
        self._visits: list[tuple[asyncio.Task[None], int]] = []

    def come(self, size_bytes: int) -> None:
        visit = self._tasks.create_task(self._visit(len(self._visits), size_bytes))
        self._visits.append((visit, size_bytes))

    def go(self, number: int) -> None:
        """Be cancelled, inside or outside."""
        self._visits[number][0].cancel()

    @property
    def outside(self) -> list[int]:
        """The callers that wait, the first one first."""
        return [
            number
            for number, (visit, _) in enumerate(self._visits)
            if number not in self.inside and not visit.done()
        ]

    def check(self) -> None:
        """What must hold when all callers that can go on have done so."""
        taken = sum(self.inside.values())
        assert taken <= BYTES_MAX or sum(size > 0 for size in self.inside.values()) == 1
        if self.outside:
            head_bytes = self._visits[self.outside[0]][1]
            assert taken > 0
            assert taken + head_bytes > BYTES_MAX, "nobody waits where there is room"

    async def _visit(self, number: int, size_bytes: int) -> None:
        await self.budget.take(size_bytes)
        self.entered.append(number)
        self.inside[number] = size_bytes
        before = [each for each in self.outside if each < number]
        try:
            # A caller that had been let in, and had yet to run, has run then.
            await asyncio.sleep(0)
            assert not set(before) & set(self.outside), "nobody overtakes"
            await asyncio.Event().wait()
        finally:
            del self.inside[number]
            self.budget.give_back(size_bytes)


async def settled() -> None:
    """Let every caller go on that can."""
    for _ in range(20):
        await asyncio.sleep(0)


def play(scenario: Callable[[Crowd], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.TaskGroup() as tasks:
            await scenario(Crowd(tasks))

    virtual_time.run(main())


played = playing.by(play)


async def sizes_come(crowd: Crowd, *sizes: int) -> None:
    for size_bytes in sizes:
        crowd.come(size_bytes)
    await settled()
    crowd.check()


async def gone(crowd: Crowd, *numbers: int) -> None:
    """Let these be cancelled in one turn of the loop."""
    for number in numbers:
        crowd.go(number)
    await settled()
    crowd.check()


@played()
async def test_who_finds_room_does_not_wait_even_for_a_turn_of_the_loop(crowd: Crowd) -> None:
    crowd.come(60)
    crowd.come(40)
    await asyncio.sleep(0)
    assert crowd.entered == [0, 1]
    await gone(crowd, 0, 1)


@played()
async def test_the_small_do_not_overtake_the_large(crowd: Crowd) -> None:
    await sizes_come(crowd, 60, 50, 10, 10)
    assert (list(crowd.inside), crowd.outside) == ([0], [1, 2, 3])
    await gone(crowd, 0)
    assert list(crowd.inside) == [1, 2, 3]
    await gone(crowd, 1, 2, 3)


@played()
async def test_who_wants_more_than_all_gets_it_alone(crowd: Crowd) -> None:
    await sizes_come(crowd, 1, 500, 1)
    assert list(crowd.inside) == [0]
    await gone(crowd, 0)
    assert list(crowd.inside) == [1]
    await gone(crowd, 1)
    assert list(crowd.inside) == [2]
    await gone(crowd, 2)


@played()
async def test_who_goes_while_it_waits_lets_those_behind_it_in(crowd: Crowd) -> None:
    await sizes_come(crowd, 60, 50, 50, 40)
    await gone(crowd, 1, 2)
    assert list(crowd.inside) == [0, 3]
    await gone(crowd, 0, 3)


@played()
async def test_who_is_let_in_and_cancelled_in_the_same_turn_gives_its_place_to_the_next(
    crowd: Crowd,
) -> None:
    await sizes_come(crowd, 100, 100, 100)
    crowd.go(0)
    await asyncio.sleep(0)  # it gives back, which lets the next in, and that one has not run yet
    assert crowd.entered == [0]
    await gone(crowd, 1)
    assert crowd.entered == [0, 2]
    await gone(crowd, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A caller comes, or (None) one of those that came is cancelled; then a few turns."""

    size_bytes: int | None
    who: int
    turns: int


steps = st.builds(
    Step,
    size_bytes=st.none() | st.integers(0, 150),
    who=st.integers(0, 40),
    turns=st.integers(0, 3),
)


@settings(deadline=None)
@given(st.lists(steps, max_size=40))
@played()
async def test_in_whatever_order_they_come_and_go_the_budget_is_kept_and_all_get_in(
    crowd: Crowd, chosen: list[Step]
) -> None:
    came = 0
    for step in chosen:
        if step.size_bytes is not None:
            crowd.come(step.size_bytes)
            came += 1
        elif came:
            crowd.go(step.who % came)
        for _ in range(step.turns):
            await asyncio.sleep(0)
    await settled()
    crowd.check()
    while crowd.inside:
        await gone(crowd, *crowd.inside)
    assert not crowd.outside
    await sizes_come(crowd, BYTES_MAX)
    assert list(crowd.inside) == [came], "all that was taken was given back"
    await gone(crowd, came)
