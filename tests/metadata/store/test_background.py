"""Errors come out of a followed stream as they are, and nothing is left running."""

import asyncio
from contextlib import suppress

import pytest

from tests.support.stores import MemoryPlace
from zonekeeper.metadata.bookies import bookie_watch
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import elections
from zonekeeper.metadata.store.background import alongside, together
from zonekeeper.metadata.store.errors import StoreClosedError
from zonekeeper.placement.base.ids import BookieId

INSTANCE = "d58c3de9-d9c6-429e-be20-474dcad4d089"


async def for_ever() -> None:
    await asyncio.Event().wait()


async def fail() -> None:
    raise ValueError("of the work")


async def test_an_error_of_the_block_comes_out_as_it_is() -> None:
    with pytest.raises(KeyError, match="of the block"):
        async with alongside(for_ever()):
            raise KeyError("of the block")
    assert len(asyncio.all_tasks()) == 1


async def test_an_error_of_the_work_ends_the_block_and_comes_out_as_it_is() -> None:
    with pytest.raises(ValueError, match="of the work"):
        async with alongside(for_ever(), fail()):
            await for_ever()
    assert len(asyncio.all_tasks()) == 1


async def test_a_cancellation_that_comes_with_an_error_is_not_lost() -> None:
    """A task that tries again after an error would otherwise never end."""
    begun = asyncio.Event()

    async def fails_when_cancelled() -> None:
        begun.set()
        try:
            await for_ever()
        finally:
            raise ValueError("of the work")

    async def tries_for_ever() -> None:
        while True:
            with suppress(ValueError):
                await together([fails_when_cancelled()])

    trying = asyncio.ensure_future(tries_for_ever())
    await begun.wait()
    trying.cancel()
    await asyncio.wait([trying], timeout=5)
    assert trying.cancelled()


async def test_a_block_that_hears_of_the_end_of_another_task_ends_so_itself() -> None:
    other = asyncio.ensure_future(for_ever())
    asyncio.get_running_loop().call_soon(other.cancel)
    with pytest.raises(asyncio.CancelledError):
        async with alongside(for_ever()):
            await other
    assert len(asyncio.all_tasks()) == 1


async def test_a_block_that_a_failure_ended_leaves_no_cancellation_behind() -> None:
    whole = asyncio.current_task()
    assert whole is not None
    for _ in range(3):
        with pytest.raises(ValueError, match="of the work"):
            async with alongside(fail()):
                await for_ever()
        with pytest.raises(ValueError, match="of the work"):
            await together([fail()])
    assert whole.cancelling() == 0


async def test_a_block_waits_for_what_was_begun_in_it_and_a_failure_then_ends_all() -> None:
    gave = []

    async def give() -> None:
        await asyncio.sleep(0)
        gave.append(1)

    async with alongside(for_ever()) as beside:
        beside.create_task(give())
    assert gave == [1]
    with pytest.raises(ValueError, match="of the work"):
        await together([for_ever(), fail()])
    assert len(asyncio.all_tasks()) == 1


async def test_an_error_while_the_task_is_being_cancelled_already_comes_out_as_it_is() -> None:
    async def cleans_up() -> str:
        try:
            await for_ever()
        finally:
            try:
                await together([fail()])
            except ValueError as error:
                return str(error)
        return ""

    cleaning = asyncio.ensure_future(cleans_up())
    await asyncio.sleep(0)
    cleaning.cancel()
    assert await cleaning == "of the work"


async def fail_when_cancelled(error: Exception) -> None:
    try:
        await for_ever()
    finally:
        raise error


async def fail_beside_others() -> None:
    async with alongside(fail(), fail_when_cancelled(OSError("of another task"))):
        await fail_when_cancelled(KeyError("of the block"))


async def test_of_several_errors_one_comes_out_and_names_the_others() -> None:
    """A bug that ends a task is not hidden by what the block raises because of it."""
    with pytest.raises(KeyError, match="of the block") as caught:
        await fail_beside_others()
    notes = "\n".join(caught.value.__notes__)
    assert "ValueError: of the work" in notes
    assert "OSError: of another task" in notes
    assert "in fail\n" in notes, "it says where"
    assert len(asyncio.all_tasks()) == 1


async def test_an_error_that_comes_out_keeps_its_cause() -> None:
    async def translate() -> None:
        try:
            await fail()
        except ValueError as error:
            raise KeyError("translated") from error

    with pytest.raises(KeyError) as caught:
        async with alongside(translate()):
            await for_ever()
    assert isinstance(caught.value.__cause__, ValueError)
    assert not hasattr(caught.value, "__notes__")


async def test_what_is_run_together_gives_its_results_in_order_or_its_error() -> None:
    async def give(number: int) -> int:
        return number

    assert await together(give(number) for number in range(3)) == [0, 1, 2]
    with pytest.raises(ValueError, match="of the work"):
        await together([fail(), for_ever()])
    assert len(asyncio.all_tasks()) == 1


async def test_a_store_that_is_closed_ends_what_follows_it(memory: MemoryPlace) -> None:
    store = await memory.open()
    cluster = await clusters.initialise(store, INSTANCE)
    before = len(asyncio.all_tasks())

    async def follow() -> None:
        async with bookie_watch.watch(cluster) as states:
            async for _ in states:
                await store.close()

    with pytest.raises(StoreClosedError):
        await follow()
    assert len(asyncio.all_tasks()) == before


async def test_a_candidate_leaves_nothing_behind(memory: MemoryPlace) -> None:
    store = await memory.open()
    cluster = await clusters.initialise(store, INSTANCE)
    votes = elections.zone_watch_votes(cluster)
    before = len(asyncio.all_tasks())

    async def stand() -> None:
        async with elections.stand(store, votes, BookieId("me")) as states:
            assert await anext(states) is None
            raise KeyError

    with pytest.raises(KeyError):
        await stand()
    assert await store.children(votes, sync=True) == ()
    assert len(asyncio.all_tasks()) == before
