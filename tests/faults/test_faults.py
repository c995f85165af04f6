"""A bookie's process dies, or its disk fails, at a named point or at any moment, under load.

What was acknowledged is read back after each restart, with the content that it was written with:
from the ledgers of this life, and from those of the lives before on the same disk, so that damage
that shows late is found. Ledgers are deleted on the way, so that space is given back, too.
"""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.one_disk import world

pytestmark = pytest.mark.processes

#: Where which disk operations go wrong, and how; the first ones are the start's.
POINTS = [
    f"{operation}:{prefix}:{nth}:{what}"
    for operation, prefix, what, nths in (
        ("sync", "arrival-", "die-before", (1, 2, 9, 40)),
        ("sync", "arrival-", "die-after", (1, 2, 9, 40)),
        ("sync", "arrival-", "eio", (1, 2, 9, 40)),
        ("write", "arrival-", "die-half", (1, 3, 12, 50)),
        ("write", "arrival-", "eio", (1, 3, 12, 50)),
        ("write", "arrival-", "enospc", (1, 30)),
        ("sync", "sorted-", "die-before", (1, 3)),
        ("sync", "sorted-", "eio", (1, 3)),
        ("write", "sorted-", "die-half", (1, 5, 20)),
        ("write", "sorted-", "enospc", (1, 9)),
        ("allocate", "sorted-", "enospc", (1, 2)),
        ("remove", "sorted-", "die-before", (1,)),
        ("sync", "checkpoint", "die-before", (1, 2, 3)),
        ("sync", "checkpoint", "eio", (1, 3)),
        ("rename", "checkpoint", "die-before", (1, 2, 3)),
        ("rename", "checkpoint", "die-after", (1, 2, 3)),
        ("sync_names", "", "die-before", (1, 2, 5)),
        ("sync_names", "", "eio", (1, 2, 5)),
    )
    for nth in nths
]
FAULTS_A_DISK = 8
#: The process is killed from outside after so much of the load.
MOMENTS = [f"kill:{percent}" for percent in range(5, 100, 8)]


def games(faults: list[str], count: int) -> Iterator[list[str]]:
    """Deal faults out to so many disks."""
    dealt = faults.copy()
    random.Random(1).shuffle(dealt)
    for number in range(count):
        yield dealt[number::count]


@pytest.mark.parametrize("faults", list(games(POINTS + MOMENTS, 8)))
async def test_what_was_acknowledged_is_read_after_any_fault(
    tmp_path: Path, faults: list[str]
) -> None:
    missed = []
    async with world(tmp_path, 1) as made:
        for fault in faults:
            try:
                if not await made.life(fault):
                    missed.append(fault)
            except Exception as error:
                error.add_note(f"after {faults[: faults.index(fault) + 1]}")
                raise
    assert missed == []


@pytest.mark.long
@pytest.mark.parametrize("seed", range(64))
async def test_more_faults(tmp_path: Path, seed: int) -> None:
    """Five hundred, around the points, in an order of chance."""
    chance, happened = random.Random(seed), 0
    async with world(tmp_path, seed) as made:
        for _ in range(FAULTS_A_DISK):
            operation, prefix, nth, what = chance.choice(POINTS).split(":")
            point = f"{operation}:{prefix}:{chance.randint(1, 2 * int(nth))}:{what}"
            happened += await made.life(
                chance.choice((point, point, f"kill:{chance.randint(1, 100)}"))
            )
    assert happened >= FAULTS_A_DISK // 2
