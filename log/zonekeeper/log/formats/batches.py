"""A batch: one entry of a log's ledger, with one or more messages, column by column. Pure.

::

    0        4     5         6        8        12      16          24        32      36
    | magic  | ver | packing | attri- | crc32c | count | place in  | wall    | body  |
    | "ZKLB" | 1   | 0 1 2   | butes  | of 12..|       | ledger    | ms      | bytes |
    +--------+-----+---------+--------+--------+-------+-----------+---------+-------+
    36   the body, packed
    | length of each payload                                     count times 4 bytes  |
    | attributes of each message       only with KEYED           count times 1 byte   |
    | length of each key               only with KEYED           count times 4 bytes  |
    | number of headers of each        only with HEADED          count times 2 bytes  |
    | length of each header's name     only with HEADED          2 bytes a header     |
    | length of each header's value    only with HEADED          4 bytes a header     |
    | payloads | keys | names | values                           back to back, to end |

All numbers are unsigned and big-endian. *Place* is the number of messages in the ledger before this
batch. A ledger does not know its place in the log, because ledgers may be written in parallel. The
*wall ms* of a batch are never less than those of the batch before it in the ledger; a reader checks
that where it has both. The columns let a reader make a table of all messages without a step for
each message.

A bit of the attributes that this version does not know makes the batch *newer*. The parser then
raises ``UnsupportedError`` and not ``MalformedError``, because no repair is needed but another
program. The same holds for the version, for the packing, and for the attributes of a message. The
parser accepts only what the builder gives, up to the packing: a flag stands there if and only if a
message needs it. ``body bytes`` are those of the unpacked body, at most ``BODY_BYTES_MAX`` whatever
the packing is. No more than that is ever unpacked.
"""

import enum
import struct
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, compress
from operator import attrgetter, not_
from types import NoneType
from typing import Final, TypeAlias

from zonekeeper.log.formats import messages
from zonekeeper.log.formats.messages import BadMessageError, LogMessage
from zonekeeper.metadata.formats.malformed import Flaw, MalformedError, UnsupportedError
from zonekeeper.wire.formats import checksums, entries

MAGIC: Final = b"ZKLB"
VERSION: Final = 1
HEADER_BYTES: Final = 36
#: A batch that is not packed fits into an entry; packing does not let it hold more.
BODY_BYTES_MAX: Final = entries.PAYLOAD_BYTES_MAX - HEADER_BYTES
MESSAGES_MAX: Final = 1 << 16
#: ``0 <= place <= PLACE_MAX`` and ``0 <= wall_ms <= PLACE_MAX``.
PLACE_MAX: Final = (1 << 63) - 1

_START: Final = struct.Struct(">4sBBHI")
_SUMMED: Final = struct.Struct(">IQQI")
_SUMMED_FROM: Final = _START.size
assert _START.size + _SUMMED.size == HEADER_BYTES
#: The bytes of a message beside its data: with a key, and of each header.
_LENGTH_BYTES: Final = 4
_KEY_BYTES: Final = 5
_COUNT_BYTES: Final = 2
#: The bytes of lengths of a header.
HEADER_LENGTHS_BYTES: Final = 6
#: Of a message without headers, at most.
PLAIN_BYTES: Final = _LENGTH_BYTES + _KEY_BYTES + _COUNT_BYTES

#: The type code of offsets.
_INT32: Final = "i"
assert array(_INT32).itemsize == 4  # noqa: PLR2004 32 bits

#: The columns of messages are made by these, without a step of Python for each message.
_PAYLOAD: Final = attrgetter("payload")
_KEY: Final = attrgetter("key")
_HEADERS: Final = attrgetter("headers")
_KEY_KINDS: Final = frozenset({bytes, NoneType})


class Packing(enum.IntEnum):
    """How the body is compressed. The numbers never change."""

    NONE = 0
    ZLIB = 1
    ZSTD = 2


class BatchFlags(enum.IntFlag):
    """The columns that the body has beside the payloads."""

    PLAIN = 0
    KEYED = 1
    HEADED = 2


_KNOWN_FLAGS: Final = int(BatchFlags.KEYED) | int(BatchFlags.HEADED)
#: The only attribute of a message: it has a key.
_HAS_KEY: Final = 1


@dataclass(frozen=True, slots=True)
class Packer:
    """A way to compress. ``unpack`` gives at most the wanted bytes; it raises ``ValueError``."""

    pack: Callable[[bytes], bytes]
    unpack: Callable[[bytes, int], bytes]


#: The ways to compress that this process has. ``NONE`` is not among them.
Packers: TypeAlias = Mapping[Packing, Packer]


