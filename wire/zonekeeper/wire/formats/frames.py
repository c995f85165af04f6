"""A frame: some entries of one ledger, the unit of the wire, the journal, the index and the ack.

::

    0        4     5       8          12       16          24          32       36       40
    | magic  | ver | zero  | crc32c   | size   | ledger    | first     | count  | flags  |
    | "ZKFR" | 1   | 0 0 0 | of 12..  | bytes  | id        | entry id  |        |        |
    +--------+-----+-------+----------+--------+-----------+-----------+--------+--------+
    40
    | length of packet 0     | length of packet 1     | ...         count times 4 bytes  |
    +------------------------+------------------------+----------------------------------+
    40 + 4 * count                                      only with the flag LISTED
    | id of packet 0 - first | id of packet 1 - first | ...         count times 4 bytes  |
    +------------------------+------------------------+----------------------------------+
    | packet 0 | packet 1 | ...                         Apache's, back to back, to end  |

All numbers are unsigned and big-endian, as in the packets. ``size`` is the size of the whole frame.
The crc32c covers everything from byte 12 on, so that a change of any bit is noticed. The ids are
``first, first + 1, ...``, or those of the id table (with E > Qw a bookie gets only some of the
entries). These constants never change; another layout is another version.

A frame in memory has two pieces: ``head`` (header and tables) and ``packets``. So a payload is
copied into the frame once and summed once. From there it goes into the journal's vectored write and
into carriers without another copy. The receiver copies both pieces out of the received bytes,
because a frame that is kept must not keep a whole carrier, or a mapped segment, in memory.

The parser accepts only what a builder gives. Each frame has one spelling (consecutive ids are never
listed). Reserved bits are zero, no byte is left over, and every packet's own header agrees with the
tables. The parser checks a size before it allocates memory for it, and never allocates more than a
few times the size of the received bytes. It does not check digests: see ``entries.Sealer``.
"""

import enum
import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, compress, islice, pairwise, repeat
from operator import eq, lt, ne, sub
from typing import Final, cast

from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.formats import checksums, entries
from zonekeeper.wire.formats.errors import Fault
from zonekeeper.wire.formats.headers import SUMMED_FROM, HeaderStart

MAGIC: Final = b"ZKFR"
VERSION: Final = 1
HEADER_BYTES: Final = 40

#: The bytes of an entry in the tables: its length, and with LISTED its id.
LENGTH_BYTES: Final = 4
LISTED_ID_BYTES: Final = 4

ENTRIES_MAX: Final = 1 << 16
#: In one frame ``last - first <= LISTED_SPAN_MAX``.
LISTED_SPAN_MAX: Final = (1 << 32) - 1
#: 64 bytes under the limit of a carrier, so that every frame fits into one.
FRAME_BYTES_MAX: Final = (8 << 20) - 64

_START: Final = HeaderStart(what="frame", magic=MAGIC, version=VERSION, header_bytes=HEADER_BYTES)
_U32: Final = struct.Struct(">I")
_AFTER_CRC: Final = struct.Struct(">IqqII")
_PACKET_START: Final = struct.Struct(">qq")


class Flags(enum.IntFlag):
    """The requests of a frame to a bookie. Other bits of the field are zero, except ``_LISTED``."""

    PLAIN = 0
    #: The frame was written by recovery; it is allowed on a fenced ledger.
    RECOVERY = 2
    #: The frame may be acknowledged before it is durable; ``force`` makes it durable.
    DEFERRED_SYNC = 4


