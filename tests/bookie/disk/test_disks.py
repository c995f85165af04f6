"""A disk does its work in the order in which it was given, also if no caller waits any more."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.support import virtual_time
from zonekeeper.bookie.disk.disks import Disk, InlineDisk, ThreadDisk


@pytest.fixture(params=["thread", "inline"])
async def disk(request: pytest.FixtureRequest) -> AsyncIterator[Disk]:
    made: Disk = ThreadDisk("disk") if request.param == "thread" else InlineDisk(lambda: 1)
    yield made
    await made.close()


async def test_work_is_done_in_the_order_in_which_it_was_given(disk: Disk) -> None:
    done: list[int] = []

    def work(number: int) -> int:
        done.append(number)
        return number

    results = await asyncio.gather(*(disk.run(lambda n=n: work(n)) for n in range(50)))  # type: ignore[misc] # bound per turn

    assert done == list(results) == list(range(50))


async def test_an_error_reaches_who_gave_the_work_and_nobody_else(disk: Disk) -> None:
    with pytest.raises(ZeroDivisionError):
        await disk.run(lambda: 1 // 0)

    assert await disk.run(lambda: 1) == 1


async def test_a_cancelled_wait_does_not_undo_the_work(disk: Disk) -> None:
    done: list[str] = []
    first = asyncio.ensure_future(disk.run(lambda: done.append("first")))
    second = asyncio.ensure_future(disk.run(lambda: done.append("second")))
    await asyncio.sleep(0)

    second.cancel()
    await disk.run(lambda: done.append("third"))

    assert done == ["first", "second", "third"]
    assert second.cancelled()
    await first


@virtual_time.played
async def test_a_crash_drops_what_had_not_begun() -> None:
    disk = InlineDisk(lambda: 1)
    done: list[str] = []
    first = asyncio.ensure_future(disk.run(lambda: done.append("first")))
    second = asyncio.ensure_future(disk.run(lambda: done.append("second")))
    await first

    disk.stop()
    await asyncio.sleep(0.01)

    assert done == ["first"]
    assert not second.done()
    second.cancel()
