"""A process is killed at every call to the disk, starts again, and then the power is lost.

The kernel outlives a process: it still shows names and bytes that were never synced. A start that
relies on them, and reuses the files that they replaced, has lost both after a power loss.
"""

import copy
import random

from tests.bookie.segments import keeping
from tests.bookie.segments.keeping import Driver, LedgerPromise, check, frame, opening, running
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem, no_troubles
from zonekeeper.bookie.formats.index import MemoryOrdered
from zonekeeper.bookie.ledgers import admission

LEDGERS = (1, 2)
FRAMES = 16
POWER_LOSSES = 3


async def load(files: MemoryFileSystem) -> list[tuple[MemoryFileSystem, dict[int, LedgerPromise]]]:
    """Write until segments were rewritten, and give what a kill leaves before each call."""
    left: list[tuple[MemoryFileSystem, dict[int, LedgerPromise]]] = []
    async with running(files, MemoryOrdered()) as kept:
        driver = Driver(kept)

        def note(kind: str, name: str) -> None:
            del name
            if kind in ("write", "sync", "sync_names", "rename", "create", "remove", "truncate"):
                files.troubles = no_troubles
                left.append((copy.deepcopy(files), driver.snapshot()))
                files.troubles = note

        files.troubles = note
        for ledger_id in LEDGERS:
            await driver.state(ledger_id, admission.OpenWanted(opening=opening(ledger_id)))
        for first in range(0, 2 * FRAMES, 2):
            for ledger_id in LEDGERS:
                await driver.append(frame(ledger_id, [first, first + 1], lac=first - 1))
        files.troubles = no_troubles
    assert keeping.mark_of(files) > (0, 0), "something was rewritten"
    return left


async def test_a_kill_a_start_and_a_power_loss_take_nothing_that_was_acknowledged() -> None:
    chance = random.Random(1)
    left = await load(keeping.fresh())
    assert len(left) > 100
    for files, promised in left:
        async with running(files, MemoryOrdered(), crash=True) as kept:
            shown = await check(kept, promised)
        for _ in range(POWER_LOSSES):
            async with running(files.crashed(chance), MemoryOrdered()) as kept:
                await check(kept, shown)
