"""What costs a walk over all ledgers is asked once, remembered for a while, never waited for."""

import asyncio
from collections.abc import Callable, Mapping

from zonekeeper.metadata.store.background import alongside
from zonekeeper.placement.base.troubles import Trouble
from zonekeeper.shell.console import errands
from zonekeeper.shell.console.errands import ErrandAnswer, Errands


class Walk:
    """A walk that ends when the test says so; ``now_ms`` is the wall clock."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.begun = 0
        self.ends = asyncio.Event()
        self.trouble: Exception | None = None

    async def work(self, counted: Callable[[int], None]) -> Mapping[str, object]:
        self.begun += 1
        counted(7)
        await self.ends.wait()
        if self.trouble is not None:
            raise self.trouble
        return {"number": self.begun}


async def until(holds: Callable[[], object]) -> None:
    """Let the other tasks go on until something holds."""
    async with asyncio.timeout(60):
        while True:
            if holds():
                return
            await asyncio.sleep(0)


async def settled(made: Errands, name: str = "c", what: str = "price") -> ErrandAnswer:
    """Give the answer once nothing is under way."""
    await until(lambda: not made.ask((what, name), None).under_way)
    return made.ask((what, name), None)


async def test_many_that_ask_cause_one_walk_and_see_how_far_it_is() -> None:
    walk = Walk()
    made = Errands(lambda: walk.now_ms)
    async with alongside(made.run()):
        for _ in range(5):
            assert made.ask(("price", "c"), walk.work).under_way
        await until(lambda: walk.begun)
        assert made.ask(("price", "c"), walk.work).looked_at == 7
        walk.ends.set()
        found = await settled(made)
    assert (found.result, found.as_of_ms, walk.begun) == ({"number": 1}, 1_000_000, 1)


async def test_s186_questions_without_end_take_no_more_than_their_places() -> None:
    walk = Walk()
    made = Errands(lambda: walk.now_ms)
    for number in range(errands.ANSWERS_MAX):
        assert made.ask(("ledgers", str(number)), walk.work).under_way
    for number in range(errands.ANSWERS_MAX, 3 * errands.ANSWERS_MAX):
        refused = made.ask(("ledgers", str(number)), walk.work)
        assert (refused.under_way, refused.result) == (False, None)
        assert "ask again" in refused.trouble
    async with alongside(made.run()):
        walk.ends.set()
        await until(lambda: walk.begun == errands.ANSWERS_MAX)
        assert made.ask(("ledgers", "late"), walk.work).under_way, "there is room again"
        assert (await settled(made, "late", "ledgers")).result


async def test_an_answer_is_made_anew_when_it_is_old_and_the_old_one_is_shown_meanwhile() -> None:
    walk = Walk()
    walk.ends.set()
    made = Errands(lambda: walk.now_ms)
    async with alongside(made.run()):
        made.ask(("price", "c"), walk.work)
        await settled(made)
        walk.now_ms += errands.FRESH_MS - 1
        assert not made.ask(("price", "c"), walk.work).under_way
        walk.now_ms += 1
        again = made.ask(("price", "c"), walk.work)
        assert (again.under_way, again.result) == (True, {"number": 1})
        assert (await settled(made)).result == {"number": 2}


async def test_a_walk_takes_a_tenth_of_the_time_at_most() -> None:
    walk = Walk()
    made = Errands(lambda: walk.now_ms)
    async with alongside(made.run()):
        made.ask(("price", "c"), walk.work)
        await until(lambda: walk.begun)
        walk.now_ms += 60_000
        walk.ends.set()
        await settled(made)
        walk.now_ms += 599_999
        assert not made.ask(("price", "c"), walk.work).under_way
        walk.now_ms += 1
        assert made.ask(("price", "c"), walk.work).under_way


async def test_a_failure_is_told_and_the_last_answer_stays() -> None:
    walk = Walk()
    walk.ends.set()
    made = Errands(lambda: walk.now_ms)
    async with alongside(made.run()):
        made.ask(("price", "c"), walk.work)
        await settled(made)
        walk.trouble, walk.now_ms = Trouble("the store is away"), walk.now_ms + errands.FRESH_MS
        made.ask(("price", "c"), walk.work)
        found = await settled(made)
    assert (found.result, found.trouble) == ({"number": 1}, "the store is away")


async def test_nothing_is_under_way_when_the_work_is_given_up() -> None:
    walk = Walk()
    made = Errands(lambda: walk.now_ms)
    async with alongside(made.run()):
        made.ask(("price", "c"), walk.work)
        made.ask(("price", "d"), walk.work)
        await until(lambda: walk.begun)
    assert not made.ask(("price", "c"), None).under_way
    assert not made.ask(("price", "d"), None).under_way


async def test_without_work_nothing_is_begun() -> None:
    walk = Walk()
    made = Errands(lambda: walk.now_ms)
    assert made.ask(("price", "c"), None) == ErrandAnswer()


async def test_answers_are_bounded() -> None:
    walk = Walk()
    walk.ends.set()
    made = Errands(lambda: walk.now_ms)
    async with alongside(made.run()):
        for number in range(errands.ANSWERS_MAX + 5):
            made.ask(("ledgers", str(number)), walk.work)
            await settled(made, str(number), "ledgers")
    assert made.ask(("ledgers", "0"), None) == ErrandAnswer()
    assert made.ask(("ledgers", str(errands.ANSWERS_MAX + 4)), None).result is not None
