"""Segments that are read stay: pins of several readers, and more segments than are kept open."""

import asyncio
import itertools
from contextlib import ExitStack

import pytest

from tests.support import virtual_time
from zonekeeper.bookie.disk.files import File
from zonekeeper.bookie.disk.memory_files import MemoryFileSystem
from zonekeeper.bookie.formats import locations
from zonekeeper.bookie.segments import directories, places
from zonekeeper.bookie.segments.places import Places

MANY = places.OPEN_MAX + 100


def sorted_at(number: int) -> int:
    return locations.location(locations.sorted_key(number), 0)


def arrival_at(generation: int) -> int:
    return locations.location(locations.arrival_key(generation), 0)


def content(number: int) -> bytes:
    return number.to_bytes(8)


class Shelf:
    """Segments in memory, and which of them are open."""

    def __init__(self, count: int) -> None:
        self._files = MemoryFileSystem()
        for number in range(1, count + 1):
            self._files.create(directories.name_of(number)).write(0, [content(number)])
        self.handles: dict[int, list[File]] = {}
        self.places = Places(self._open)

    def _open(self, number: int) -> File:
        file = self._files.open(directories.name_of(number))
        self.handles.setdefault(number, []).append(file)
        return file

    def is_open(self, number: int) -> bool:
        return any(map(_usable, self.handles.get(number, ())))

    @property
    def open_count(self) -> int:
        return sum(_usable(file) for files in self.handles.values() for file in files)

    def read(self, number: int) -> None:
        assert self.places.read(sorted_at(number), 8) == content(number)


def _usable(file: File) -> bool:
    try:
        file.size()
    except OSError:
        return False
    return True


def test_of_more_segments_than_the_limit_all_are_read_and_no_more_are_open() -> None:
    shelf = Shelf(MANY)
    for _, number in itertools.product(range(2), range(1, MANY + 1)):
        shelf.read(number)
        assert shelf.is_open(number)
    assert shelf.open_count == places.OPEN_MAX
    into = bytearray(8)
    assert shelf.places.read_into(sorted_at(1), memoryview(into)) == 8
    assert bytes(into) == content(1)
    shelf.places.close()
    assert shelf.open_count == 0


def test_what_was_used_last_stays_open() -> None:
    shelf = Shelf(MANY)
    for number in range(1, MANY + 1):
        shelf.read(number)
        shelf.read(1)
    assert len(shelf.handles[1]) == 1
    assert not shelf.is_open(2)


def test_what_is_pinned_is_not_closed_however_many_others_are_read() -> None:
    shelf = Shelf(MANY + 1)
    with shelf.places.pinned([sorted_at(1)]), shelf.places.pinned([sorted_at(1)]):
        shelf.read(1)
        for number in range(2, MANY + 1):
            shelf.read(number)
        assert len(shelf.handles[1]) == 1
        assert shelf.is_open(1)
    with ExitStack() as pins:
        for number in range(1, MANY + 1):
            pins.enter_context(shelf.places.pinned([sorted_at(number)]))
            shelf.read(number)
        assert shelf.open_count == MANY, "what is pinned is open beyond the limit"
    shelf.read(MANY + 1)
    assert shelf.open_count == places.OPEN_MAX


async def dropping(shelf: Shelf, kind: str) -> "asyncio.Task[None]":
    """Begin to drop the segment 3 of a kind."""
    drop = shelf.places.drop_arrivals if kind == "arrival" else shelf.places.drop_sorted
    task = asyncio.ensure_future(drop([3]))
    await asyncio.sleep(0)
    return task


KINDS = pytest.mark.parametrize("kind", ["arrival", "sorted"])


def prepared(kind: str) -> tuple[Shelf, int]:
    shelf = Shelf(10)
    if kind == "sorted":
        return shelf, sorted_at(3)
    file = MemoryFileSystem().create("arrival")
    file.write(0, [content(3)])
    shelf.places.adopt(3, file)
    return shelf, arrival_at(3)


@KINDS
@virtual_time.played
async def test_a_segment_goes_behind_the_last_of_several_readers(kind: str) -> None:
    shelf, at = prepared(kind)
    for order in itertools.permutations(range(3)):
        pins = [shelf.places.pinned([at]) for _ in range(3)]
        for pin in pins:
            pin.__enter__()
        drop = await dropping(shelf, kind)
        for nth in order:
            assert not drop.done()
            assert shelf.places.read(at, 8) == content(3)
            pins[nth].__exit__(None, None, None)
            for _ in range(3):
                await asyncio.sleep(0)
        await drop
        assert not shelf.is_open(3)
        shelf, at = prepared(kind)


@KINDS
@virtual_time.played
async def test_a_read_that_nobody_waits_for_any_more_keeps_its_pin_until_it_is_done(
    kind: str,
) -> None:
    shelf, at = prepared(kind)
    works = [shelf.places.pinning([at, at + 1], lambda: shelf.places.read(at, 8)) for _ in "ab"]

    def fails() -> bytes:
        raise FileNotFoundError

    works.append(shelf.places.pinning([at], fails))
    drop = await dropping(shelf, kind)
    assert works[0]() == content(3)
    with pytest.raises(FileNotFoundError):
        works[2]()
    for _ in range(3):
        await asyncio.sleep(0)
    assert not drop.done()
    assert works[1]() == content(3)
    await drop
    assert not shelf.places._pins
