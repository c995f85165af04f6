"""Logs in a store: every change once, by the one writer that holds the log, whatever gets lost."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

import pytest

from tests.metadata import weather
from tests.metadata.conftest import INSTANCE
from tests.metadata.logs.records_of_logs import (
    CLAIM,
    FIRST,
    LATER,
    LOG_ID,
    MESSAGES,
    NAME,
    NEW,
    SECOND,
    at_start_of,
    ending,
    put_long,
)
from tests.support import virtual_time
from tests.support.stores import MemoryPlace
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import restored
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.restored import Restored
from zonekeeper.metadata.formats import log_names, log_record, log_record_format
from zonekeeper.metadata.formats.log_names import BadLogNameError
from zonekeeper.metadata.formats.log_record import (
    NEWEST_MAX,
    IllegalLogChange,
    LogDeleting,
    LogLedger,
    LogRecord,
    LogRules,
    LogTaken,
    LogWriterMark,
    OtherIncarnation,
)
from zonekeeper.metadata.formats.malformed import MalformedError
from zonekeeper.metadata.formats.records import ForeignRecordError
from zonekeeper.metadata.logs import logs
from zonekeeper.metadata.logs.logs import LogExistsError, NoLogError, RestoredRootError
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.metadata.store.store import Delete, Put, parent_of
from zonekeeper.metadata.stores.memory import (
    ExchangeLoss,
    MemoryStore,
    Passage,
    RequestKind,
    calm,
)
from zonekeeper.placement.base.ids import LedgerId

Step = Callable[[Cluster], Awaitable[object]]


async def claimed(cluster: Cluster, name: str = NAME) -> LogRecord:
    await logs.create(cluster, name, NEW)
    return await logs.claim(cluster, name, NEW, FIRST)


async def grown(cluster: Cluster, first: int, count: int) -> LogRecord:
    """Add and end ledgers, as a writer that is alone does."""
    for number in range(first, first + count):
        await logs.add(cluster, NAME, CLAIM, LedgerId(number * 2 + 1))
        await logs.end(cluster, NAME, CLAIM, LedgerId(number * 2 + 1), ending(number))
    return await logs.find(cluster, NAME)


async def below(cluster: Cluster, path: str) -> list[str]:
    """Give every node below a path."""
    found = []
    for name in await cluster.store.children(path, sync=True) or ():
        found += [f"{path}/{name}", *await below(cluster, f"{path}/{name}")]
    return found


async def test_a_log_is_created_and_found(cluster: Cluster, other: Cluster) -> None:
    assert await logs.create(cluster, NAME, NEW) == NEW

    assert await logs.find(other, NAME) == NEW
    with pytest.raises(LogExistsError, match="nothing was changed"):
        await logs.create(other, NAME, replace(NEW, id="ab" * 16))
    assert await logs.create(other, NAME, NEW) == NEW  # the same creation, asked for again


async def test_a_log_that_is_not_there_is_named(cluster: Cluster) -> None:
    with pytest.raises(NoLogError, match="no log orders/eu-1"):
        await logs.find(cluster, NAME)
    with pytest.raises(NoLogError):
        await logs.add(cluster, NAME, CLAIM, LedgerId(1))
    with pytest.raises(BadLogNameError):
        await logs.find(cluster, "a//b")


async def test_of_several_contenders_one_claims_and_the_others_hear_of_it(
    cluster: Cluster, other: Cluster
) -> None:
    await logs.create(cluster, NAME, NEW)

    async def contend(at: int) -> LogRecord | LogTaken:
        try:
            mark = LogWriterMark(token=f"contender {at}")
            return await logs.claim((cluster, other)[at % 2], NAME, NEW, mark)
        except LogTaken as error:
            return error

    found = await asyncio.gather(*map(contend, range(4)))

    (winner,) = [one for one in found if isinstance(one, LogRecord)]
    assert winner.epoch == 1
    assert await logs.find(other, NAME) == winner


async def test_a_writer_that_lost_the_log_adds_nothing(cluster: Cluster, other: Cluster) -> None:
    seen = await claimed(cluster)
    await logs.claim(other, NAME, seen, SECOND)

    with pytest.raises(LogTaken) as caught:
        await logs.add(cluster, NAME, CLAIM, LedgerId(5))

    assert not caught.value.maybe_applied
    assert (await logs.add(other, NAME, LATER, LedgerId(6))).ledgers[-1].id == 6


async def test_a_claim_between_looking_and_writing_is_seen(memory: MemoryPlace) -> None:
    """The blind write: a change that does not name the version that it was decided for."""
    cluster = await clusters.initialise(await memory.open(), INSTANCE)
    other = await clusters.open_cluster(await memory.open())
    seen = await claimed(cluster)
    taken = log_record.claimed(seen, LOG_ID, SECOND, 1).record
    value, session = log_record_format.render(taken, INSTANCE), other.store.session.id
    put = Put(path=logs.path(cluster, NAME), value=value, version=1)
    assert session is not None
    weather.before_write(cluster.store, lambda: memory.server.apply([put], session))

    with pytest.raises(LogTaken):
        await logs.add(cluster, NAME, CLAIM, LedgerId(5))

    assert await logs.find(cluster, NAME) == taken


async def test_pages_are_sealed_with_the_record(cluster: Cluster, other: Cluster) -> None:
    await claimed(cluster)
    record = await grown(cluster, 0, NEWEST_MAX + 2)

    assert (record.first_page, record.next_page) == (0, 1)
    page = await logs.page(other, NAME, record, 0)
    assert page is not None
    assert [one.id for one in (*page.ledgers, *record.ledgers)] == [
        number * 2 + 1 for number in range(NEWEST_MAX + 2)
    ]


async def test_ledgers_are_searched_and_listed_over_all_pages(cluster: Cluster) -> None:
    record = await put_long(cluster, 200)
    assert record.next_page > 3
    for number in (0, 1, 31, 32, 63, 100, 140, 199):
        sequence = number * MESSAGES
        found = await logs.search(cluster, NAME, record, partial(ended_before, sequence))
        assert found is not None
        assert found.sequence == sequence
    assert await logs.search(cluster, NAME, record, lambda _: True) is None

    for first in (0, 1, 2, 64, 65, 399, 400):
        found_ids = [one.id async for one in logs.ledgers(cluster, NAME, record, LedgerId(first))]
        assert found_ids == [one for one in range(1, 400, 2) if one >= first]


def ended_before(sequence: int, ledger: LogLedger) -> bool:
    assert ledger.sequence is not None
    assert ledger.end is not None
    return ledger.sequence + ledger.end.messages <= sequence


async def reclaim(cluster: Cluster, name: str = NAME) -> list[LedgerId]:
    """Delete, as a collector does, all ledgers that may be; give them."""
    deleted = list[LedgerId]()
    while step := await logs.reclaiming(cluster, name, await logs.find(cluster, name)):
        deleted += step.ledgers
        await logs.reclaimed(cluster, name, LOG_ID, step.up_to)
    return deleted


async def test_trimmed_ledgers_are_reclaimed_from_the_oldest_on(cluster: Cluster) -> None:
    await put_long(cluster, 200)
    assert await reclaim(cluster) == []

    await logs.trim(cluster, NAME, LOG_ID, *at_start_of(70))
    assert await reclaim(cluster) == [number * 2 + 1 for number in range(70)]

    record = await logs.find(cluster, NAME)
    assert record.first_page == 2
    assert await logs.page(cluster, NAME, record, 1) is None
    left = [one.id async for one in logs.ledgers(cluster, NAME, record, LedgerId(141))]
    assert left == list(range(141, 400, 2))
    found = await logs.search(cluster, NAME, record, partial(ended_before, 700))
    assert found is not None
    assert found.id == 141


async def test_a_collector_that_dies_in_the_middle_is_continued(cluster: Cluster) -> None:
    await put_long(cluster, 200)
    await logs.trim(cluster, NAME, LOG_ID, *at_start_of(70))
    step = await logs.reclaiming(cluster, NAME, await logs.find(cluster, NAME))
    assert step is not None

    await logs.reclaimed(cluster, NAME, LOG_ID, step.ledgers[3])

    assert await reclaim(cluster) == [number * 2 + 1 for number in range(4, 70)]


async def test_a_log_is_deleted_to_the_last_node(cluster: Cluster, other: Cluster) -> None:
    await put_long(cluster, 200)
    await logs.create(cluster, "orders/other", NEW)
    untouched = await below(cluster, logs.path(cluster, "orders/other"))
    await logs.begin_deletion(cluster, NAME, LOG_ID)
    with pytest.raises(LogDeleting):
        await logs.claim(other, NAME, await logs.find(other, NAME), SECOND)
    with pytest.raises(IllegalLogChange, match="still has ledgers"):
        await logs.remove(cluster, NAME, LOG_ID, now_ms=1)

    assert await reclaim(cluster) == list(range(1, 400, 2))
    await logs.remove(cluster, NAME, LOG_ID, now_ms=1)
    await logs.remove(cluster, NAME, LOG_ID, now_ms=1)

    with pytest.raises(NoLogError):
        await logs.find(other, NAME)
    left = await below(cluster, logs.top(cluster))
    assert [path for path in left if "eu-1" in path] == []
    assert await below(cluster, logs.path(cluster, "orders/other")) == untouched


async def test_a_log_that_was_made_anew_is_not_removed(cluster: Cluster) -> None:
    await logs.create(cluster, NAME, replace(NEW, id="ab" * 16))

    await logs.remove(cluster, NAME, LOG_ID, now_ms=1)
    with pytest.raises(OtherIncarnation):
        await logs.begin_deletion(cluster, NAME, LOG_ID)

    assert (await logs.find(cluster, NAME)).id == "ab" * 16


async def test_the_pages_of_a_log_that_was_made_anew_are_not_taken_for_the_old_ones(
    cluster: Cluster,
) -> None:
    record = await put_long(cluster, 200)

    with pytest.raises(OtherIncarnation, match="made anew"):
        await logs.page(cluster, NAME, replace(record, id="ab" * 16), 0)


async def test_no_log_is_claimed_while_the_root_is_marked_as_restored(cluster: Cluster) -> None:
    seen = await claimed(cluster)
    mark = restored.render(Restored(at_ms=1, high=1), cluster.instance)
    await cluster.store.create(cluster.root.beside("restored"), mark)

    with pytest.raises(RestoredRootError, match="nothing was changed") as caught:
        await logs.claim(cluster, NAME, seen, SECOND)

    assert caught.value.retryable
    assert (await logs.find(cluster, NAME)) == seen


async def test_a_damaged_record_is_named_and_not_written_over(cluster: Cluster) -> None:
    await claimed(cluster)
    where = logs.path(cluster, NAME)
    node = await cluster.store.get(where, sync=True)
    assert node is not None
    await cluster.store.put(where, b"{}", version=node.version)

    for step in (
        logs.find(cluster, NAME),
        logs.create(cluster, NAME, NEW),
        logs.add(cluster, NAME, CLAIM, LedgerId(5)),
        logs.remove(cluster, NAME, LOG_ID, now_ms=1),
    ):
        with pytest.raises(MalformedError, match=r"orders/.*/eu-1 in "):
            await step


async def test_a_record_of_an_earlier_cluster_is_not_written_over(cluster: Cluster) -> None:
    where = logs.path(cluster, NAME)
    await cluster.store.create(where, log_record_format.render(NEW, "of before"), make_parents=True)

    with pytest.raises(ForeignRecordError):
        await logs.create(cluster, NAME, NEW)


async def test_the_folder_of_pages_goes_with_its_last_page(cluster: Cluster) -> None:
    record = await put_long(cluster, 32 * 1_000 + 100)
    where = logs.path(cluster, NAME)
    folder = where + log_names.page_folder(0)
    assert record.next_page > 1_000
    late = replace(record, first_page=999)  # as after 999 removals, which take their time
    node = await cluster.store.get(where, sync=True)
    assert node is not None
    await cluster.store.put(
        where, log_record_format.render(late, cluster.instance), version=node.version
    )
    for number in range(999):
        await cluster.store.delete(where + log_names.page_path(number), version=0)
    await logs.trim(cluster, NAME, LOG_ID, *at_start_of(32_001))

    assert len(await reclaim(cluster)) == 33

    assert not await cluster.store.exists(folder, sync=True)


# ── what gets lost ──


async def grow_to_a_page(cluster: Cluster) -> None:
    """End the ledger that is open, and add as many as make a page."""
    await logs.end(cluster, NAME, CLAIM, LedgerId(5), ending(1))
    await grown(cluster, 3, NEWEST_MAX)


STEPS: dict[str, Step] = {
    "create": lambda cluster: logs.create(cluster, NAME, NEW),
    "claim": lambda cluster: logs.claim(
        cluster, NAME, NEW, replace(FIRST, candidate="host-1", candidacy="1c" * 16)
    ),
    "add": lambda cluster: logs.add(cluster, NAME, CLAIM, LedgerId(1)),
    "add ahead": lambda cluster: logs.add(cluster, NAME, CLAIM, LedgerId(3)),
    "end": lambda cluster: logs.end(cluster, NAME, CLAIM, LedgerId(1), ending(0)),
    "drop": lambda cluster: logs.drop(cluster, NAME, CLAIM, LedgerId(3)),
    "add again": lambda cluster: logs.add(cluster, NAME, CLAIM, LedgerId(5)),
    "rule": lambda cluster: logs.rule(cluster, NAME, LOG_ID, lambda _: LogRules(keep_ms=5)),
    "seal": grow_to_a_page,
    "release": lambda cluster: logs.release(cluster, NAME, CLAIM),
    "trim": lambda cluster: logs.trim(cluster, NAME, LOG_ID, *at_start_of(40)),
    "reclaim": reclaim,
    "begin": lambda cluster: logs.begin_deletion(cluster, NAME, LOG_ID),
    "reclaim all": reclaim,
    "remove": lambda cluster: logs.remove(cluster, NAME, LOG_ID, now_ms=1),
}


async def history(cluster: Cluster, lossy: str, number: int, loss: ExchangeLoss) -> list[bytes]:
    """Do all steps, losing one write of one of them; give the record after each."""
    states = []
    assert isinstance(cluster.store, MemoryStore)
    for name, step in STEPS.items():
        cluster.store.weather = calm
        if name == lossy:
            weather.lose(cluster.store, number, loss)
        await step(cluster)
        cluster.store.weather = calm
        node = await cluster.store.get(logs.path(cluster, NAME), sync=True)
        states.append(b"" if node is None else node.value)
    return states


@pytest.mark.parametrize("loss", [ExchangeLoss.ANSWER, ExchangeLoss.REQUEST])
@pytest.mark.parametrize("lossy", STEPS)
async def test_a_change_knows_its_work_again_after_a_loss(lossy: str, loss: ExchangeLoss) -> None:
    async def played(step: str, number: int) -> list[bytes]:
        place = MemoryPlace()
        try:
            cluster = await clusters.initialise(await place.open(), INSTANCE)
            return await history(cluster, step, number, loss)
        finally:
            await place.close()

    undisturbed = await played("", 0)

    for number in range(3):
        assert await played(lossy, number) == undisturbed
    assert undisturbed[-1] == b""


async def test_a_follower_that_is_behind_changes_nothing_of_what_is_decided(
    memory: MemoryPlace,
) -> None:
    cluster = await clusters.initialise(await memory.open(), INSTANCE)
    other = await clusters.open_cluster(await memory.open())
    assert isinstance(other.store, MemoryStore)
    seen = await claimed(cluster)
    await grown(cluster, 0, NEWEST_MAX)
    other.store.read_lag_ms = 60_000

    second = await logs.claim(other, NAME, seen, SECOND)
    with pytest.raises(LogTaken):
        await logs.add(cluster, NAME, CLAIM, LedgerId(999))
    record = await logs.add(other, NAME, LATER, LedgerId(1_001))

    assert len(second.ledgers) == NEWEST_MAX
    page = await logs.page(other, NAME, record, 0)
    assert page is not None
    assert len(page.ledgers) + len(record.ledgers) == NEWEST_MAX + 1


@pytest.mark.parametrize("loss", [ExchangeLoss.ANSWER, ExchangeLoss.REQUEST])
def test_a_change_whose_outcome_stays_unknown_says_so(loss: ExchangeLoss) -> None:
    virtual_time.run(without_an_answer(loss))


async def without_an_answer(loss: ExchangeLoss) -> None:
    """The connection ends for good with the write of a change."""
    place = MemoryPlace()
    store = await place.open()
    cluster = await clusters.initialise(store, INSTANCE)
    await claimed(cluster)
    assert isinstance(store, MemoryStore)

    def lost(kind: RequestKind) -> Passage:
        if kind is RequestKind.WRITE:
            store.cut()
            return Passage(loss=loss)
        return Passage()

    store.weather = lost
    with pytest.raises(StoreError) as caught:
        await logs.add(cluster, NAME, CLAIM, LedgerId(5))
    assert caught.value.retryable
    assert caught.value.maybe_applied
    await place.close()


def test_a_creation_goes_on_though_a_folder_in_doubt_was_pruned_meanwhile() -> None:
    virtual_time.run(with_pruned_folders())


async def with_pruned_folders() -> None:
    """The answer to a folder's creation is lost, and the folders go with the log before."""
    place = MemoryPlace()
    store = await place.open()
    cluster = await clusters.initialise(store, INSTANCE)
    assert isinstance(store, MemoryStore)
    session = store.session.id
    assert session is not None
    folder = parent_of(logs.path(cluster, NAME))
    lost = pruned = False

    def there(path: str) -> bool:
        return place.server.node(path, place.server.last_change_id) is not None

    def pass_by(kind: RequestKind) -> Passage:
        nonlocal lost, pruned
        if lost and not pruned and there(folder):
            pruned = True
            both = [Delete(path=one, version=None) for one in (folder, parent_of(folder))]
            place.server.apply(both, session)
        elif not lost and kind is RequestKind.WRITE and there(parent_of(folder)):
            lost = True
            return Passage(loss=ExchangeLoss.ANSWER)
        return Passage()

    store.weather = pass_by
    await logs.create(cluster, NAME, NEW)
    assert pruned
    assert await logs.find(cluster, NAME) == NEW
    await place.close()
