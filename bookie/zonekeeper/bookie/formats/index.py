"""The index: where the entries in sorted segments are, in an ordered store of keys and values.

::

    key                                          value
    | "i" |                                      | log id 8 |            the log of this index
    | "s" | sorted number 8 |                    (empty)                 all of it is in the index
    |                                            | "b" |                 a part of it may be
    | "w" |                                      | sweep 8 |             the last sweep done
    | "x" | ledger 8 | first entry 8 |           | last entry 8 | location 8 | size 4 |

Numbers are big-endian. The extents of a ledger are disjoint.

The index may lose its newest writes, or everything. So each sorted segment has a mark (``s``). The
mark "b" is written before the segment's first extent: a part may be in the index. The empty mark is
written after the last extent: all are. So every segment with an extent in the index has a mark. A
segment that is not wholly in the index is added again, which writes the same extents once more. A
segment is removed in the same order: its extents first, then its mark.

A sweep removes the extents of forgotten ledgers. Each sweep has a number. So an index that lost its
last sweep is known by the number in it.

``Ordered`` has two implementations: the real one (``rocks``), and the twin, which is a sorted
dictionary that can lose its newest writes.
"""

import struct
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Final, NamedTuple, Protocol, TypeAlias

from zonekeeper.bookie.formats import locations
from zonekeeper.bookie.ledgers.extents import Extent
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.formats import entries

Pair: TypeAlias = tuple[bytes, bytes]
#: A key and its new value; None removes it.
Change: TypeAlias = tuple[bytes, bytes | None]

#: The most extents that are written, or removed, in one step.
WRITE_MAX: Final = 10_000

_BEGUN: Final = b"b"
_ID_KEY: Final = b"i"
_SWEEP_KEY: Final = b"w"
_NUMBER: Final = struct.Struct(">Q")
_SEGMENT: Final = struct.Struct(">cQ")
_EXTENT: Final = struct.Struct(">cQQ")
_WHERE: Final = struct.Struct(">QQI")


class Ordered(Protocol):
    """Keys and values in the order of the keys. All calls block, and any thread may make them.

    Writing fails with ``OSError``. Reading fails with ``errors.IoFailed``: the content is unknown.
    """

    def from_floor(self, key: bytes) -> Iterator[Pair]:
        """Give the pairs in order, beginning with the greatest key ``<= key``.

        If there is no such key, begin with the least key.
        """
        ...

    def floors(self, keys: Iterable[bytes]) -> Iterator[Pair | None]:
        """Give for each key the pair with the greatest key ``<=`` it; None: there is none."""
        ...

    def write(self, changes: Sequence[Change], *, sync: bool) -> None:
        """Make all changes or none. With ``sync``, these and all earlier ones are then on disk."""
        ...

    def clear(self) -> None:
        """Remove everything, for good."""
        ...

    def close(self) -> None:
        """Close the store."""
        ...


class ExtentRow(NamedTuple):
    """An extent of a ledger."""

    ledger_id: LedgerId
    extent: Extent


