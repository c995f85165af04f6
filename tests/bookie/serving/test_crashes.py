"""Power is lost at every call to the disk, the start after it included; promises are kept.

One script is played: fragments, frames that overlap, LACs, a fence, recovery. The device dies at
its n-th call, for every n, and leaves what a power loss may leave. The next start may be cut short
in the same way. Whatever comes up then must have all that was acknowledged, and no start may
refuse.
"""

import errno
import random
from dataclasses import dataclass, field

import pytest

from tests.bookie.running import (
    KEY,
    LEDGER,
    append,
    frame,
    lac_packet,
    open_fragment,
    opening,
    read_ids,
    running,
    write_lac,
)
from tests.support import virtual_time
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem, no_troubles
from zonekeeper.bookie.ledgers import admission
from zonekeeper.bookie.segments.log import DiskFailedError
from zonekeeper.bookie.serving.service import BookieServer
from zonekeeper.bookie.storage import storage
from zonekeeper.wire.formats import errors
from zonekeeper.wire.formats.frames import Frame

SEEDS = 10


@dataclass
class Promises:
    """What a client was told."""

    acked: set[int] = field(default_factory=set)
    #: Sent, and acknowledged or not.
    sent: set[int] = field(default_factory=set)
    fenced: bool = False
    lac: int = -1


async def play(bookie: BookieServer, promised: Promises) -> None:
    """The script; raises what the bookie refuses."""

    async def send(*wanted: Frame) -> None:
        for each in wanted:
            promised.sent.update(each.entry_ids)
        for each, outcome in zip(wanted, await append(bookie, *wanted), strict=True):
            if outcome is not None:
                raise outcome
            promised.acked.update(each.entry_ids)

    async def confirm(lac: int) -> None:
        if (refused := await write_lac(bookie, lac_packet(lac))) is not None:
            raise refused
        promised.lac = lac

    await open_fragment(bookie, opening())
    await send(frame(0, 1), frame(2, lac=1))
    await confirm(2)
    await send(frame(1, 2, 3), frame(6, 7))
    await open_fragment(bookie, opening(first=6))
    await send(frame(4), frame(5))
    await confirm(5)
    await bookie.fence(LEDGER, KEY)
    promised.fenced = True
    await send(frame(5, 6, 7, 8, recovery=True))


class Dying:
    """A device that does so many calls, and then none."""

    def __init__(self, files: MemoryFileSystem, calls: int, chance: random.Random) -> None:
        self._files = files
        self._left = calls
        self._chance = chance
        self._left_behind: MemoryFileSystem | None = None
        files.troubles = self._trouble

    def after(self) -> MemoryFileSystem:
        """What the power loss left; if the device lived, one that comes now."""
        return self._left_behind or self._files.crashed(self._chance)

    def _trouble(self, kind: str, name: str) -> None:
        self._left -= 1
        if self._left >= 0:
            return
        if self._left_behind is None:
            # Before the call, because a sync that fails drops what it should have kept.
            self._left_behind = self._files.crashed(self._chance)
        raise OSError(errno.EIO, "no power", f"{kind} {name}")


async def live(files: MemoryFileSystem, promised: Promises) -> bool:
    """Play the script on a device, which may die; say whether it lived."""
    lived = True
    try:
        async with running(files, crash=True) as bookie:
            await play(bookie, promised)
    except* (OSError, DiskFailedError, errors.IoFailed, errors.InsufficientSpace):
        # A device that died while it was asked for its room has none.
        lived = False
    return lived


async def start(files: MemoryFileSystem) -> None:
    """Start, and die on the way if the device does."""
    try:
        async with running(files, crash=True):
            pass
    except OSError:
        pass


async def check(files: MemoryFileSystem, promised: Promises) -> None:
    """Start, and look at everything that was promised."""
    async with running(files) as bookie:
        here = set(await read_ids(bookie)) if promised.acked else set()
        assert promised.acked <= here <= promised.sent
        if promised.lac >= 0:
            evidence = await bookie.read_lac(LEDGER)
            assert admission.lac_of(evidence.explicit_lac) >= promised.lac
        if promised.fenced:
            (refused,) = await append(bookie, frame(99))
            assert isinstance(refused, errors.Fenced)


def fresh() -> MemoryFileSystem:
    files = MemoryFileSystem()
    storage.create(files, random.Random(1))
    return files


async def calls_of_the_script() -> int:
    """How many calls the whole script makes."""
    files, asked = fresh(), list[str]()
    files.troubles = lambda kind, name: asked.append(kind)
    assert await live(files, Promises())
    return len(asked)


@pytest.mark.parametrize("seed", range(SEEDS))
@virtual_time.played
async def test_whatever_a_power_loss_leaves_has_all_that_was_acknowledged(seed: int) -> None:
    total = await calls_of_the_script()
    assert total > 20
    for call in range(total + 1):
        files, promised = fresh(), Promises()
        chance = random.Random(seed * 1_000 + call)
        first = Dying(files, call, chance)
        assert await live(files, promised) == (call >= total)
        again = first.after()
        second = Dying(again, chance.randrange(12), chance)
        await start(again)
        await check(second.after(), promised)


@pytest.mark.parametrize("seed", range(SEEDS))
@virtual_time.played
async def test_what_was_read_after_a_failed_sync_is_there_after_the_power_is_lost(
    seed: int,
) -> None:
    """The kernel shows what it failed to write, once it has dropped it; a reader must not see it.

    A process that starts again on such a file has to put it on the disk, or not to show it.
    """
    total = await calls_of_the_script()
    for call in range(total):
        files, promised = fresh(), Promises()
        Dying(files, call, random.Random(seed))
        await live(files, promised)
        files.troubles = no_troubles
        async with running(files, crash=True) as bookie:
            try:
                seen = set(await read_ids(bookie))
            except errors.NoSuchLedger:
                seen = set()
        assert promised.acked <= seen
        promised.acked = seen
        await check(files.crashed(random.Random(seed * 1_000 + call)), promised)


@pytest.mark.parametrize("seed", range(SEEDS))
@virtual_time.played
async def test_a_start_that_loses_power_on_what_a_dead_process_left_never_looks_like_damage(
    seed: int,
) -> None:
    """The last batch is known to the kernel only; it must be on disk before one stands behind."""
    total = await calls_of_the_script()
    for call in range(total):
        files, promised = fresh(), Promises()
        chance = random.Random(seed * 1_000 + call)
        Dying(files, call, chance)
        await live(files, promised)
        device = Dying(files, chance.randrange(20), chance)
        await start(files)
        await check(device.after(), promised)
