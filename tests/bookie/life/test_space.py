"""When devices are full, and when entries may come again."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonekeeper.bookie.disk.disks import InlineDisk
from zonekeeper.bookie.disk.files import Space
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem
from zonekeeper.bookie.life import space
from zonekeeper.bookie.life.space import DeviceLevel, DeviceVerdict, DeviceWatch, Marks

MARKS = Marks(warn=0.8, full=0.9, low=0.7)


def used(percent: int) -> Space:
    return Space(total_bytes=100, free_bytes=100 - percent)


def levels(*percents: int) -> list[DeviceLevel]:
    """What one device is, as it fills and empties."""
    verdict, found = DeviceVerdict(), []
    for percent in percents:
        verdict = space.judge(verdict, {"a": used(percent)}, (), MARKS)
        assert bool(verdict.refusing) == (verdict.levels["a"] is DeviceLevel.FULL)
        found.append(verdict.levels["a"])
    return found


def test_a_full_device_is_full_until_it_is_under_the_low_mark() -> None:
    good, warned, full = DeviceLevel.GOOD, DeviceLevel.WARNED, DeviceLevel.FULL
    assert levels(79, 80, 89, 90, 89, 71, 70, 89) == [
        good,
        warned,
        warned,
        full,
        full,
        full,
        good,
        warned,
    ]


def test_one_full_device_of_several_is_enough_and_is_named() -> None:
    spaces = {"journal": used(10), "ledgers 1": used(95), "ledgers 2": used(20)}
    verdict = space.judge(DeviceVerdict(), spaces, ("ledger directory 2: gone",), MARKS)
    assert [reason.split(" is full")[0] for reason in verdict.refusing] == [
        "ledgers 1",
        "ledger directory 2: gone",
    ]


@pytest.mark.parametrize("before", [5, 95])
def test_a_device_that_cannot_say_is_what_it_was(before: int) -> None:
    known = space.judge(DeviceVerdict(), {"a": used(before)}, (), MARKS)
    unknown = space.judge(known, {"a": None}, (), MARKS)
    assert unknown.levels == known.levels


@given(st.lists(st.integers(0, 100), min_size=1))
def test_entries_are_refused_from_full_until_low(percents: list[int]) -> None:
    refusing = False
    for percent, level in zip(percents, levels(*percents), strict=True):
        refusing = percent >= 90 or (refusing and percent > 70)
        assert (level is DeviceLevel.FULL) == refusing


@pytest.mark.parametrize(
    ("warn", "full", "low"), [(0.9, 0.8, 0.7), (0.8, 0.9, 0.95), (0.8, 1.1, 0.7), (0.8, 0.9, 0)]
)
def test_marks_that_make_no_sense_are_refused(warn: float, full: float, low: float) -> None:
    with pytest.raises(ValueError, match="disk marks"):
        Marks(warn=warn, full=full, low=low)


async def test_a_change_is_told_once() -> None:
    files = MemoryFileSystem(total_bytes=100)
    file = files.create("a")
    troubles: Sequence[str] = ()
    heard: list[tuple[str, ...]] = []
    watch = DeviceWatch(
        {"data": files}, InlineDisk(), MARKS, troubles=lambda: troubles, on_change=heard.append
    )
    for size in (10, 90, 95, 80, 60):
        file.truncate(size)
        await watch.look()
    troubles = ("ledger directory 1: gone",)
    await watch.look()
    await watch.look()
    assert heard == [
        ("data is full: 90.0% used; make room until 70.0% are",),
        (),
        ("ledger directory 1: gone",),
    ]