class Index:
    """The index of one log."""

    def __init__(self, store: Ordered) -> None:
        self._store = store

    def prepare(self, log_id: int) -> None:
        """Keep the content if it is this log's; else begin anew. Blocks."""
        if self._value(_ID_KEY) != _NUMBER.pack(log_id):
            self.begin_anew(log_id)

    def begin_anew(self, log_id: int, sweep: int = 0) -> None:
        """Remove everything, and note the number of the last sweep. Blocks."""
        self._store.clear()
        numbers = [(_ID_KEY, _NUMBER.pack(log_id)), (_SWEEP_KEY, _NUMBER.pack(sweep))]
        self._store.write(numbers, sync=True)

    @property
    def sweep(self) -> int:
        """The number of the last sweep. Blocks."""
        value = self._value(_SWEEP_KEY)
        return 0 if value is None else int(_NUMBER.unpack(value)[0])

    def segments(self) -> frozenset[int]:
        """Give the numbers of the sorted segments that are wholly in the index. Blocks."""
        marks = self._prefixed(b"s")
        return frozenset(_SEGMENT.unpack(key)[1] for key, value in marks if value != _BEGUN)

    def begun(self) -> frozenset[int]:
        """Give the numbers of the sorted segments of which a part may be in the index. Blocks."""
        marks = self._prefixed(b"s")
        return frozenset(_SEGMENT.unpack(key)[1] for key, value in marks if value == _BEGUN)

    def add(self, number: int, rows: Sequence[ExtentRow]) -> None:
        """Add all extents of a sorted segment, durably. Blocks."""
        self._change(chain([(_SEGMENT.pack(b"s", number), _BEGUN)], map(_pair, rows)))
        self._store.write([(_SEGMENT.pack(b"s", number), b"")], sync=True)

    def drop(self, number: int, rows: Iterable[ExtentRow]) -> None:
        """Remove a sorted segment's extents, except those that have moved since. Blocks."""
        pairs = map(_pair, rows)
        self._change((key, None) for key, value in pairs if self._value(key) == value)
        self._store.write([(_SEGMENT.pack(b"s", number), None)], sync=True)

    def forget(self, ledger_ids: Iterable[LedgerId], sweep: int) -> None:
        """Remove all extents of these ledgers, durably, as the sweep of this number. Blocks."""
        self._change(
            (_pair(row)[0], None) for ledger_id in ledger_ids for row in self._of(ledger_id)
        )
        self._store.write([(_SWEEP_KEY, _NUMBER.pack(sweep))], sync=True)

    def bytes_of(self, ledger_ids: Iterable[LedgerId]) -> Counter[int]:
        """Give the bytes of these ledgers in each sorted segment, by its number. Blocks."""
        found: Counter[int] = Counter()
        for ledger_id in ledger_ids:
            found.update(bytes_by_segment(self._of(ledger_id)))
        return found

    def between(self, ledger_id: LedgerId, first: int, last: int) -> Iterator[Extent]:
        """Give a ledger's extents, cut to these bounds, in order."""
        for key, value in self._store.from_floor(_EXTENT.pack(b"x", ledger_id, first)):
            row = _row(key, value)
            if row is None or row.ledger_id < ledger_id or row.extent.last < first:
                # The first pair may be of another ledger, be no extent, or end before ``first``.
                if key > _EXTENT.pack(b"x", ledger_id, first):
                    return
                continue
            extent = row.extent
            if row.ledger_id > ledger_id or extent.first > last:
                return
            yield Extent(
                EntryId(max(first, extent.first)),
                EntryId(min(last, extent.last)),
                extent.offset,
                extent.size,
            )

    def last(self, ledger_id: LedgerId, up_to: int = entries.ID_END) -> EntryId | None:
        """Give a ledger's highest entry ``<= up_to``; None: the index has none."""
        if up_to < 0:
            return None
        top = _EXTENT.pack(b"x", ledger_id, up_to)
        for key, value in self._store.from_floor(top):
            row = _row(key, value)
            if row is None or row.ledger_id != ledger_id or row.extent.first > up_to:
                return None
            return EntryId(min(row.extent.last, up_to))
        return None

    def lasts(self, ledger_ids: Iterable[LedgerId]) -> list[EntryId | None]:
        """Give each ledger's highest entry; None: the index has none."""
        ids = list(ledger_ids)
        tops = (_EXTENT.pack(b"x", ledger_id, entries.ID_END) for ledger_id in ids)
        found = (None if pair is None else _row(*pair) for pair in self._store.floors(tops))
        return [
            None if row is None or row.ledger_id != ledger_id else row.extent.last
            for row, ledger_id in zip(found, ids, strict=True)
        ]

    def rows(self) -> Iterator[ExtentRow]:
        """Give all extents, in order."""
        for key, value in self._prefixed(b"x"):
            row = _row(key, value)
            assert row is not None, "all keys with this prefix are extents"
            yield row

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def _of(self, ledger_id: LedgerId) -> Iterator[ExtentRow]:
        """Give a ledger's extents; an extent may be removed once it was given."""
        for extent in self.between(ledger_id, 0, entries.ID_END):
            yield ExtentRow(ledger_id, extent)

    def _value(self, key: bytes) -> bytes | None:
        for found, value in self._store.from_floor(key):
            return value if found == key else None
        return None

    def _change(self, changes: Iterable[Change]) -> None:
        for some in _batches(changes):
            self._store.write(some, sync=False)

    def _prefixed(self, prefix: bytes) -> Iterator[Pair]:
        for key, value in self._store.from_floor(prefix):
            if key[:1] > prefix:
                return
            if key[:1] == prefix:
                yield key, value


