"""Where bytes are: locations, and the open segments that they are in.

A location is one number, so that the arrays of ``extents`` hold it as they hold an offset::

    62          61 .. 32                               31 .. 0
    | arrival? | generation, or the sorted number     | offset in the segment |

Neither a generation nor a sorted segment's number is ever used twice, so a location means the same
bytes for ever, or nothing any more. Who reads *pins* the segments first; an arrival segment is not
recycled, and a file is not closed, under a reader. Reading may happen in any thread, all else
belongs to the event loop.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final, NewType

from zonekeeper.bookie.files import File

#: A segment, as the upper bits of its locations.
SegmentKey = NewType("SegmentKey", int)

OFFSET_BITS: Final = 32
SEGMENT_BYTES_MAX: Final = 1 << OFFSET_BITS
NUMBER_END: Final = 1 << 30
_ARRIVAL: Final = NUMBER_END
_OFFSET: Final = SEGMENT_BYTES_MAX - 1

#: More sorted segments than this are not kept open.
OPEN_MAX: Final = 512


def arrival_key(generation: int) -> SegmentKey:
    """Give the key of an arrival segment."""
    assert 0 < generation < NUMBER_END, generation
    return SegmentKey(_ARRIVAL | generation)


def sorted_key(number: int) -> SegmentKey:
    """Give the key of a sorted segment."""
    assert 0 < number < NUMBER_END, number
    return SegmentKey(number)


def location(key: SegmentKey, offset: int) -> int:
    """Give the location of an offset in a segment."""
    assert 0 <= offset < SEGMENT_BYTES_MAX, offset
    return key << OFFSET_BITS | offset


def key_of(at: int) -> SegmentKey:
    """Give the segment of a location."""
    return SegmentKey(at >> OFFSET_BITS)


def arrival_generation(at: int) -> int | None:
    """Give the generation of a location in an arrival segment; None: it is in a sorted one."""
    key = at >> OFFSET_BITS
    return key ^ _ARRIVAL if key & _ARRIVAL else None


class Places:
    """The segments that can be read; looks like one file whose offsets are locations."""

    def __init__(self, open_sorted: Callable[[int], File]) -> None:
        """``open_sorted`` opens a sorted segment by its number, in any thread."""
        self._open_sorted = open_sorted
        self._arrivals: dict[SegmentKey, File] = {}
        self._sorted: dict[SegmentKey, File] = {}
        self._lock = threading.Lock()
        self._pins: Counter[SegmentKey] = Counter()
        self._unpinned = asyncio.Event()

    def adopt(self, generation: int, file: File) -> None:
        """Take note of an arrival segment; its file stays somebody else's."""
        self._arrivals[arrival_key(generation)] = file

    def read(self, offset: int, size: int) -> bytes:
        """Read from a pinned segment; raises ``OSError``."""
        return self._file(key_of(offset)).read(offset & _OFFSET, size)

    @contextmanager
    def pinned(self, locations: Iterable[int]) -> Iterator[None]:
        """Keep the segments of these locations as they are."""
        keys = {key_of(at) for at in locations}
        self._pins.update(keys)
        try:
            yield
        finally:
            for key in keys:
                self._pins[key] -= 1
                if not self._pins[key]:
                    del self._pins[key]
                    self._unpinned.set()

    async def drop_arrivals(self, generations: Iterable[int]) -> None:
        """Forget arrival segments of which nothing is in an index, once nobody reads them."""
        keys = {arrival_key(generation) for generation in generations}
        while not keys.isdisjoint(self._pins):
            self._unpinned.clear()
            await self._unpinned.wait()
        for key in keys:
            del self._arrivals[key]

    def close(self) -> None:
        """Close the sorted segments, when nobody reads any more."""
        with self._lock:
            for file in self._sorted.values():
                file.close()
            self._sorted.clear()

    def _file(self, key: SegmentKey) -> File:
        if key & _ARRIVAL:
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
