"""A writer that appends faster than the rewrite works is slowed to its rate, in time."""

import asyncio
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bookie.segments import keeping
from tests.bookie.segments.keeping import Driver, frame, fresh, opening
from tests.support import virtual_time
from zonekeeper.bookie.disk.disks import InlineDisk
from zonekeeper.bookie.formats.index import MemoryOrdered
from zonekeeper.bookie.ledgers import admission
from zonekeeper.bookie.segments import arrivals, pace
from zonekeeper.bookie.segments.arrivals import Sizes
from zonekeeper.bookie.segments.pace import RewritePace
from zonekeeper.bookie.storage import storage
from zonekeeper.bookie.storage.rewrite import ROUND_SEGMENTS_MAX

SHARES = st.floats(0, 1)
SEGMENTS = arrivals.SEGMENTS_MAX_DEFAULT
SEGMENT = 64 << 20


@given(SHARES, SHARES, st.floats(1, 1e9))
def test_the_fuller_the_slower_and_nothing_is_slowed_in_the_first_half(
    one: float, other: float, rewrite: float
) -> None:
    less, more = sorted((one, other))
    few, many = pace.allowed(less, rewrite), pace.allowed(more, rewrite)
    assert (few is None) == (less <= pace.START_SHARE)
    if few is not None:
        assert many is not None
        assert few >= many >= rewrite * pace.LEAST_RATE


def test_three_quarters_in_use_is_the_rewrites_own_rate() -> None:
    assert pace.allowed(0.75, 1e6) == pytest.approx(1e6)


def test_a_batch_that_took_as_long_as_it_may_owes_nothing() -> None:
    paced = RewritePace()
    size = pace.BYTES_PER_SECOND
    assert paced.pause_s(10.0, 11.1, used_share=0.75, size_bytes=size) == 0
    assert paced.pause_s(20.0, 20.5, used_share=0.75, size_bytes=size) == pytest.approx(0.5)


def test_small_batches_owe_together_what_one_large_one_does() -> None:
    paced, pauses = RewritePace(), 0.0
    size = pace.BYTES_PER_SECOND // 10_000
    for _ in range(10_000):
        pause = paced.pause_s(5.0 + pauses, 5.0 + pauses, used_share=0.75, size_bytes=size)
        assert pause == 0 or pause >= pace.PAUSE_MIN_S
        pauses += pause
    assert pauses == pytest.approx(1.0, rel=0.01)


def test_a_rewrite_that_stands_still_is_taken_for_slower_and_slower() -> None:
    paced = RewritePace()
    paced.begin_round(100 * pace.BYTES_PER_SECOND, 50.0)
    rates = [paced.bytes_per_second(now_s) for now_s in (50, 100, 150, 250, 1_050)]
    assert [rate / pace.BYTES_PER_SECOND for rate in rates] == pytest.approx([1, 1, 1, 0.5, 0.1])
    paced.end_round(1_050)
    assert paced.bytes_per_second(9_999) / pace.BYTES_PER_SECOND == pytest.approx(0.1)


@dataclass
class Flow:
    """A writer that has so much to write at any time, and a rewrite, both by their rates."""

    offered: float
    rewrite: float
    now_s: float = 0.0
    written: int = 0
    freed: int = 0
    #: Bytes that a round under way frees, and when.
    round_bytes: int = 0
    round_ends_s: float = 0.0
    fullest: float = 0.0
    longest_s: float = 0.0
    slowed_s: float = 0.0

    def run(self, until_s: float) -> None:
        paced, batch = RewritePace(), 1 << 20
        while self.now_s < until_s:
            self._rewrite(paced)
            used = 1 + (self.written - self.freed) // SEGMENT
            assert used <= SEGMENTS, "the writer was stopped"
            self.fullest = max(self.fullest, used / SEGMENTS)
            begun_s, self.now_s = self.now_s, self.now_s + batch / self.offered
            self.written += batch
            share = used / SEGMENTS
            pause = paced.pause_s(begun_s, self.now_s, used_share=share, size_bytes=batch)
            self.longest_s = max(self.longest_s, pause)
            self.slowed_s += pause
            self.now_s += pause

    def _rewrite(self, paced: RewritePace) -> None:
        if self.round_bytes and self.now_s >= self.round_ends_s:
            self.freed += self.round_bytes
            paced.end_round(self.now_s)
            self.round_bytes = 0
        sealed = (self.written - self.freed) // SEGMENT
        if not self.round_bytes and sealed >= arrivals.ROUND_SEGMENTS_DEFAULT:
            self.round_bytes = min(sealed, ROUND_SEGMENTS_MAX) * SEGMENT
            self.round_ends_s = self.now_s + self.round_bytes / self.rewrite
            paced.begin_round(self.round_bytes, self.now_s)


@pytest.mark.parametrize("times", [1.2, 2, 4, 20])
@pytest.mark.parametrize("rewrite", [20e6, 120e6, 600e6])
def test_who_floods_comes_down_to_the_rewrites_rate_and_is_never_stopped(
    rewrite: float, times: float
) -> None:
    flow = Flow(offered=times * rewrite, rewrite=rewrite)
    flow.run(300)
    assert flow.fullest < 1
    assert flow.written / flow.now_s > 0.85 * rewrite
    assert flow.longest_s < pace.PAUSE_MAX_S
    assert flow.slowed_s > 0


@pytest.mark.parametrize("times", [0.1, 0.5, 0.9])
def test_who_writes_slower_than_the_rewrite_is_not_slowed(times: float) -> None:
    flow = Flow(offered=times * 120e6, rewrite=120e6)
    flow.run(300)
    assert flow.slowed_s == 0


@virtual_time.played
async def test_a_flood_over_a_slow_rewrite_is_slowed_and_not_stopped() -> None:
    """The storage's own rewrite, on a disk on which each piece of work takes its time."""
    files = fresh()
    on = replace(keeping.devices(files, MemoryOrdered()), background=InlineDisk(lambda: 20))
    sizes = Sizes(segment_bytes=1 << 14, segments_max=16)
    kept = await storage.open_storage(on, sizes, keeping.POLICY)
    # As the first round will measure it: this buffer is too small to wait for that.
    kept._arrivals.pace._measured = 1e6
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(kept.run())
        driver = Driver(kept)
        await driver.state(1, admission.OpenWanted(opening=opening(1)))
        for first in range(0, 6_000, 4):
            await driver.append(frame(1, range(first, first + 4)))
        kept.log.close()
    assert kept.backlog.bytes_per_second < 2e6
    assert kept.counters.throttled_seconds > 1
    assert kept.counters.waits_for_segments == 0
    await kept.close()
