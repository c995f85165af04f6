"""The segments that can be read, open, as one file whose offsets are locations.

Who reads *pins* the segments first: an arrival segment is not recycled, a sorted one not removed,
and no file closed, under a reader. Between looking up where something is and pinning it there is no
``await``, because what nobody has pinned may go. Reading may happen in any thread, all else belongs
to the event loop.
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

#: More sorted segments than this are not kept open.
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
        #: How often segments were dropped: what was looked up before may be there no more.
        self.drops = 0

    def adopt(self, generation: int, file: File) -> None:
        """Take note of an arrival segment; its file stays somebody else's."""
        self._arrivals[locations.arrival_key(generation)] = file

    def read(self, offset: int, size: int) -> bytes:
        """Read from a pinned segment; raises ``OSError``."""
        return self._file(locations.key_of(offset)).read(locations.offset_of(offset), size)

    def read_into(self, offset: int, into: memoryview) -> int:
        """Read from a pinned segment into a buffer, and say how much; raises ``OSError``."""
        return self._file(locations.key_of(offset)).read_into(locations.offset_of(offset), into)

    @contextmanager
    def pinned(self, wanted: Iterable[int]) -> Iterator[None]:
        """Keep the segments of these locations as they are."""
        keys = {locations.key_of(at) for at in wanted}
        self._pins.update(keys)
        try:
            yield
        finally:
            self._unpin(keys)

    def pinning(self, wanted: Iterable[int], work: Callable[[], T]) -> Callable[[], T]:
        """Keep the segments of these locations until this work is done, and give the work.

        It may be done in any thread, and when nobody waits for it any more.
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
        """Forget arrival segments of which nothing is in an index, once nobody reads them."""
        self.drops += 1
        keys = {locations.arrival_key(generation) for generation in generations}
        await self._wait_for(keys)
        for key in keys:
            del self._arrivals[key]

    async def drop_sorted(self, numbers: Iterable[int]) -> None:
        """Close sorted segments of which nothing is in an index, once nobody reads them."""
        self.drops += 1
        keys = {locations.sorted_key(number) for number in numbers}
        await self._wait_for(keys)
        with self._lock:
            for key in keys & self._sorted.keys():
                self._sorted.pop(key).close()

    def close(self) -> None:
        """Close the sorted segments, when nobody reads any more."""
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
            # The order of the dictionary is that of the last use.
            self._sorted[key] = file
        return file

    def _close_oldest(self) -> None:
        for key in list(self._sorted):
            if len(self._sorted) < OPEN_MAX:
                return
            if key not in self._pins:
                self._sorted.pop(key).close()
