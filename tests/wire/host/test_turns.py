"""However much is ready at once, the event loop does not do it all in a row."""

import asyncio
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tests.support import virtual_time
from tests.support.turned import Turned
from zonekeeper.wire.host.turns import Turns


def passed(sizes: list[int], bytes_max: int, gone: frozenset[int] = frozenset()) -> list[list[int]]:
    """Let all callers come at once, and some go again; give those that passed, turn by turn."""

    async def scenario() -> list[list[int]]:
        gate, clock, found = Turns(bytes_max), Turned(), dict[int, list[int]]()

        async def come(number: int, size_bytes: int) -> None:
            await gate.mine(size_bytes)
            found.setdefault(clock.count, []).append(number)

        async with asyncio.TaskGroup() as tasks:
            coming = [tasks.create_task(come(*each)) for each in enumerate(sizes)]
            await asyncio.sleep(0)
            for number in gone:
                coming[number].cancel()
        clock.stop()
        return [found[turn] for turn in sorted(found)]

    return virtual_time.run(scenario())


def test_what_is_ready_at_once_passes_in_several_turns_and_in_order() -> None:
    assert passed([60, 40, 30, 30, 30, 30], 100) == [[0, 1], [2, 3, 4], [5]]


def test_what_is_larger_than_a_turn_has_one_for_itself() -> None:
    assert passed([10, 500, 10, 10], 100) == [[0], [1], [2, 3]]


def test_who_goes_holds_up_nobody() -> None:
    assert passed([500, 500, 10], 100, gone=frozenset([0, 1])) == [[2]]


@given(st.lists(st.integers(0, 300), min_size=1, max_size=30), st.integers(1, 200))
def test_no_turn_is_over_its_bytes_and_everybody_passes(sizes: list[int], bytes_max: int) -> None:
    turns = passed(sizes, bytes_max)

    assert [number for turn in turns for number in turn] == list(range(len(sizes)))
    assert all(sum(sizes[n] for n in turn) <= bytes_max for turn in turns if len(turn) > 1)
    assert max(Counter(n for turn in turns for n in turn).values()) == 1
