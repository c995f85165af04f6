"""The decorator of tests that are played: which parameters it gives, and on which loop."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import playing, virtual_time
from tests.support.virtual_time import VirtualTimeLoop


class World:
    """What the test's player makes; it remembers how it was played."""

    def __init__(self, per_zone: int, ack: str) -> None:
        self.per_zone = per_zone
        self.ack = ack


def play(
    scenario: Callable[[World], Awaitable[None]], *, per_zone: int = 4, ack: str = "none"
) -> None:
    async def alone() -> None:
        await scenario(World(per_zone, ack))

    virtual_time.run(alone())


def play_two(scenario: Callable[[World, int], Awaitable[None]]) -> None:
    async def alone() -> None:
        await scenario(World(1, "none"), 2)

    virtual_time.run(alone())


played = playing.by(play)
played_by_two = playing.by(play_two, parts=2)


@played(per_zone=10)
async def test_the_player_makes_the_world_as_the_decorator_says(world: World) -> None:
    assert (world.per_zone, world.ack) == (10, "none")


@played()
async def test_the_loop_is_the_players(world: World) -> None:
    assert isinstance(asyncio.get_running_loop(), VirtualTimeLoop)
    await asyncio.sleep(3_600)
    assert asyncio.get_running_loop().time() == 3_600


@pytest.mark.parametrize("number", [1, 2])
@played_by_two()
async def test_the_other_parameters_are_pytests(
    world: World, two: int, number: int, tmp_path: object, request: pytest.FixtureRequest
) -> None:
    assert (world.per_zone, two) == (1, 2)
    assert request.node.callspec.params == {"number": number}
    assert tmp_path == request.getfixturevalue("tmp_path")


@pytest.mark.parametrize(("size", "word"), [(1, "one"), (2, "two")])
@played(
    per_zone=playing.from_pytest(lambda size: 10 * size),
    ack=playing.from_pytest(lambda word, size: word * size),
)
async def test_what_pytest_gives_decides_how_it_is_played(world: World, word: str) -> None:
    assert (world.per_zone, world.ack) in {(10, "one"), (20, "twotwo")}
    assert world.ack.startswith(word)


@given(st.integers(1, 3))
@played()
async def test_hypothesis_gives_beside_the_player(world: World, number: int) -> None:
    assert world.per_zone + number in {5, 6, 7}


def test_a_test_that_is_no_coroutine_is_refused() -> None:
    def no_coroutine(world: World) -> None: ...

    with pytest.raises(AssertionError, match="no_coroutine is no coroutine"):
        played()(no_coroutine)  # type: ignore[arg-type]  # that is the test
