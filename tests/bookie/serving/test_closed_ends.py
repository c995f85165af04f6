"""Entries past the end of a closed ledger go, and no others; answers show what is left."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from tests.bookie.running import BOOKIE
from tests.bookie.segments import keeping
from tests.bookie.segments.keeping import Driver, closed_at, fill, frame, fresh, running
from tests.support import virtual_time
from zonekeeper.bookie.formats.index import Index, MemoryOrdered
from zonekeeper.bookie.ledgers import admission
from zonekeeper.bookie.serving.service import BookieServer
from zonekeeper.bookie.storage import rewrite
from zonekeeper.bookie.storage.storage import Storage
from zonekeeper.placement.base.ids import EntryId, LedgerId


async def all_sorted(kept: Storage) -> None:
    """Rewrite all that is sealed."""
    while kept.backlog.sealed:
        await kept._rewriter.round()


async def last_entry(kept: Storage, ledger_id: int) -> int | None:
    """Give the last entry, as the bookie answers a request for the LAC."""
    async with asyncio.TaskGroup() as tasks:
        bookie = BookieServer(BOOKIE, kept, boot_epoch=1, version="test", tasks=tasks)
        evidence = await bookie.read_lac(LedgerId(ledger_id))
    if evidence.last_entry is None:
        return None
    return int.from_bytes(evidence.last_entry[8:16], "big")


@pytest.mark.parametrize("end", [-1, 0, 6, 7, 200])
async def test_compaction_drops_what_is_past_the_end_and_the_last_entry_is_another_then(
    end: int,
) -> None:
    files, store = fresh(), MemoryOrdered()
    ends: dict[int, int] = {}
    async with running(files, store, policy=closed_at(ends)) as kept:
        driver = Driver(kept, ends)
        await fill(driver, (1, 2), 30)
        await all_sorted(kept)
        in_index = Index(store).last(LedgerId(1))
        assert in_index is not None
        driver.close(1, end)
        await driver.forget(2)
        assert await kept.compact(major=True) > 0
        found = await keeping.read_ids(kept, 1)
        assert set(range(min(end, in_index) + 1)) <= found
        assert not any(end < row.extent.last for row in Index(store).rows() if row.ledger_id == 1)
        assert await last_entry(kept, 1) == max(found, default=None)
        await keeping.check(kept, driver.promised)
    # As any older flush left it, or built again: the index has what the live one had.
    live = list(Index(store).rows())
    for count in range(len(store.writes)):
        older = store.crashed(count)
        kept = await keeping.opened(files, older)
        assert list(Index(older).rows()) == live
        await keeping.check(kept, driver.promised)
        await kept.close()


async def test_fenced_ledgers_are_asked_for_first_and_closed_ones_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[list[int]] = []

    async def ends(ledger_ids: Sequence[LedgerId]) -> Mapping[LedgerId, EntryId]:
        asked.append(sorted(ledger_ids))
        return dict.fromkeys(ledger_ids[:1], EntryId(99))

    monkeypatch.setattr(rewrite, "ENDS_MAX", 2)
    async with running(fresh(), MemoryOrdered()) as kept:
        driver = Driver(kept)
        for ledger_id in (1, 2, 3, 4):
            await driver.append(frame(ledger_id, [0]))
        for ledger_id in (3, 4):
            await driver.state(ledger_id, admission.FenceWanted(master_key=keeping.KEY))
        rewriter = kept._rewriter
        rewriter._on = replace(rewriter._on, ends=ends)
        known = [LedgerId(each) for each in (1, 2, 3, 4, 5)]
        for _ in range(3):
            await rewriter.learn_ends(known)
    assert asked == [[3, 4], [1, 4], [1, 2]]


@virtual_time.played
async def test_a_store_that_does_not_answer_holds_no_rewrite_up() -> None:
    async def ends(ledger_ids: Sequence[LedgerId]) -> Mapping[LedgerId, EntryId]:
        await asyncio.get_running_loop().create_future()
        raise AssertionError(ledger_ids)

    files = fresh()
    async with running(files, MemoryOrdered(), policy=replace(keeping.POLICY, ends=ends)) as kept:
        driver = Driver(kept)
        await fill(driver, (1,), 60)
        assert keeping.mark_of(files) > (0, 0)
        await keeping.check(kept, driver.promised)
