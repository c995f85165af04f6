"""Whatever a power loss leaves: all that was acknowledged is there, and nothing goes back.

Lives of a storage (adds, overlaps, recovery, fences, LACs, limbo, force, rewrite, recycling,
forgetting, compaction, failing syncs) are recorded. Every kind of state that a crash may leave is
started from, checked, crashed in the middle of that start or after it, and started and checked once
more. The index is as it was, or as an older flush left it, or gone. Time is the program's own: a
shard finds the same in every run.
"""

import pytest

from tests.crash import exploring
from tests.support import virtual_time
from zonekeeper.bookie.formats import checkpoint_format

STATES_OF_A_SHARD = 1_300
#: Together 20,800 states.
SHARDS = 16
#: With those 501,800.
LONG_SHARDS = 370
#: Together 2,600 states.
SHARDS_OF_PIECES = 2


@pytest.mark.crash
@pytest.mark.parametrize("shard", range(SHARDS))
def test_no_state_of_the_disk_after_a_power_loss_breaks_a_promise(shard: int) -> None:
    explore(shard)


@pytest.mark.crash
@pytest.mark.parametrize("shard", range(10_000, 10_000 + SHARDS_OF_PIECES))
def test_no_state_of_the_disk_breaks_a_promise_where_each_checkpoint_has_many_pieces(
    shard: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the power is lost, or a sync fails, between two pieces."""
    monkeypatch.setattr(checkpoint_format, "PIECE_BYTES", 60)
    explore(shard)


@pytest.mark.long
@pytest.mark.parametrize("shard", range(SHARDS, SHARDS + LONG_SHARDS))
def test_no_state_of_the_disk_breaks_a_promise_in_the_long_run(shard: int) -> None:
    explore(shard)


def explore(shard: int) -> None:
    explored = virtual_time.run(exploring.explore(shard, STATES_OF_A_SHARD))

    assert explored.states >= STATES_OF_A_SHARD
    assert explored.in_doubt > explored.states // 4
    assert explored.acknowledged > 50 * explored.lives
    assert explored.fenced
    assert explored.moved_marks
    assert {
        "write arrival",
        "write sorted",
        "remove sorted",
        "write index",
        "rename checkpoint.new",
        "rename log",
    } <= explored.kinds
