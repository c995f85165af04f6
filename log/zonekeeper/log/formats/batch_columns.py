"""A batch made of columns, without an object for each message. Pure.

What comes as columns, such as a batch of Arrow, goes into a batch of a log column by column, too.
The bytes are those that ``batches.build`` gives for the same messages. Only the names of headers
are looked at one by one, because each must be UTF-8 by itself.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from zonekeeper.log.formats import batches, messages
from zonekeeper.log.formats.batches import BODY_BYTES_MAX, MESSAGES_MAX, BatchFlags

#: The type codes of lengths: of a value, and of a header's name or a number of headers.
LENGTH: Final = "I"
SHORT: Final = "H"
assert (array(LENGTH).itemsize, array(SHORT).itemsize) == (4, 2)
_IS_LITTLE_ENDIAN: Final = array(SHORT, [1]).tobytes() == b"\x01\x00"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueColumn:
    """Values back to back: value n is ``data[offsets[n]:offsets[n + 1]]``, of ``lengths[n]`` bytes.

    Offsets and lengths are in the order of this machine. Offsets may begin above 0.
    """

    offsets: Sequence[int]
    lengths: "array[int]"
    data: "memoryview[int]" = field(repr=False)

    def __post_init__(self) -> None:
        assert len(self.offsets) == len(self.lengths) + 1

    def __len__(self) -> int:
        return len(self.lengths)

    def size_bytes(self, first: int, end: int) -> int:
        """Give the bytes of some values."""
        return self.offsets[end] - self.offsets[first]

    def values(self, first: int, end: int) -> "memoryview[int]":
        """Give some values, back to back."""
        return self.data[self.offsets[first] : self.offsets[end]]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderColumns:
    """Headers of all messages: those of message n are ``ends[n]`` to ``ends[n + 1]``."""

    ends: Sequence[int]
    #: The number of headers of each message.
    counts: "array[int]"
    names: ValueColumn
    values: ValueColumn

    def __post_init__(self) -> None:
        assert len(self.ends) == len(self.counts) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageColumns:
    """Messages as columns.

    ``has_key`` has a byte for each message: 1, or 0 and then its value among the keys is empty.
    """

    payloads: ValueColumn
    has_key: bytes | None = None
    keys: ValueColumn | None = None
    headers: HeaderColumns | None = None

    def __post_init__(self) -> None:
        assert (self.has_key is None) == (self.keys is None)
        for keys in (self.keys, self.has_key):
            assert keys is None or len(keys) == len(self)
        assert self.headers is None or len(self.headers.counts) == len(self)

    def __len__(self) -> int:
        return len(self.payloads)

    def size_bytes(self, first: int, end: int) -> int:
        """Give the most bytes that some messages add to the body of a batch."""
        size = batches.PLAIN_BYTES * (end - first) + self.payloads.size_bytes(first, end)
        if self.keys is not None:
            size += self.keys.size_bytes(first, end)
        if (headers := self.headers) is not None:
            some = headers.ends[first], headers.ends[end]
            size += batches.HEADER_LENGTHS_BYTES * (some[1] - some[0])
            size += headers.names.size_bytes(*some) + headers.values.size_bytes(*some)
        return size

    def cuts(self, bytes_aim: int) -> Iterator[tuple[int, int]]:
        """Cut the messages into batches of at most ``bytes_aim``, or of one message.

        Raises ``BadMessageError`` for a message that no batch can hold, when it comes to that one.
        """
        first = 0
        while first < len(self):
            most = range(first + 1, min(len(self), first + MESSAGES_MAX) + 1)
            fitting = bisect_right(most, bytes_aim, key=lambda end: self.size_bytes(first, end))
            end = first + max(1, fitting)
            if (size := self.size_bytes(first, end)) > BODY_BYTES_MAX:
                raise batches.too_large(size)
            yield first, end
            first = end

    def check_headers(self) -> None:
        """Refuse headers that no reader would take; raises ``BadMessageError``."""
        if (headers := self.headers) is None:
            return
        if (most := max(headers.counts, default=0)) > messages.HEADERS_MAX:
            raise messages.too_many_headers(most)
        names = headers.names
        for at in range(headers.ends[0], headers.ends[len(self)]):
            name = bytes(names.values(at, at + 1))
            messages.check_stored_name(name)


def build(columns: MessageColumns, first: int, end: int, *, place: int, wall_ms: int) -> bytes:
    """Write a batch of some messages, which ``cuts`` gave and ``check_headers`` passed."""
    flags, keys, headers = BatchFlags.PLAIN, columns.keys, columns.headers
    lengths = [_big_endian(columns.payloads.lengths[first:end])]
    data = [columns.payloads.values(first, end)]
    has_key = b"" if columns.has_key is None else columns.has_key[first:end]
    if keys is not None and any(has_key):
        flags |= BatchFlags.KEYED
        lengths += [has_key, _big_endian(keys.lengths[first:end])]
        data.append(keys.values(first, end))
    if headers is not None and headers.ends[first] < headers.ends[end]:
        flags |= BatchFlags.HEADED
        some = slice(headers.ends[first], headers.ends[end])
        short = array(SHORT, headers.names.lengths[some])
        lengths += [_big_endian(array(SHORT, headers.counts[first:end])), _big_endian(short)]
        lengths.append(_big_endian(headers.values.lengths[some]))
        data += [one.values(some.start, some.stop) for one in (headers.names, headers.values)]
    return batches.enclosed(
        flags, b"".join([*lengths, *data]), count=end - first, place=place, wall_ms=wall_ms
    )


def of_one_time(
    times: Sequence[int] | None, first: int, end: int
) -> Iterator[tuple[int, int, int | None]]:
    """Cut some messages into runs of one time each; without times it is one run.

    Raises ``BadMessageError`` for a time that no batch can have.
    """
    if times is None:
        yield first, end, None
        return
    while first < end:
        wall_ms, stop = times[first], first + 1
        if not 0 <= wall_ms <= batches.PLACE_MAX:
            raise messages.BadMessageError(
                f"a message of the time {wall_ms} ms; a time is 0 ms or later"
            )
        while stop < end and times[stop] == wall_ms:
            stop += 1
        yield first, stop, wall_ms
        first = stop


def _big_endian(lengths: "array[int]") -> bytes:
    if _IS_LITTLE_ENDIAN:
        lengths.byteswap()  # the caller made this copy
    return lengths.tobytes()