@dataclass(frozen=True, slots=True, kw_only=True)
class BytesColumn:
    """The values of one column, back to back: value n is ``data[offsets[n]:offsets[n + 1]]``.

    The offsets are numbers of 32 bits in the order of this machine. So the two buffers are those of
    a binary column of Arrow, which is made of them without an object for each message. ``data`` is
    the batch as it came, or its unpacked body, and all columns share it: nothing is copied.
    """

    offsets: "array[int]"
    data: bytes = field(repr=False)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, at: int) -> bytes:
        if not 0 <= at < len(self):
            raise IndexError(f"value {at} of a column of {len(self)}")
        return self.data[self.offsets[at] : self.offsets[at + 1]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageBatch:
    """A batch that passed the parser."""

    place: int
    wall_ms: int
    packing: Packing
    payloads: BytesColumn
    #: For each message whether it has a key, and the keys; None: no message has one.
    has_key: bytes | None
    keys: BytesColumn | None
    #: The end of each message's headers in the two columns; None: no message has headers.
    header_ends: Sequence[int] | None
    header_names: BytesColumn | None
    header_values: BytesColumn | None

    def __len__(self) -> int:
        return len(self.payloads)

    def message(self, at: int) -> LogMessage:
        """Give one message."""
        key = None
        if self.keys is not None and self.has_key is not None and self.has_key[at] & _HAS_KEY:
            key = self.keys[at]
        return LogMessage(payload=self.payloads[at], key=key, headers=self._headers(at))

    def messages(self) -> list[LogMessage]:
        """Give all messages, in order."""
        return [self.message(at) for at in range(len(self))]

    def _headers(self, at: int) -> tuple[tuple[str, bytes], ...]:
        ends, names, values = self.header_ends, self.header_names, self.header_values
        if ends is None or names is None or values is None:
            return ()
        first = ends[at - 1] if at else 0
        return tuple((names[one].decode(), values[one]) for one in range(first, ends[at]))


def size_bytes(message: LogMessage) -> int:
    """Give the most bytes that a message adds to the body of a batch.

    Raises ``BadMessageError`` for a message that no batch can hold.
    """
    if type(message.payload) is not bytes or type(message.key) not in _KEY_KINDS:
        messages.check_kinds(message)
    size = PLAIN_BYTES + len(message.payload)
    if message.key is not None:
        size += len(message.key)
    if message.headers:
        names = messages.header_names(message)
        size += sum(map(len, names)) + HEADER_LENGTHS_BYTES * len(names)
        size += sum(len(value) for _, value in message.headers)
    if size > BODY_BYTES_MAX:
        raise too_large(size)
    return size


def too_large(size: int) -> BadMessageError:
    """Give the error for a message that no batch can hold."""
    return BadMessageError(
        f"a message of {size} bytes with its key, headers and lengths; the limit is "
        f"{BODY_BYTES_MAX}: split it"
    )


def total_bytes(many: Sequence[LogMessage]) -> int | None:
    """Give the sum of ``size_bytes`` of messages without headers, without a step for each.

    None: one has headers, or is wrong. No limit is checked here: the caller sees by the sum that
    none is broken.
    """
    payloads, keys = list(map(_PAYLOAD, many)), list(map(_KEY, many))
    if any(map(_HEADERS, many)):
        return None
    if set(map(type, payloads)) - {bytes} or not _KEY_KINDS.issuperset(map(type, keys)):
        return None
    lengths = sum(map(len, payloads)) + sum(map(len, filter(None, keys)))
    return PLAIN_BYTES * len(many) + lengths


def build(
    many: Sequence[LogMessage],
    *,
    place: int,
    wall_ms: int,
    packing: Packing = Packing.NONE,
    packers: Packers | None = None,
) -> bytes:
    """Write a batch. The caller keeps to ``MESSAGES_MAX`` and, by ``size_bytes``, to the body's.

    A body that does not become smaller is not packed. Raises ``BadMessageError``.
    """
    flags, parts = _body(many)
    body = b"".join(parts)
    smaller = None
    if packing is not Packing.NONE:
        packed = (packers or {})[packing].pack(body)
        smaller = (packing, packed) if len(packed) < len(body) else None
    return enclosed(flags, body, smaller, count=len(many), place=place, wall_ms=wall_ms)


def enclosed(
    flags: BatchFlags,
    body: bytes,
    packed: tuple[Packing, bytes] | None = None,
    *,
    count: int,
    place: int,
    wall_ms: int,
) -> bytes:
    """Write a batch whose body has the columns of the flags; None: the body is not packed."""
    assert 1 <= count <= MESSAGES_MAX
    assert 0 <= place <= PLACE_MAX - count
    assert 0 <= wall_ms <= PLACE_MAX
    assert len(body) <= BODY_BYTES_MAX
    packing, stored = (Packing.NONE, body) if packed is None else packed
    summed = _SUMMED.pack(count, place, wall_ms, len(body)) + stored
    crc = checksums.value(summed)
    return _START.pack(MAGIC, VERSION, packing, flags, crc) + summed


def moved(raw: bytes, *, place: int, not_before_ms: int) -> tuple[bytes, int, int]:
    """Put a batch behind others in a ledger; give its bytes, its count of messages and its time.

    Raises ``MalformedError`` or ``UnsupportedError`` as ``parse`` does, and looks into no body.
    """
    packing, flags = _check_start(raw)
    count, _, wall_ms, size = _SUMMED.unpack_from(raw, _SUMMED_FROM)
    wall_ms = max(wall_ms, not_before_ms)
    if not 1 <= count <= MESSAGES_MAX or wall_ms > PLACE_MAX:
        raise _bad(Flaw.OUT_OF_RANGE, f"{count} messages, wall ms {wall_ms}")
    assert 0 <= place <= PLACE_MAX - count
    summed = _SUMMED.pack(count, place, wall_ms, size) + raw[HEADER_BYTES:]
    start = _START.pack(MAGIC, VERSION, packing, flags, checksums.value(summed))
    return start + summed, count, wall_ms


def parse(raw: bytes, packers: Packers) -> MessageBatch:
    """Read a batch; raises ``MalformedError``, or ``UnsupportedError`` for a newer one."""
    packing, flags = _check_start(raw)
    count, place, wall_ms, size = _SUMMED.unpack_from(raw, _SUMMED_FROM)
    if not 1 <= count <= MESSAGES_MAX:
        raise _bad(Flaw.OUT_OF_RANGE, f"{count} messages; the limit is {MESSAGES_MAX}")
    if place > PLACE_MAX - count or wall_ms > PLACE_MAX:
        raise _bad(Flaw.OUT_OF_RANGE, f"place {place}, wall ms {wall_ms}")
    if size > BODY_BYTES_MAX:
        raise _bad(Flaw.TOO_LARGE, f"a body of {size} bytes; the limit is {BODY_BYTES_MAX}")
    if packing is Packing.NONE:
        _check_size(len(raw) - HEADER_BYTES, size)
        columns = _Columns(raw, HEADER_BYTES, count)
    else:
        columns = _Columns(_unpacked(raw[HEADER_BYTES:], size, packing, packers), 0, count)
    return columns.batch(flags, place=place, wall_ms=wall_ms, packing=packing)


def _body(many: Sequence[LogMessage]) -> tuple[BatchFlags, list[bytes]]:
    """Give the parts of a body, in order."""
    payloads: list[bytes] = list(map(_PAYLOAD, many))
    lengths, data = [_lengths("I", payloads)], payloads
    flags = BatchFlags.PLAIN
    keys: list[bytes | None] = list(map(_KEY, many))
    if keys.count(None) != len(keys):
        flags |= BatchFlags.KEYED
        filled = [key or b"" for key in keys]
        lengths += [bytes([key is not None for key in keys]), _lengths("I", filled)]
        data = data + filled
    if any(map(_HEADERS, many)):
        flags |= BatchFlags.HEADED
        names = list(chain.from_iterable(map(messages.header_names, many)))
        values = [value for message in many for _, value in message.headers]
        counts = struct.pack(f">{len(many)}H", *[len(message.headers) for message in many])
        lengths += [counts, _lengths("H", names), _lengths("I", values)]
        data = data + names + values
    return flags, lengths + data


def _lengths(code: str, values: Sequence[bytes]) -> bytes:
    return struct.pack(f">{len(values)}{code}", *map(len, values))


def _check_start(raw: bytes) -> tuple[Packing, BatchFlags]:
    """Check everything before the summed bytes, and their sum."""
    if len(raw) < HEADER_BYTES:
        raise _bad(Flaw.TRUNCATED, f"{len(raw)} bytes; a header has {HEADER_BYTES}")
    if len(raw) > entries.PAYLOAD_BYTES_MAX:
        raise _bad(Flaw.TOO_LARGE, f"{len(raw)} bytes; an entry has {entries.PAYLOAD_BYTES_MAX}")
    magic, version, packing, flags, crc = _START.unpack_from(raw)
    if magic != MAGIC:
        raise _bad(Flaw.BAD_HEADER, f"it begins with {magic.hex()}")
    if version != VERSION:
        raise UnsupportedError(f"a batch of version {version}; this program reads {VERSION}")
    if (found := checksums.value(raw[_SUMMED_FROM:])) != crc:
        raise _bad(Flaw.BAD_CHECKSUM, f"{found:08x}, the header says {crc:08x}")
    if flags & ~_KNOWN_FLAGS:
        raise UnsupportedError(f"a batch with attributes {flags:#x}, which a newer program wrote")
    if packing not in list(Packing):
        raise UnsupportedError(f"a batch with packing {packing}, which a newer program wrote")
    return Packing(packing), BatchFlags(flags)


def _unpacked(packed: bytes, size: int, packing: Packing, packers: Packers) -> bytes:
    if packing not in packers:
        raise UnsupportedError(
            f"a batch packed with {packing.name.lower()}, for which this process has no library"
        )
    try:
        body = packers[packing].unpack(packed, size)
    except ValueError as error:
        raise _bad(Flaw.INCONSISTENT, f"its body cannot be unpacked: {error}") from error
    _check_size(len(body), size)
    return body


def _check_size(found: int, size: int) -> None:
    if found != size:
        raise _bad(Flaw.INCONSISTENT, f"a body of {found} bytes; the header says {size}")


class _Columns:
    """Takes the columns of a body, in order. No list is made before its bytes are there."""

    def __init__(self, data: bytes, start: int, count: int) -> None:
        """``data``: the body begins at ``start``, and ends with it."""
        self._data = data
        self._start = start
        self._at = start
        self._count = count

    def batch(
        self, flags: BatchFlags, *, place: int, wall_ms: int, packing: Packing
    ) -> MessageBatch:
        payload_lengths = self._lengths("I", self._count)
        has_key, key_lengths = None, None
        if BatchFlags.KEYED in flags:
            has_key = self._take(self._count)
            key_lengths = self._lengths("I", self._count)
            _check_keys(has_key, key_lengths)
        header_ends, name_lengths, value_lengths = None, None, None
        if BatchFlags.HEADED in flags:
            header_ends = list(accumulate(self._lengths("H", self._count)))
            if not header_ends[-1]:
                raise _bad(Flaw.INCONSISTENT, "it says that it has headers, and has none")
            name_lengths = self._lengths("H", header_ends[-1])
            value_lengths = self._lengths("I", header_ends[-1])
        payloads = self._column(payload_lengths)
        keys = None if key_lengths is None else self._column(key_lengths)
        names = None if name_lengths is None else self._column(name_lengths)
        values = None if value_lengths is None else self._column(value_lengths)
        if self._at != len(self._data):
            raise _bad(Flaw.TRAILING, f"{len(self._data) - self._at} bytes")
        if header_ends is not None and names is not None:
            _check_headers(header_ends, names)
        return MessageBatch(
            place=place,
            wall_ms=wall_ms,
            packing=packing,
            payloads=payloads,
            has_key=has_key,
            keys=keys,
            header_ends=header_ends,
            header_names=names,
            header_values=values,
        )

    def _take(self, size: int) -> bytes:
        first = self._at
        return self._data[first : self._pass(size)]

    def _pass(self, size: int) -> int:
        """Go behind so many bytes; give the place behind them."""
        if self._at + size > len(self._data):
            where = self._at - self._start
            raise _bad(Flaw.TRUNCATED, f"{size} bytes wanted at {where} of its body")
        self._at += size
        return self._at

    def _lengths(self, code: str, count: int) -> tuple[int, ...]:
        width = struct.calcsize(f">{code}")
        return struct.unpack(f">{count}{code}", self._take(width * count))

    def _column(self, lengths: Sequence[int]) -> BytesColumn:
        """Give the next column; what the body cannot have is refused before a sum is kept."""
        first = self._at
        self._pass(sum(lengths))
        offsets = array(_INT32, accumulate(lengths, initial=first))
        return BytesColumn(offsets=offsets, data=self._data)


def _check_keys(has_key: bytes, lengths: Sequence[int]) -> None:
    if newer := set(has_key) - {0, _HAS_KEY}:
        raise UnsupportedError(
            f"a batch with a message of attributes {min(newer):#x}, which a newer program wrote"
        )
    if not any(has_key):
        raise _bad(Flaw.INCONSISTENT, "it says that it has keys, and has none")
    if any(compress(lengths, map(not_, has_key))):
        raise _bad(Flaw.INCONSISTENT, "a message without a key has bytes of one")


def _check_headers(header_ends: Sequence[int], names: BytesColumn) -> None:
    start = 0
    for end in header_ends:
        if end - start > messages.HEADERS_MAX:
            raise _bad(Flaw.TOO_LARGE, f"{end - start} headers of one message")
        start = end
    for at in range(len(names)):
        if len(name := names[at]) > messages.HEADER_NAME_BYTES_MAX:
            raise _bad(Flaw.TOO_LARGE, f"a header's name of {len(name)} bytes")
        try:
            name.decode()
        except UnicodeDecodeError as error:
            raise _bad(Flaw.BAD_TEXT, f"a header's name is not UTF-8: {error}") from error


def _bad(flaw: Flaw, detail: str) -> MalformedError:
    return MalformedError(flaw, f"a batch of a log: {detail}")
