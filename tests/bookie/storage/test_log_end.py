"""A log that is shorter than it was known to be is damage; a log that may be torn is none."""

import asyncio
import errno
import os
import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.bookie.segments import keeping
from tests.bookie.segments.keeping import Driver, check, fill, fresh, running
from tests.support import virtual_time
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem, no_troubles
from zonekeeper.bookie.formats import checkpoint_format, log_end
from zonekeeper.bookie.formats.arrival_scan import DamagedLogError
from zonekeeper.bookie.formats.index import MemoryOrdered
from zonekeeper.bookie.segments import arrivals, checkpoint, log_ends
from zonekeeper.bookie.segments.arrivals import Sizes
from zonekeeper.bookie.segments.log import IDLE_MS, DiskFailedError
from zonekeeper.bookie.segments.log_ends import QUIET_MS
from zonekeeper.bookie.storage import storage
from zonekeeper.wire.formats import checksums
from zonekeeper.wire.formats.frames import Flags

#: The log has gone idle, is covered, and its end was noted.
IDLE_S = 2 * (IDLE_MS + QUIET_MS) / 1_000
#: All that a test writes fits into one arrival segment, so behind the log's end there are zeros.
ROOMY = Sizes(segment_bytes=1 << 16, segments_max=4)


def end_of(files: MemoryFileSystem) -> tuple[int, int]:
    return log_ends.load(files, checkpoint.load(files)).position


def newest(files: MemoryFileSystem) -> str:
    """Give the name of the arrival segment that the log's end is in."""
    end = log_ends.load(files, checkpoint.load(files))
    return arrivals.name_of(end.arrival_number)


def used_bytes(files: MemoryFileSystem, name: str) -> int:
    file = files.open(name)
    return len(file.read(0, file.size()).rstrip(b"\0"))


async def some_entries(files: MemoryFileSystem, *, idle: bool = False) -> Driver:
    """Write some entries; then stop in order, or fall idle and lose power."""
    async with running(files, MemoryOrdered(), ROOMY, crash=idle) as kept:
        driver = Driver(kept)
        await fill(driver, [1, 2], 20)
        if idle:
            await asyncio.sleep(IDLE_S)
    return driver


async def start(files: MemoryFileSystem) -> None:
    async with running(files, MemoryOrdered()):
        pass


def copied(files: MemoryFileSystem) -> MemoryFileSystem:
    """Give a disk with the same files, all of them on the disk."""
    after = MemoryFileSystem()
    for name in files.names():
        old = files.open(name)
        file = after.create(name)
        file.write(0, [old.read(0, old.size())])
        file.sync()
    after.sync_names()
    return after


def removed(files: MemoryFileSystem, name: str) -> None:
    files.remove(name)
    files.sync_names()