#: There is an id table. It is not one of ``Flags``, because it follows from the ids.
_LISTED: Final = 1
#: A plain number, because the complement of an ``IntFlag`` has no unknown bits.
_KNOWN_FLAGS: Final = _LISTED | int(Flags.RECOVERY) | int(Flags.DEFERRED_SYNC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A frame that was built here, or passed the parser. Two are equal if their bytes are equal."""

    ledger_id: LedgerId = field(compare=False)
    #: Ascending; a ``range`` if and only if they are consecutive.
    entry_ids: Sequence[EntryId] = field(compare=False)
    flags: Flags = field(compare=False)
    #: The end of each packet in ``packets``.
    ends: Sequence[int] = field(compare=False, repr=False)
    head: bytes = field(repr=False)
    packets: bytes = field(repr=False)

    def __len__(self) -> int:
        return len(self.entry_ids)

    def __iter__(self) -> Iterator[tuple[EntryId, memoryview]]:
        """Give the id and packet of each entry, without copying."""
        view, start = memoryview(self.packets), 0
        for entry_id, end in zip(self.entry_ids, self.ends, strict=True):
            yield entry_id, view[start:end]
            start = end

    @property
    def first(self) -> EntryId:
        """The lowest entry id."""
        return self.entry_ids[0]

    @property
    def last(self) -> EntryId:
        """The highest entry id."""
        return self.entry_ids[-1]

    @property
    def last_add_confirmed(self) -> EntryId:
        """The LAC that the writer knew when it sent the last packet."""
        return entries.header(memoryview(self.packets)[self._start(-1) :]).last_add_confirmed

    @property
    def size_bytes(self) -> int:
        """The size of the whole frame."""
        return len(self.head) + len(self.packets)

    def data(self) -> bytes:
        """Give a copy of the frame in one piece."""
        return self.head + self.packets

    def packet(self, entry_id: EntryId) -> memoryview | None:
        """Give the packet of one entry, without copying; None if it is not in this frame."""
        at = bisect_left(self.entry_ids, entry_id)
        if at == len(self) or self.entry_ids[at] != entry_id:
            return None
        return memoryview(self.packets)[self._start(at) : self.ends[at]]

    def between(self, first: EntryId, last: EntryId) -> "Frame | None":
        """Give the frame of the entries from ``first`` to ``last``; None if there is no entry."""
        low, high = bisect_left(self.entry_ids, first), bisect_right(self.entry_ids, last)
        if low >= high:
            return None
        if high - low == len(self):
            return self
        start = self._start(low)
        ends = [end - start for end in self.ends[low:high]]
        packets = self.packets[start : self.ends[high - 1]]
        return _assemble(self.ledger_id, self.entry_ids[low:high], ends, packets, self.flags)

    def subset(self, wanted: Container[int]) -> "Frame | None":
        """Give the frame of the entries that are in ``wanted``; None if there is no entry."""
        # With E > Qw this runs for every entry, so no step of Python is done for each entry.
        kept = list(map(wanted.__contains__, self.entry_ids))
        if not any(kept) or all(kept):
            return self if all(kept) else None
        lengths = compress(map(sub, self.ends, chain((0,), self.ends)), kept)
        # The kept entries lie in runs: ``kept`` changes where a run begins or ends.
        changes = map(ne, chain((False,), kept), chain(kept, (False,)))
        edges, view = compress(chain((0,), self.ends), changes), memoryview(self.packets)
        packets = b"".join([view[start:end] for start, end in zip(edges, edges, strict=True)])
        ids = list(compress(self.entry_ids, kept))
        return _assemble(self.ledger_id, ids, list(accumulate(lengths)), packets, self.flags)

    def _start(self, at: int) -> int:
        at %= len(self)
        return self.ends[at - 1] if at else 0


def seal(
    sealer: entries.Sealer,
    first: EntryId,
    confirmed: EntryId,
    length_before: int,
    payloads: Sequence[bytes],
    flags: Flags = Flags.PLAIN,
) -> Frame:
    """Build the frame of consecutive new entries; for the arguments see ``Sealer.prefixes``."""
    count, overhead = len(payloads), sealer.overhead_bytes
    parts = [b""] * (2 * count)
    parts[0::2] = sealer.prefixes(first, confirmed, length_before, payloads)
    parts[1::2] = payloads
    ends = list(accumulate([overhead + len(payload) for payload in payloads]))
    ids = _consecutive(first, count)
    return _assemble(sealer.ledger_id, ids, ends, b"".join(parts), flags)


def unseal(sealer: entries.Sealer, frame: Frame) -> list[entries.Entry]:
    """Check every entry of a frame, and give all; raises ``EntryError`` for the first bad one."""
    return sealer.open_all(frame.packets, frame.entry_ids, frame.ends)


def build(
    ledger_id: LedgerId,
    entry_ids: Sequence[EntryId],
    packets: Sequence[bytes | memoryview],
    flags: Flags = Flags.PLAIN,
) -> Frame:
    """Build a frame of existing packets; these have the given ids, which ascend.

    The caller must keep to ``ENTRIES_MAX``, ``LISTED_SPAN_MAX`` and ``FRAME_BYTES_MAX``.
    """
    assert len(entry_ids) == len(packets)
    assert _ascend(entry_ids)
    ends = list(accumulate(map(len, packets)))
    return _assemble(ledger_id, entry_ids, ends, b"".join(packets), flags)


def measure(data: bytes | memoryview) -> int:
    """Give the size of the frame that begins here, so that it can be cut out and parsed.

    Raises ``FormatError`` if no frame of this version begins here, or the frame is not complete.
    """
    _START.check(data)
    (size,) = _U32.unpack_from(data, SUMMED_FROM)
    if size > FRAME_BYTES_MAX:
        raise _START.bad(Fault.OVERSIZED, f"{size} bytes, the limit is {FRAME_BYTES_MAX}")
    if size < HEADER_BYTES:
        raise _START.bad(Fault.LENGTH, f"{size} bytes, a header has {HEADER_BYTES}")
    if size > len(data):
        raise _START.bad(Fault.TRUNCATED, f"{len(data)} of {size} bytes")
    return int(size)


def parse(data: bytes | memoryview) -> Frame:
    """Check exactly one frame, and give it; raises ``FormatError``."""
    frame = parse_again(data)
    _check_packets(frame)
    return frame


def parse_again(data: bytes | memoryview) -> Frame:
    """Give a frame that has passed ``parse`` and was stored; raises ``FormatError``.

    The checksum shows that it is the stored frame, so its packets are not checked again. A bookie
    that serves many readers should not pay for each entry.
    """
    size = measure(data)
    if size < len(data):
        raise _START.bad(Fault.TRAILING, f"{len(data) - size} bytes")
    _, ledger, first, count, flags = _AFTER_CRC.unpack_from(data, SUMMED_FROM)
    tables = (LENGTH_BYTES + (LISTED_ID_BYTES if flags & _LISTED else 0)) * count
    # The two pieces are divided where the tables end by this count. The count is checked only after
    # the checksum, which is the same wherever the pieces are divided.
    cut = min(HEADER_BYTES + tables, size)
    head, packets = bytes(data[:cut]), bytes(data[cut:])
    expected = _START.crc(head)
    if (found := checksums.extend(checksums.value(head[SUMMED_FROM:]), packets)) != expected:
        raise _START.bad(Fault.CHECKSUM, f"{found:08x}, the header says {expected:08x}")
    if flags & ~_KNOWN_FLAGS:
        raise _START.bad(Fault.RESERVED, f"flags {flags:#x}")
    if not 1 <= count <= ENTRIES_MAX:
        raise _START.bad(Fault.COUNT, f"{count} entries, the limit is {ENTRIES_MAX}")
    if ledger < 0 or first < 0:
        raise _START.bad(Fault.RANGE, f"ledger {ledger}, first entry {first}")
    ends = _parse_lengths(head, count, packets)
    ids = _parse_ids(head, first, count) if flags & _LISTED else _consecutive(first, count)
    if ids[-1] >= entries.ID_END:
        raise _START.bad(Fault.RANGE, f"last entry {ids[-1]}")
    return Frame(
        ledger_id=LedgerId(ledger),
        entry_ids=ids,
        flags=Flags(flags & ~_LISTED),
        ends=array("I", ends),
        head=head,
        packets=packets,
    )


def _assemble(
    ledger_id: LedgerId,
    entry_ids: Sequence[EntryId],
    ends: Sequence[int],
    packets: bytes,
    flags: Flags,
) -> Frame:
    """Give the frame of these packets, with its head."""
    first, count = entry_ids[0], len(entry_ids)
    assert 1 <= count <= ENTRIES_MAX
    assert 0 <= first <= entry_ids[-1] < entries.ID_END
    listed = entry_ids[-1] - first != count - 1
    assert entry_ids[-1] - first <= LISTED_SPAN_MAX
    lengths = list(map(sub, ends, chain((0,), ends)))
    assert min(lengths) >= entries.HEADER_BYTES
    assert max(lengths) <= entries.PACKET_BYTES_MAX
    tables = struct.pack(f">{count}I", *lengths)
    if listed:
        tables += struct.pack(f">{count}I", *[entry_id - first for entry_id in entry_ids])
    size = HEADER_BYTES + len(tables) + len(packets)
    assert size <= FRAME_BYTES_MAX
    summed = _AFTER_CRC.pack(size, ledger_id, first, count, int(flags) | listed) + tables
    crc = checksums.extend(checksums.value(summed), packets)
    return Frame(
        ledger_id=ledger_id,
        entry_ids=tuple(entry_ids) if listed else _consecutive(first, count),
        flags=flags,
        ends=array("I", ends),
        head=_START.render(crc) + summed,
        packets=packets,
    )


def _ascend(numbers: Sequence[int]) -> bool:
    return all(map(lt, numbers, islice(numbers, 1, None)))


def _consecutive(first: EntryId, count: int) -> Sequence[EntryId]:
    return cast(Sequence[EntryId], range(first, first + count))


def _parse_lengths(head: bytes, count: int, packets: bytes) -> list[int]:
    """Give the end of each packet."""
    if len(head) < HEADER_BYTES + LENGTH_BYTES * count:
        raise _START.bad(Fault.LENGTH, f"{count} entries do not fit in")
    lengths = struct.unpack_from(f">{count}I", head, HEADER_BYTES)
    if min(lengths) < entries.HEADER_BYTES or max(lengths) > entries.PACKET_BYTES_MAX:
        raise _START.bad(Fault.LENGTH, f"packets of {min(lengths)} to {max(lengths)} bytes")
    if sum(lengths) != len(packets):
        raise _START.bad(Fault.LENGTH, f"{sum(lengths)} bytes of packets, {len(packets)} are here")
    return list(accumulate(lengths))


def _parse_ids(head: bytes, first: int, count: int) -> Sequence[EntryId]:
    steps = struct.unpack_from(f">{count}I", head, HEADER_BYTES + LENGTH_BYTES * count)
    if steps[0]:
        raise _START.bad(Fault.RANGE, f"first entry {first} is listed as {first + steps[0]}")
    if not _ascend(steps):
        before, after = next(
            (before, after) for before, after in pairwise(steps) if before >= after
        )
        if before == after:
            raise _START.bad(Fault.DUPLICATE, f"entry {first + after}")
        raise _START.bad(Fault.DESCENDING, f"entry {first + after} after {first + before}")
    if steps[-1] == count - 1:
        raise _START.bad(Fault.NOT_CANONICAL, "consecutive entries are listed")
    return cast(Sequence[EntryId], tuple(map(first.__add__, steps)))


def _check_packets(frame: Frame) -> None:
    """Check that each packet's own header names the ledger and entry that the frame says.

    A bookie stores entries under the ids of the frame, and a reader believes the packet. So they
    must agree.
    """
    unpack = _PACKET_START.unpack_from
    # Both sides are lazy, because two lists would take ten times the memory of the frame. The pairs
    # are the first argument, so that ``map`` ends before it reads a start after the last packet.
    expected = zip(repeat(frame.ledger_id), frame.entry_ids)
    found = map(unpack, repeat(frame.packets), chain((0,), frame.ends))
    if not all(map(eq, expected, found)):
        raise _START.bad(Fault.PACKET, _first_stranger(frame))


def _first_stranger(frame: Frame) -> str:
    for entry_id, packet in frame:
        found = _PACKET_START.unpack_from(packet)
        if found != (frame.ledger_id, entry_id):
            there = "ledger {} entry {}".format(*found)
            return f"{there} in the place of {frame.ledger_id} {entry_id}"
    raise AssertionError("every packet agrees")
