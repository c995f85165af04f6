"""Whatever is damaged on the disk of a bookie that stands still: none of it goes unnoticed."""

from pathlib import Path

import pytest

from tests.crash import damages
from tests.crash.damages import SHAPES, Tally
from tests.support import virtual_time

DAMAGES_OF_A_SHARD = 75
#: Together 300 damages.
SHARDS = 4
#: With those 1,200.
LONG_SHARDS = 12


@pytest.mark.crash
@pytest.mark.parametrize("shard", range(SHARDS))
def test_s44_no_damage_at_rest_goes_unnoticed(shard: int, tmp_path: Path) -> None:
    explore(shard, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("shard", range(SHARDS, SHARDS + LONG_SHARDS))
def test_s44_no_damage_at_rest_goes_unnoticed_in_the_long_run(shard: int, tmp_path: Path) -> None:
    explore(shard, tmp_path)


def explore(shard: int, folder: Path) -> Tally:
    return virtual_time.run(damaged(shard, folder, DAMAGES_OF_A_SHARD))


async def damaged(shard: int, folder: Path, count: int) -> Tally:
    """Do so many damages to a bookie of each shape; raises at the first that goes unnoticed."""
    tally = Tally()
    there = [
        await damages.made(shape, folder / f"rest-{number}", folder / "life", shard * 10 + number)
        for number, shape in enumerate(SHAPES)
    ]
    for seed in range(shard * 1_000, shard * 1_000 + count):
        await damages.one(there[seed % len(there)], folder / f"damaged-{seed}", seed, tally)
    assert tally.total == count
    assert {"arrival", "sorted", "checkpoint", "log-end", "index"} <= {
        *tally.refused,
        *tally.unknown,
        *tally.harmless,
    }
    assert tally.unknown
    return tally
