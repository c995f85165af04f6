"""A bookie dies, and its disk loses all that was not synced: what was acknowledged is there.

The file system is the real one, on a disk that forgets (``tests/support/forgetting_disk.py``). A
file system that leaves out a sync, of bytes or of names, is found here. Every other lane of real
processes would be green with it, because the kernel keeps what a process has written.
"""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.faulty_bookie import FORGETTING
from tests.faults.one_disk import BOOKIE, World, world
from tests.support import forgetting_disk
from zonekeeper.bookie.life import process
from zonekeeper.bookie.life.identity import LOCK_NAME

pytestmark = pytest.mark.processes

#: The process dies after so much of the load; or at a point, the index being lost, too, or not.
LIVES = ["kill:15", "sync:checkpoint:3:die-before", "kill:55", "write:arrival-:50:die-half"]


def loses_power(data: Path, seed: int) -> Callable[[], None]:
    """Give what a power loss does; at random it takes the index, too."""
    chance = random.Random(seed)

    def lose() -> None:
        forgetting_disk.lose_power(data, kept=[LOCK_NAME])
        if chance.random() < 0.5:
            shutil.rmtree(data / process.INDEX_NAME, ignore_errors=True)

    return lose


def on_a_forgetting_disk(made: World, patch: pytest.MonkeyPatch) -> None:
    patch.setenv(FORGETTING, "yes")
    made.after_kill = loses_power(made.bookies.data(BOOKIE), 1)


async def test_s37_what_was_acknowledged_is_read_after_any_loss_of_power(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path, 1) as made:
        on_a_forgetting_disk(made, monkeypatch)
        for life in LIVES:
            assert await made.life(life), f"{life} did not happen"


@pytest.mark.parametrize(
    "skipped",
    ["sync:arrival-:1:skipped", "sync:checkpoint.new:1:skipped", "sync_names::1:skipped"],
)
async def test_a_sync_that_does_nothing_is_found(
    skipped: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path, 1) as made:
        on_a_forgetting_disk(made, monkeypatch)
        with pytest.raises(AssertionError):
            await made.life(skipped)
        assert "Traceback" not in made.bookies.words(BOOKIE)
