"""The index: where the entries in sorted segments are, in an ordered store of keys and values.

::

    key                                          value
    | "i" |                                      | log id 8 |            whose index this is
    | "s" | sorted number 8 |                    (empty)                 all of it is in the index
    | "x" | ledger 8 | first entry 8 |           | last entry 8 | location 8 | size 4 |

Numbers are big-endian. The extents of a ledger are disjoint. The index may be lost, all of it or
the newest writes: a segment's mark (``s``) is written with, or after, the last of its extents, so
that a segment without a mark is added again, which writes the same once more.

``Ordered`` is what differs between the real one (``rocks``) and the twin, which is a sorted
dictionary that can lose its newest writes.
"""

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias

from zonekeeper.bookie.extents import Extent
from zonekeeper.placement.ids import EntryId, LedgerId

Pair: TypeAlias = tuple[bytes, bytes]

#: Extents that are written in one step.
WRITE_MAX: Final = 10_000

_ID_KEY: Final = b"i"
_ID: Final = struct.Struct(">Q")
_SEGMENT: Final = struct.Struct(">cQ")
_EXTENT: Final = struct.Struct(">cQQ")
_WHERE: Final = struct.Struct(">QQI")


class Ordered(Protocol):
    """Keys and values in the order of the keys; all calls block, in any thread.

    Writing fails with ``OSError``, reading with ``errors.IoFailed``: what is there is unknown.
    """

    def from_floor(self, key: bytes) -> Iterator[Pair]:
        """Give the pairs in order, from the greatest key on that is not above this one.

        Without such a key they begin with the least one above it.
        """
        ...

    def write(self, pairs: Sequence[Pair], *, sync: bool) -> None:
        """Put all or none; with ``sync`` this, and all before it, is on the disk afterwards."""
        ...

    def clear(self) -> None:
        """Remove everything, for good."""
        ...

    def close(self) -> None:
        """Give it back."""
        ...


class Row(NamedTuple):
    """An extent of a ledger."""

    ledger_id: LedgerId
    extent: Extent


class Index:
    """The index of one log."""

    def __init__(self, store: Ordered) -> None:
        self._store = store

    def prepare(self, log_id: int) -> None:
        """Keep what is there if it is this log's; else begin anew. Blocks."""
        if dict(self._prefixed(_ID_KEY)).get(_ID_KEY) != _ID.pack(log_id):
            self.begin_anew(log_id)

    def begin_anew(self, log_id: int) -> None:
        """Forget everything. Blocks."""
        self._store.clear()
        self._store.write([(_ID_KEY, _ID.pack(log_id))], sync=True)

    def segments(self) -> frozenset[int]:
        """Give the numbers of the sorted segments that are in the index. Blocks."""
        return frozenset(_SEGMENT.unpack(key)[1] for key, _ in self._prefixed(b"s"))

    def add(self, number: int, rows: Sequence[Row]) -> None:
        """Add all extents of a sorted segment, durably. Blocks."""
        pairs = [_pair(row) for row in rows]
        for at in range(0, len(pairs), WRITE_MAX):
            self._store.write(pairs[at : at + WRITE_MAX], sync=False)
        self._store.write([(_SEGMENT.pack(b"s", number), b"")], sync=True)

    def between(self, ledger_id: LedgerId, first: int, last: int) -> Iterator[Extent]:
        """Give a ledger's extents, cut to these bounds, in order."""
        for key, value in self._store.from_floor(_EXTENT.pack(b"x", ledger_id, first)):
            row = _row(key, value)
            if row is None or row.ledger_id < ledger_id or row.extent.last < first:
                # The floor may be another ledger's, something else, or end too early.
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

    def last(self, ledger_id: LedgerId) -> EntryId | None:
        """Give a ledger's highest entry; None: the index has none."""
        top = _EXTENT.pack(b"x", ledger_id, (1 << 64) - 1)
        for key, value in self._store.from_floor(top):
            row = _row(key, value)
            if row is not None and row.ledger_id == ledger_id:
                return row.extent.last
            return None
        return None

    def rows(self) -> Iterator[Row]:
        """Give all extents, in order."""
        for key, value in self._prefixed(b"x"):
            row = _row(key, value)
            assert row is not None, "all keys with this prefix are extents"
            yield row

    def close(self) -> None:
        """Give the store back."""
        self._store.close()

    def _prefixed(self, prefix: bytes) -> Iterator[Pair]:
        for key, value in self._store.from_floor(prefix):
            if key[:1] > prefix:
                return
            if key[:1] == prefix:
                yield key, value


class MemoryOrdered:
    """The twin: a sorted dictionary that remembers its writes, so that it can lose the newest."""

    def __init__(self, writes: Sequence[Sequence[Pair]] = ()) -> None:
        self.writes: list[Sequence[Pair]] = []
        #: So many writes no power loss can take.
        self.synced = 0
        self._keys: list[bytes] = []
        self._values: dict[bytes, bytes] = {}
        for pairs in writes:
            self.write(pairs, sync=True)

    def from_floor(self, key: bytes) -> Iterator[Pair]:
        """Give the pairs in order, from the greatest key on that is not above this one."""
        at = max(0, bisect_right(self._keys, key) - 1)
        while at < len(self._keys):
            found = self._keys[at]
            yield found, self._values[found]
            at = bisect_right(self._keys, found)

    def write(self, pairs: Sequence[Pair], *, sync: bool) -> None:
        """Put all."""
        for key, value in pairs:
            if key not in self._values:
                self._keys.insert(bisect_left(self._keys, key), key)
            self._values[key] = value
        self.writes.append(tuple(pairs))
        if sync:
            self.synced = len(self.writes)

    def clear(self) -> None:
        """Remove everything."""
        self.writes, self.synced, self._keys, self._values = [], 0, [], {}

    def close(self) -> None:
        """Give it back."""

    def crashed(self, kept: int) -> "MemoryOrdered":
        """Give the store with its first writes only."""
        return MemoryOrdered(self.writes[:kept])


def _pair(row: Row) -> Pair:
    extent = row.extent
    key = _EXTENT.pack(b"x", row.ledger_id, extent.first)
    return key, _WHERE.pack(extent.last, extent.offset, extent.size)


def _row(key: bytes, value: bytes) -> Row | None:
    if key[:1] != b"x":
        return None
    _, ledger, first = _EXTENT.unpack(key)
    last, offset, size = _WHERE.unpack(value)
    return Row(LedgerId(ledger), Extent(EntryId(first), EntryId(last), offset, size))
