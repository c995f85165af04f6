"""What a bookie logs of its events: each once, when it happens, and not for each request."""

import asyncio
import errno
import logging

import pytest

from tests.bookie.running import KEY, LEDGER, running
from tests.bookie.segments import keeping
from tests.bookie.segments.keeping import Driver, fill
from tests.bookie.serving.collecting_world import FAST, world
from tests.support import virtual_time
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem, no_troubles
from zonekeeper.bookie.formats.index import MemoryOrdered
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.wire.formats import errors


def told(caplog: pytest.LogCaptureFixture, *beginnings: str) -> list[tuple[str, str]]:
    """Give the lines that begin so, with their levels."""
    return [
        (record.levelname, record.getMessage())
        for record in caplog.records
        if record.getMessage().startswith(beginnings)
    ]


async def test_a_mode_is_told_when_it_begins_and_when_it_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with running(MemoryFileSystem()) as bookie:
        bookie.set_conditions(["the device is full: 95.0% used"])
        bookie.set_conditions(["the device is full: 97.0% used"])
        bookie.set_conditions([])
        await bookie.set_read_only(read_only=True)
        await bookie.set_read_only(read_only=True)
        await bookie.set_read_only(read_only=False)
    assert told(caplog, "read-only", "takes entries") == [
        ("WARNING", "read-only: the device is full: 95.0% used"),
        ("INFO", "takes entries again: nothing makes the bookie read-only any more"),
        ("INFO", "read-only: by a person's order"),
        ("INFO", "takes entries again: nothing makes the bookie read-only any more"),
    ]


async def test_a_fence_is_told_once_however_many_ask_for_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with running(MemoryFileSystem()) as bookie:
        await asyncio.gather(*(bookie.fence(LEDGER, KEY) for _ in range(5)))
        await bookie.fence(LEDGER, KEY)
    assert told(caplog, "ledger") == [("INFO", f"ledger {LEDGER} is fenced")]
    (record,) = [one for one in caplog.records if "is fenced" in one.getMessage()]
    assert record.__dict__["ledger"] == LEDGER


@virtual_time.played
async def test_a_compaction_tells_what_it_did_and_nothing_if_it_did_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with keeping.running(keeping.fresh(), MemoryOrdered()) as kept:
        driver = Driver(kept)
        await fill(driver, range(1, 6), 30)
        assert await kept.compact(major=True) == 0
        assert told(caplog, "major", "minor") == []
        for ledger_id in (1, 2, 3, 4):
            await driver.forget(ledger_id)
        count = await kept.compact(major=True)
    ((level, text),) = told(caplog, "major", "minor")
    assert count
    assert level == "INFO"
    assert text.startswith(f"major compaction: {count} sorted segments were written anew as ")


@virtual_time.played
async def test_a_collection_tells_how_many_ledgers_went_and_not_that_none_did(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with world() as it:
        for ledger_id in (1, 2):
            await it.create(ledger_id)
            await it.delete(ledger_id)
        await it.collector.round()
        await asyncio.sleep(FAST.every_ms / 1_000)
        assert told(caplog, "collected") == []
        assert await it.collector.round() == 2
    ((level, text),) = told(caplog, "collected")
    assert (level, text.startswith("collected 2 deleted ledgers in ")) == ("INFO", True)


@virtual_time.played
async def test_what_cannot_be_read_is_told_once_however_often_it_is_asked_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files, store = keeping.fresh(), MemoryOrdered()
    async with keeping.running(files, store) as kept:
        await fill(Driver(kept), [1], 80)

    def trouble(called: str, name: str) -> None:
        if called == "open" and name.startswith("sorted-"):
            raise OSError(errno.EMFILE, "too many open files", name)

    async with keeping.running(files, store) as kept:
        files.troubles = trouble
        for _ in range(3):
            with pytest.raises(errors.IoFailed):
                await kept.read(kept.memory.ledgers[LedgerId(1)], range(1), 1 << 20)
        files.troubles = no_troubles
    ((level, text),) = told(caplog, "ledger 1, entry 0")
    assert (level, "cannot be read" in text) == ("ERROR", True)
