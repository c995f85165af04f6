"""A disk that takes its time, and may lose power in the middle of something."""

import asyncio
import copy
import errno
from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Final, TypeAlias, TypeVar

from zonekeeper.bookie.disk import disks
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem, no_troubles
from zonekeeper.wire.formats import frames
from zonekeeper.wire.formats.errors import FormatError

T = TypeVar("T")

#: Changes a frame that is on a disk.
Rot: TypeAlias = Callable[[bytes, Random], bytes]

#: How likely a crash comes in the middle of a piece of work, and how likely another one is done.
_TORN: Final = 1 / 3
_DONE: Final = 1 / 2


class SimulatedDisk:
    """A ``disks.Disk``: one piece of work after another, each done when its time is up."""

    def __init__(self, delay_ms: Callable[[], float]) -> None:
        self._delay_ms = delay_ms
        self._waiting: deque[Callable[[], None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    async def run(self, work: Callable[[], T]) -> T:
        """Do the work when the pieces before it are done."""
        piece, done = disks.piece_of(work)
        self._waiting.append(piece)
        self._idle.clear()
        if self._timer is None:
            self._schedule()
        return await done

    async def close(self) -> None:
        """Return when all work that was given is done."""
        await self._idle.wait()

    def stop(self) -> Callable[[], None] | None:
        """Do nothing any more; gives the piece in hand, if there is one."""
        if self._timer is not None:
            self._timer.cancel()
        waiting, self._waiting = self._waiting, deque()
        return waiting[0] if waiting else None

    def _schedule(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._delay_ms() / 1_000, self._step)

    def _step(self) -> None:
        self._timer = None
        self._waiting.popleft()()
        if self._waiting:
            self._schedule()
        else:
            self._idle.set()


def crash(
    disks: Sequence[SimulatedDisk], files: MemoryFileSystem, chance: Random
) -> MemoryFileSystem:
    """Stop the disks of one file system for ever, and give what the kernel then knows of it.

    Each piece in hand was not begun, or was done and not answered; one had perhaps written, and
    not synced.
    """
    pieces = [piece for piece in (disk.stop() for disk in disks) if piece is not None]
    torn = pieces.pop(chance.randrange(len(pieces))) if pieces and chance.random() < _TORN else None
    for piece in pieces:
        if chance.random() < _DONE:
            piece()
    return files if torn is None else _before_the_sync(torn, files)


def _before_the_sync(piece: Callable[[], None], files: MemoryFileSystem) -> MemoryFileSystem:
    """Do a piece as far as its first sync; done is one that has none."""
    at_the_sync: list[MemoryFileSystem] = []

    def stop_there(kind: str, name: str) -> None:
        if kind in ("sync", "sync_names"):
            files.troubles = no_troubles
            at_the_sync.append(copy.deepcopy(files))
            raise OSError(errno.EIO, "the power is gone", name)

    files.troubles = stop_there
    piece()
    return at_the_sync[0] if at_the_sync else files


def rotten(frame: bytes, chance: Random) -> bytes:
    """Give a frame with another byte, which its checksum shows."""
    return _with_another_byte(frame, chance.randrange(len(frame)), chance)


def rotten_unseen(frame: bytes, chance: Random) -> bytes:
    """Give a frame with another byte in a payload, and a checksum that is right: only the entry's
    digest shows it."""
    try:
        whole = frames.parse(frame)
    except FormatError:  # rotten as it is
        return frame
    packets = [bytes(packet) for _, packet in whole]
    at = chance.randrange(len(packets))
    packets[at] = _with_another_byte(packets[at], len(packets[at]) - 1, chance)
    summed = frames.build(whole.ledger_id, whole.entry_ids, packets, whole.flags).data()
    assert len(summed) == len(frame)
    return bytes(summed)


def _with_another_byte(data: bytes, at: int, chance: Random) -> bytes:
    return data[:at] + bytes([data[at] ^ chance.randrange(1, 256)]) + data[at + 1 :]


def overwrite(files: MemoryFileSystem, name: str, offset: int, data: bytes) -> None:
    """Let a file that was synced have other bytes; no process notices."""
    troubles, files.troubles = files.troubles, no_troubles
    file = files.open(name)
    file.write(offset, [data])
    file.sync()
    file.close()
    files.troubles = troubles
