"""What is short for a while, such as open files, ends nothing and fails no directory."""

import asyncio
import errno
import os
from collections.abc import Callable

import pytest

from tests.bookie.segments import keeping
from tests.bookie.segments.keeping import Driver, check, frame, opening, running
from tests.support import virtual_time
from zonekeeper.bookie.disk.memory_files import no_troubles
from zonekeeper.bookie.formats.index import MemoryOrdered
from zonekeeper.bookie.ledgers import admission
from zonekeeper.bookie.storage.storage import Storage
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.wire.formats import errors

SHORT = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def short(number: int, kind: str, prefix: str) -> Callable[[str, str], None]:
    def trouble(called: str, name: str) -> None:
        if called == kind and name.startswith(prefix):
            raise OSError(number, os.strerror(number), name)

    return trouble


async def fill(driver: Driver, first: int, stop: int) -> None:
    for at in range(first, stop, 2):
        await driver.append(frame(1, [at, at + 1], lac=at - 1))


async def read_once(kept: Storage) -> None:
    await kept.read(kept.memory.ledgers[LedgerId(1)], range(1), 1 << 20)


@pytest.mark.parametrize("number", SHORT)
async def test_a_segment_that_cannot_be_opened_for_a_while_is_unknown_for_a_while(
    number: int,
) -> None:
    files, store = keeping.fresh(), MemoryOrdered()
    async with running(files, store) as kept:
        driver = Driver(kept)
        await driver.state(1, admission.OpenWanted(opening=opening(1)))
        await fill(driver, 0, 80)
    async with running(files, store) as kept:
        files.troubles = short(number, "open", "sorted-")
        with pytest.raises(errors.IoFailed, match="ask another bookie"):
            await read_once(kept)
        assert kept.failed_directories == []
        files.troubles = no_troubles
        await check(kept, driver.promised)


@pytest.mark.parametrize("prefix", ["sorted-", "arrival-", "checkpoint"])
@pytest.mark.parametrize("number", SHORT)
def test_a_file_that_cannot_be_created_for_a_while_is_created_later(
    number: int, prefix: str
) -> None:
    virtual_time.run(short_of_files(number, prefix))


async def short_of_files(number: int, prefix: str) -> None:
    files = keeping.fresh()
    async with running(files, MemoryOrdered()) as kept:
        driver = Driver(kept)
        await driver.state(1, admission.OpenWanted(opening=opening(1)))
        files.troubles = short(number, "create", prefix)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fill(driver, 0, 200))
            await asyncio.sleep(10)
            files.troubles = no_troubles
        assert keeping.mark_of(files) > (0, 0)
        assert driver.failed == []
        await check(kept, driver.promised)
