"""Whatever order things happen in, what is confirmed is where metadata says that it is."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.client.core_world import CoreWorld
from zonekeeper.placement.base.quorums import Quorums

SHAPES = [
    Quorums(ensemble=3, write=3, ack=2),
    Quorums(ensemble=3, write=3, ack=2, ack_zones=2),
    Quorums(ensemble=2, write=2, ack=1),
    Quorums(ensemble=2, write=2, ack=2),
    Quorums(ensemble=6, write=2, ack=2),
    Quorums(ensemble=5, write=3, ack=2),
    Quorums(ensemble=6, write=6, ack=4, ack_zones=3),
]


@pytest.mark.parametrize("deferred", [False, True], ids=["synced", "deferred"])
@pytest.mark.parametrize("quorums", SHAPES, ids=str)
def test_random_walks_keep_the_invariants(quorums: Quorums, deferred: bool) -> None:
    for seed in range(150):
        chance = random.Random(seed)
        world = CoreWorld(
            quorums,
            chance.randrange,
            batches=(6, chance.randint(1, 5)),
            failures=chance.randint(0, 6),
            bookies=chance.choice([quorums.ensemble, 9, 12]),
            deferred=deferred,
        )
        world.run(steps=chance.randint(5, 60))


@pytest.mark.parametrize("quorums", SHAPES, ids=str)
def test_so_they_do_where_bookies_do_not_know_the_ledger_any_more(quorums: Quorums) -> None:
    for seed in range(150):
        chance = random.Random(seed)
        world = CoreWorld(
            quorums,
            chance.randrange,
            batches=(6, chance.randint(1, 5)),
            failures=chance.randint(1, 8),
            bookies=chance.choice([9, 12]),
        )
        world.disowning = True
        world.run(steps=chance.randint(5, 60))


@pytest.mark.parametrize("deferred", [False, True], ids=["synced", "deferred"])
@pytest.mark.parametrize("quorums", SHAPES, ids=str)
def test_so_they_do_where_lanes_are_wanted_ahead(quorums: Quorums, deferred: bool) -> None:
    for seed in range(150):
        chance = random.Random(seed)
        world = CoreWorld(
            quorums,
            chance.randrange,
            batches=(chance.randint(0, 4), chance.randint(1, 5)),
            failures=chance.randint(0, 6),
            bookies=chance.choice([quorums.ensemble, 9, 12]),
            deferred=deferred,
        )
        world.wishes = chance.randint(1, 6)
        world.disowning = chance.random() < 0.5
        world.run(steps=chance.randint(5, 60))


@given(st.data())
@settings(deadline=None, max_examples=60)
def test_drawn_walks_keep_the_invariants(data: st.DataObject) -> None:
    def choose(number: int) -> int:
        return data.draw(st.integers(0, number - 1)) if number > 1 else 0

    quorums = data.draw(st.sampled_from(SHAPES))
    world = CoreWorld(quorums, choose, batches=(3, 2), failures=3)
    for _ in range(25):
        if not world.step():
            break


class Replay:
    """Choices from a script, then always the first; remembers how many there were each time."""

    def __init__(self, script: list[int]) -> None:
        self._script = script
        self.widths: list[int] = []

    def __call__(self, number: int) -> int:
        at = len(self.widths)
        self.widths.append(number)
        return self._script[at] if at < len(self._script) else 0


def test_all_short_histories_of_a_small_world_keep_the_invariants() -> None:
    """Every sequence of choices up to a depth, for E=2, Qw=2, Qa=1 with one spare bookie.

    The first steps are fixed (a batch is taken and both lanes open): the trouble comes after them.
    """
    quorums = Quorums(ensemble=2, write=2, ack=1)
    prefix, depth, runs = [0, 1, 1], 8, 0
    scripts = [prefix]
    while scripts:
        script = scripts.pop()
        replay = Replay(script)
        world = CoreWorld(quorums, replay, batches=(2, 1), failures=2, bookies=3)
        while len(replay.widths) <= len(script) and world.step():
            pass
        runs += 1
        if len(script) < depth and len(replay.widths) > len(script):
            scripts += [[*script, choice] for choice in range(replay.widths[len(script)])]
    assert runs > 1_500
