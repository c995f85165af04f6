"""All readable segments, open, as one file whose offsets are locations.

A read *pins* its segments first. A pinned arrival segment is not recycled, a pinned sorted segment
is not removed, and its file is not closed. There must be no ``await`` between a look-up and the
pinning, because a segment that is not pinned may be dropped. Any thread may read; all other calls
belong to the event loop.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

from zonekeeper.bookie.disk.files import File
from zonekeeper.bookie.formats import locations
from zonekeeper.bookie.formats.locations import SegmentKey

T = TypeVar("T")

#: The most sorted segments that are kept open.
OPEN_MAX: Final = 512


class Places:
    """All segments, by their keys."""

    def __init__(self, open_sorted: Callable[[int], File]) -> None:
        """``open_sorted`` opens a sorted segment by its number, in any thread."""
        self._open_sorted = open_sorted
        self._arrivals: dict[SegmentKey, File] = {}
        self._sorted: dict[SegmentKey, File] = {}
        self._lock = threading.Lock()
        self._pins: Counter[SegmentKey] = Counter()
        self._unpinned = asyncio.Event()
        #: Grows with each drop of segments. A location that was looked up before may be gone then.
        self.drops = 0

    def adopt(self, generation: int, file: File) -> None:
        """Add an arrival segment; ``arrivals`` still owns its file, and closes it."""
        self._arrivals[locations.arrival_key(generation)] = file

    def read(self, offset: int, size: int) -> bytes:
        """Read from a pinned segment; raises ``OSError``."""
        return self._file(locations.key_of(offset)).read(locations.offset_of(offset), size)

    def read_into(self, offset: int, into: memoryview) -> int:
        """Read from a pinned segment into a buffer; give the bytes read. Raises ``OSError``."""
        return self._file(locations.key_of(offset)).read_into(locations.offset_of(offset), into)

    @contextmanager
    def pinned(self, wanted: Iterable[int]) -> Iterator[None]:
        """Pin the segments of these locations within the block."""
        keys = {locations.key_of(at) for at in wanted}
        self._pins.update(keys)
        try:
            yield
        finally:
            self._unpin(keys)

    def pinning(self, wanted: Iterable[int], work: Callable[[], T]) -> Callable[[], T]:
        """Pin the segments of these locations now; give work that unpins them at its end.

        The work may be done in any thread, also after its caller has stopped waiting for it.
        """
        keys = {locations.key_of(at) for at in wanted}
        self._pins.update(keys)
        loop = asyncio.get_running_loop()

        def pinned_work() -> T:
            try:
                return work()
            finally:
                loop.call_soon_threadsafe(self._unpin, keys)

        return pinned_work

    async def drop_arrivals(self, generations: Iterable[int]) -> None:
        """Drop arrival segments that no index names any more, once they are not pinned."""
        self.drops += 1
        keys = {locations.arrival_key(generation) for generation in generations}
        await self._wait_for(keys)
        for key in keys:
            del self._arrivals[key]

    async def drop_sorted(self, numbers: Iterable[int]) -> None:
        """Close sorted segments that no index names any more, once they are not pinned."""
        self.drops += 1
        keys = {locations.sorted_key(number) for number in numbers}
        await self._wait_for(keys)
        with self._lock:
            for key in keys & self._sorted.keys():
                self._sorted.pop(key).close()

    def close(self) -> None:
        """Close the sorted segments, when nothing is read any more."""
        with self._lock:
            for file in self._sorted.values():
                file.close()
            self._sorted.clear()

    def _unpin(self, keys: set[SegmentKey]) -> None:
        for key in keys:
            self._pins[key] -= 1
            if not self._pins[key]:
                del self._pins[key]
                self._unpinned.set()

    async def _wait_for(self, keys: set[SegmentKey]) -> None:
        while not keys.isdisjoint(self._pins):
            self._unpinned.clear()
            await self._unpinned.wait()

    def _file(self, key: SegmentKey) -> File:
        if key in self._arrivals:
            return self._arrivals[key]
        with self._lock:
            file = self._sorted.pop(key, None)
            if file is None:
                self._close_oldest()
                file = self._open_sorted(key)
            # The dictionary is ordered by last use, the oldest first.
            self._sorted[key] = file
        return file

    def _close_oldest(self) -> None:
        for key in list(self._sorted):
            if len(self._sorted) < OPEN_MAX:
                return
            if key not in self._pins:
                self._sorted.pop(key).close()
