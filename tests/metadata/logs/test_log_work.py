"""A log of 100,000 ledgers costs what one of ten does: nodes and bytes are counted."""

from functools import partial

import pytest

from tests.metadata.logs.counting import Counted, counted_cluster
from tests.metadata.logs.records_of_logs import (
    LATER,
    MESSAGES,
    NAME,
    SECOND,
    at_start_of,
    ending,
    put_long,
)
from tests.metadata.logs.test_logs import ended_before
from zonekeeper.metadata.logs import logs
from zonekeeper.placement.base.ids import LedgerId

#: A record, and a page, of ledgers with long ids, and what comes with it.
RECORD_BYTES_MAX = 16_000
#: A claim, two added ledgers and an end are a write each, and a read; the claim also reads the
#: mark of a restored root. Then the tail reads the record.
READS, WRITES = 6, 4


async def test_opening_and_rotating_cost_the_same_for_ten_and_100_000_ledgers() -> None:
    works = dict[int, Counted]()
    for ledgers in (10, 100_000):
        store, cluster = await counted_cluster()
        seen = await put_long(cluster, ledgers)
        store.counted = Counted()

        await logs.claim(cluster, NAME, seen, SECOND)
        for number in range(ledgers, ledgers + 2):
            await logs.add(cluster, NAME, LATER, LedgerId(number * 2 + 1))
        await logs.end(cluster, NAME, LATER, LedgerId(ledgers * 2 + 1), ending(ledgers))
        record = await logs.find(cluster, NAME)
        newest = LedgerId(ledgers * 2 + 3)
        assert [one.id async for one in logs.ledgers(cluster, NAME, record, newest)] == [newest]
        works[ledgers] = store.counted

    few, many = works[10], works[100_000]
    assert (few.listings, many.listings) == (0, 0)
    assert few.reads == many.reads == READS
    assert few.writes == WRITES
    assert many.writes <= WRITES + 2  # a page may be sealed, and begin a folder
    assert many.size_bytes <= (many.reads + many.writes) * RECORD_BYTES_MAX


@pytest.mark.parametrize("ledgers", [10, 100_000])
async def test_what_is_in_the_newest_ledgers_is_found_without_a_page(ledgers: int) -> None:
    """Readers that are not behind search for the newest ids and sequences."""
    store, cluster = await counted_cluster()
    record = await put_long(cluster, ledgers)
    newest = record.ledgers[-1]
    store.counted = Counted()
    found = await logs.search(cluster, NAME, record, lambda one: one.id < newest.id)
    is_before = partial(ended_before, (ledgers - 1) * MESSAGES)
    assert found == newest == await logs.search(cluster, NAME, record, is_before)
    assert store.counted == Counted()


async def test_moving_the_start_costs_the_same_for_ten_and_100_000_ledgers() -> None:
    works = list[tuple[int, int, int]]()
    for ledgers in (10, 100_000):
        store, cluster = await counted_cluster()
        record = await put_long(cluster, ledgers)
        store.counted = Counted()
        await logs.trim(cluster, NAME, record.id, *at_start_of(ledgers - 1))
        counted = store.counted
        works.append((counted.reads, counted.writes, counted.listings))
        assert counted.size_bytes <= (counted.reads + counted.writes) * RECORD_BYTES_MAX
    assert works == [(1, 1, 0)] * 2


@pytest.mark.parametrize("number", [0, 31, 50_000, 99_900, 99_999])
async def test_a_search_in_100_000_ledgers_reads_few_pages(number: int) -> None:
    store, cluster = await counted_cluster()
    record = await put_long(cluster, 100_000)
    store.counted = Counted()

    found = await logs.search(cluster, NAME, record, partial(ended_before, number * MESSAGES))

    assert found is not None
    assert found.id == number * 2 + 1
    assert store.counted.reads <= 12
    assert store.counted.size_bytes <= 12 * RECORD_BYTES_MAX