def cut_in_the_middle(files: MemoryFileSystem, name: str) -> None:
    files.open(name).truncate(used_bytes(files, name) // 2)


def emptied(files: MemoryFileSystem, name: str) -> None:
    files.open(name).truncate(0)


def zeroed(files: MemoryFileSystem, name: str) -> None:
    file = files.open(name)
    file.write(0, [bytes(file.size())])


def flipped_in_the_last_batch(files: MemoryFileSystem, name: str) -> None:
    at = used_bytes(files, name) - 1
    file = files.open(name)
    (byte,) = file.read(at, 1)
    file.write(at, [bytes([byte ^ 0x40])])


DAMAGES = (removed, cut_in_the_middle, emptied, zeroed, flipped_in_the_last_batch)


@pytest.mark.parametrize("idle", [False, True], ids=["stopped", "idle"])
@pytest.mark.parametrize("damage", DAMAGES)
@virtual_time.played
async def test_damage_of_the_newest_arrival_segment_is_noticed(
    damage: Callable[[MemoryFileSystem, str], None], idle: bool
) -> None:
    files = fresh()
    await some_entries(files, idle=idle)
    name = newest(files)
    damage(files, name)
    there = {each: bytes(files.open(each).read(0, 1 << 20)) for each in files.names()}

    with pytest.raises(DamagedLogError) as refused:
        await start(files)

    assert f"{name!r}" in str(refused.value)
    assert "log-end" in str(refused.value)
    assert "restore the disk" in str(refused.value)
    del there["checkpoint"]
    assert all(files.open(each).read(0, 1 << 20) == data for each, data in there.items())


@virtual_time.played
async def test_each_byte_that_is_missing_at_the_end_of_a_stopped_log_is_missed() -> None:
    files = fresh()
    driver = await some_entries(files)
    name = newest(files)
    for size in range(0, used_bytes(files, name), 7):
        damaged = copied(files)
        damaged.open(name).truncate(size)
        with pytest.raises(DamagedLogError):
            await start(damaged)
    async with running(copied(files), MemoryOrdered()) as kept:
        await check(kept, driver.promised)


@pytest.mark.parametrize("seed", range(40))
@virtual_time.played
async def test_what_a_power_loss_leaves_of_a_busy_log_is_never_called_damage(seed: int) -> None:
    files = fresh()
    chance = random.Random(seed)
    async with running(files, MemoryOrdered(), crash=True) as kept:
        driver = Driver(kept)
        await fill(driver, [1], 10)
        await asyncio.sleep(chance.choice([0.0, IDLE_S]))
        for entry_id in range(100, 100 + chance.randrange(1, 40)):
            await driver.append(keeping.frame(1, [entry_id]))
        left = files.crashed(chance)
        promised = driver.snapshot()
    async with running(left, MemoryOrdered()) as kept:
        await check(kept, promised)


class Worst:
    """A power loss that takes all that it may take."""

    def random(self) -> float:
        return 1.0


@pytest.mark.parametrize("forced", [False, True])
@virtual_time.played
async def test_the_end_is_what_was_synced_and_not_what_was_only_written(forced: bool) -> None:
    """Deferred frames fill more than a segment; each segment is synced at its end."""
    files = fresh()
    async with running(files, MemoryOrdered(), crash=True) as kept:
        driver = Driver(kept)
        await fill(driver, [1], 1)
        for entry_id in range(10, 30):
            deferred = keeping.frame(1, [entry_id], flags=Flags.DEFERRED_SYNC)
            await driver.append(deferred)
        if forced:
            await driver.force()
        await kept.note_end()
        left = files.crashed(Worst())
        promised, active = driver.snapshot(), kept.log.active.name
    assert not forced or newest(left) == active
    async with running(left, MemoryOrdered()) as kept:
        await check(kept, promised)


@virtual_time.played
async def test_appending_writes_no_end_and_syncs_once_a_batch() -> None:
    files = fresh()
    async with running(files, MemoryOrdered(), ROOMY) as kept:
        driver = Driver(kept)
        await fill(driver, [1], 1)
        called: list[tuple[str, str]] = []
        files.troubles = lambda kind, name: called.append((kind, name))
        for entry_id in range(2, 12):
            await driver.append(keeping.frame(1, [entry_id]))
        files.troubles = no_troubles

    assert called.count(("sync", newest(files))) == 10
    assert not [name for _, name in called if name.startswith(log_end.NAME)]


@virtual_time.played
async def test_a_log_that_is_written_now_and_then_is_not_idle() -> None:
    """Its end is noted when the pauses are as long as that takes, and once for each pause."""
    files = fresh()
    async with running(files, MemoryOrdered()) as kept:
        driver = Driver(kept)
        await fill(driver, [1], 1)
        written: list[str] = []
        files.troubles = lambda kind, name: written.append(kind + name)
        for pause_s, notes in ((0.8 * QUIET_MS / 1_000, 0), (IDLE_S, 5)):
            for _ in range(5):
                first = 10 * len(written) + 2
                await driver.append(keeping.frame(1, [first]))
                await asyncio.sleep(pause_s)
            assert written.count("renamelog-end.new") == notes
        files.troubles = no_troubles


@virtual_time.played
async def test_a_round_of_the_rewrite_notes_the_end() -> None:
    files = fresh()
    async with running(files, MemoryOrdered(), crash=True) as kept:
        before = end_of(files)
        driver = Driver(kept)
        await fill(driver, [1], 40)
        await keeping.let_work(lambda: kept.counters.rewritten_segments > 0)
        assert end_of(files) > before
        assert end_of(files) > checkpoint.load(files).mark


async def test_a_missing_end_is_missed_and_a_damaged_one_is_not_read() -> None:
    made = fresh()
    await some_entries(made)
    for damage, says in (
        (removed, "'log-end' is missing"),
        (emptied, "'log-end' is damaged"),
        (flipped_in_the_last_batch, "'log-end' is damaged"),
    ):
        files = copied(made)
        damage(files, log_end.NAME)
        with pytest.raises(DamagedLogError, match=f"{says}.* replace-disk"):
            await start(files)


async def test_the_end_of_another_log_is_refused() -> None:
    files = fresh()
    await some_entries(files)
    log_ends.save(files, log_end.none_of(77))

    with pytest.raises(DamagedLogError, match="of another log"):
        await start(files)


async def test_an_end_of_a_newer_version_is_not_called_damaged() -> None:
    files = fresh()
    await some_entries(files)
    data = bytearray(log_end.render(log_end.none_of(checkpoint.load(files).log_id)))
    data[4] = 2
    data[40:] = checksums.value(bytes(data[:40])).to_bytes(4, "big")
    files.open(log_end.NAME).write(0, [data])

    with pytest.raises(DamagedLogError, match=r"newer zonekeeper .* start that version"):
        await start(files)


def of_an_earlier_version(files: MemoryFileSystem) -> None:
    """Make the checkpoint one of version 1, without a log's end beside it."""
    last = checkpoint.load(files)
    assert not last.limbo_generation
    assert not last.tombstones
    written = checkpoint_format.render(last)
    assert written[4] == 3
    data = written[:4] + b"\1" + written[5:61] + written[73:-4]
    files.remove(checkpoint.NAME)
    files.create(checkpoint.NAME).write(0, [data, checksums.value(data).to_bytes(4, "big")])
    removed(files, log_end.NAME)


async def test_a_disk_of_an_earlier_version_starts_and_is_covered_from_then_on() -> None:
    files = fresh()
    driver = await some_entries(files)
    of_an_earlier_version(files)
    assert not checkpoint.load(files).has_log_end

    async with running(files, MemoryOrdered()) as kept:
        await check(kept, driver.promised)
        assert log_end.NAME in files.names()

    removed(files, newest(files))
    with pytest.raises(DamagedLogError):
        await start(files)


@virtual_time.played
async def test_a_checkpoint_that_names_an_end_is_not_written_before_that_end() -> None:
    """The disk is of an earlier version, and has no room for the end when it starts."""
    files = fresh()
    driver = await some_entries(files)
    of_an_earlier_version(files)
    seen: list[bool] = []

    def full(kind: str, name: str) -> None:
        if (kind, name) == ("write", f"{log_end.NAME}.new") and len(seen) < 3:
            seen.append(checkpoint.load(files).has_log_end)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)

    files.troubles = full
    async with running(files, MemoryOrdered(), crash=True) as kept:
        driver = Driver(kept)
        await fill(driver, [5], 40)
        await keeping.let_work(lambda: kept.counters.rewritten_segments > 0)
        left = files.crashed(random.Random(3))
    files.troubles = no_troubles

    assert seen == [False] * 3
    assert log_ends.load(left, replace(checkpoint.load(left), has_log_end=True)).arrival_number
    async with running(left, MemoryOrdered()) as kept:
        await check(kept, driver.promised)


async def test_a_disk_error_while_the_end_is_noted_ends_the_bookie() -> None:
    files = fresh()

    def broken(kind: str, name: str) -> None:
        if kind == "sync" and name == f"{log_end.NAME}.new" and armed:
            raise OSError(errno.EIO, "input/output error", name)

    armed: list[bool] = []
    files.troubles = broken

    async def stopped() -> None:
        async with running(files, MemoryOrdered()) as kept:
            armed.append(True)
            await fill(Driver(kept), [1], 1)

    with pytest.raises(BaseExceptionGroup) as ended:
        await stopped()
    assert ended.group_contains(DiskFailedError)


def test_a_first_start_that_was_cut_short_before_the_checkpoint_goes_on() -> None:
    files = MemoryFileSystem()
    log_ends.save(files, log_end.none_of(55))

    storage.create(files, random.Random(1))

    last = checkpoint.load(files)
    assert log_ends.load(files, last) == log_end.none_of(last.log_id)
