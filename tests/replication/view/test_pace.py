"""The limit of bytes a second, in virtual time."""

import asyncio

import pytest

from tests.support import virtual_time
from zonekeeper.replication.view.pace import BytePace

MIB = 1 << 20


@virtual_time.played
async def test_over_any_time_no_more_is_moved_than_the_rate_and_one_piece() -> None:
    pace, loop = BytePace(lambda: MIB), asyncio.get_running_loop()
    taken: list[tuple[float, int]] = []

    async def worker(size: int) -> None:
        for _ in range(10):
            await pace.take(size)
            taken.append((loop.time(), size))

    await asyncio.gather(*(worker(size) for size in (MIB // 4, MIB // 2, MIB)))
    for since_s, _ in taken:
        for until_s in (at_s for at_s, _ in taken if at_s >= since_s):
            moved = sum(size for at_s, size in taken if since_s <= at_s <= until_s)
            assert moved <= MIB * (until_s - since_s) + MIB + 1


@virtual_time.played
async def test_a_piece_that_is_larger_than_a_second_goes_at_once_and_the_next_waits_for_it() -> (
    None
):
    pace, loop = BytePace(lambda: MIB), asyncio.get_running_loop()
    await pace.take(4 * MIB)
    assert loop.time() == 0
    await pace.take(1)
    assert abs(loop.time() - 4) < 0.001


@virtual_time.played
async def test_idle_time_is_not_saved_up() -> None:
    pace, loop = BytePace(lambda: MIB), asyncio.get_running_loop()
    await pace.take(MIB)
    await asyncio.sleep(100)
    await pace.take(MIB)
    await pace.take(MIB)
    assert abs(loop.time() - 101) < 0.001


@virtual_time.played
async def test_a_new_rate_is_felt_within_a_second_and_zero_is_no_limit() -> None:
    rate = [1]
    pace, loop = BytePace(lambda: rate[0]), asyncio.get_running_loop()
    await pace.take(MIB)

    async def change() -> None:
        await asyncio.sleep(0.5)
        rate[0] = 0

    await asyncio.gather(pace.take(MIB), change())
    assert loop.time() <= 1.5
    for _ in range(100):
        await pace.take(MIB)
    assert loop.time() <= 1.5


@virtual_time.played
async def test_who_is_cancelled_while_he_waits_takes_nothing() -> None:
    pace, loop = BytePace(lambda: MIB), asyncio.get_running_loop()
    await pace.take(MIB)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await pace.take(100 * MIB)
    await pace.take(1)
    assert abs(loop.time() - 1) < 0.001


@virtual_time.played
async def test_a_debt_that_is_less_than_the_clock_can_tell_is_waited_out() -> None:
    # An endless wait shows as such in virtual time, where nothing but the wait moves the clock.
    await asyncio.sleep(1_000_000.1)
    pace = BytePace(lambda: 3_000_000_000)
    for size in range(1, 2_000):
        await pace.take(size)
