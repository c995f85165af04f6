"""How often the console looks, and since when the store is away, without a cluster."""

import asyncio

from tests.support import virtual_time
from zonekeeper.shell.console import looker
from zonekeeper.shell.console.looker import Looker
from zonekeeper.shell.reaching.reaching import Place

PLACE = Place(address="zk://zk-0:2181/ledgers", cluster_id=None, as_json=False)


async def rested_s(made: Looker, took_s: float, every_s: float) -> float:
    """Give how long a round's rest lasts."""
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    await made._rest(took_s, every_s)
    return loop.time() - begun_s


@virtual_time.played
async def test_a_round_that_takes_long_is_followed_by_a_longer_rest() -> None:
    made = Looker(PLACE, None, lambda: 0)
    made.asked()
    assert await rested_s(made, 0.1, 2.0) == 2.0
    assert await rested_s(made, 3.0, 2.0) == 3.0 * looker.REST_SHARE


@virtual_time.played
async def test_nothing_is_read_while_no_page_asks_and_at_once_when_one_does() -> None:
    made = Looker(PLACE, None, lambda: 0)
    made.asked()
    await asyncio.sleep(looker.RESTS_AFTER_S)
    async with asyncio.TaskGroup() as group:
        resting = group.create_task(rested_s(made, 0.0, 2.0))
        await asyncio.sleep(1_000.0)
        assert not resting.done(), "nobody looks at the page"
        made.asked()
    assert resting.result() == 1_000.0


def test_the_store_is_away_since_it_was_first_away() -> None:
    wall = [1_000]
    made = Looker(PLACE, None, lambda: wall[0])
    made._away("refused")
    wall[0] = 9_000
    made._away("still refused")
    store = made.snapshot().store
    assert (store.away, store.since_ms, store.trouble) == (True, 1_000, "still refused")