class MemoryOrdered:
    """The twin: a sorted dictionary that keeps a list of its writes, so that it can lose some."""

    def __init__(self, writes: Sequence[Sequence[Change]] = ()) -> None:
        self.writes: list[Sequence[Change]] = []
        #: The first ``synced`` writes survive every power loss.
        self.synced = 0
        self._keys: list[bytes] = []
        self._values: dict[bytes, bytes] = {}
        for changes in writes:
            self.write(changes, sync=True)

    def from_floor(self, key: bytes) -> Iterator[Pair]:
        """Give the pairs in order, beginning with the greatest key ``<= key``."""
        at = max(0, bisect_right(self._keys, key) - 1)
        while at < len(self._keys):
            found = self._keys[at]
            yield found, self._values[found]
            at = bisect_right(self._keys, found)

    def floors(self, keys: Iterable[bytes]) -> Iterator[Pair | None]:
        """Give for each key the pair with the greatest key ``<=`` it; None: there is none."""
        for key in keys:
            at = bisect_right(self._keys, key) - 1
            yield (self._keys[at], self._values[self._keys[at]]) if at >= 0 else None

    def write(self, changes: Sequence[Change], *, sync: bool) -> None:
        """Make all changes."""
        for key, value in changes:
            at = bisect_left(self._keys, key)
            is_there = self._keys[at : at + 1] == [key]
            if value is not None:
                self._values[key] = value
                self._keys[at : at + is_there] = [key]
            elif is_there:
                del self._keys[at], self._values[key]
        self.writes.append(tuple(changes))
        if sync:
            self.synced = len(self.writes)

    def clear(self) -> None:
        """Remove everything."""
        self.writes, self.synced, self._keys, self._values = [], 0, [], {}

    def close(self) -> None:
        """Do nothing."""

    def crashed(self, kept: int) -> "MemoryOrdered":
        """Give a store with the first ``kept`` writes only."""
        return MemoryOrdered(self.writes[:kept])


def bytes_by_segment(rows: Iterable[ExtentRow]) -> Counter[int]:
    """Add up the frames' bytes by sorted segment; rows of one frame follow each other."""
    found: Counter[int] = Counter()
    last = None
    for row in rows:
        offset, size = row.extent.offset, row.extent.size
        number = locations.sorted_number(offset)
        assert number is not None, "the index is of sorted segments"
        if offset != last:
            found[number] += size
        last = offset
    return found


def _batches(changes: Iterable[Change]) -> Iterator[list[Change]]:
    rest = iter(changes)
    while some := list(islice(rest, WRITE_MAX)):
        yield some


def _pair(row: ExtentRow) -> Pair:
    extent = row.extent
    key = _EXTENT.pack(b"x", row.ledger_id, extent.first)
    return key, _WHERE.pack(extent.last, extent.offset, extent.size)


def _row(key: bytes, value: bytes) -> ExtentRow | None:
    if key[:1] != b"x":
        return None
    _, ledger, first = _EXTENT.unpack(key)
    last, offset, size = _WHERE.unpack(value)
    return ExtentRow(LedgerId(ledger), Extent(EntryId(first), EntryId(last), offset, size))
