"""An entry as it is stored and sent: Apache BookKeeper's packet, byte for byte.

::

    0              8              16             24             32        32+d
    | ledger       | entry        | last add     | length       | digest  | payload ...
    | id           | id           | confirmed    | (cumulative) | d bytes |

All numbers are signed 64-bit, big-endian. *Last add confirmed* (LAC) is the LAC that the writer
knew when it sent the packet, or -1 if it knew none. *Length* is the number of the ledger's payload
bytes up to and including this entry. The digest covers the header and the payload. It goes from the
writer through any number of bookies to the reader, and each reader checks it.

**The same entry** means: the same ledger, id, length and payload. LAC and digest may differ,
because recovery and repair build the packet again with the LAC that they know. This definition is
only in ``same``; bookies (for a resent entry) and audits (for two replicas) both call it.

With a *LAC packet* a quiet writer tells its LAC: ledger, LAC, and the digest of those 16 bytes.
"""

import enum
import hmac
import struct
from collections.abc import Sequence
from itertools import accumulate, count, repeat
from operator import add, ge, sub
from typing import Final, NamedTuple

from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import NO_ENTRY, EntryId, LedgerId
from zonekeeper.wire.formats import digests
from zonekeeper.wire.formats.errors import WireError

HEADER_BYTES: Final = 32
#: A writer refuses a larger payload.
PAYLOAD_BYTES_MAX: Final = 4 << 20
#: Bookies and readers refuse a larger packet. The limit must be the same for both, because a bookie
#: does not look into packets: otherwise an acknowledged entry could be unreadable.
PACKET_BYTES_MAX: Final = HEADER_BYTES + digests.DIGEST_BYTES_MAX + PAYLOAD_BYTES_MAX

#: Ledger ids and entry ids: ``0 <= id < ID_END``.
ID_END: Final = 1 << 63

_HEADER: Final = struct.Struct(">qqqq")
_LAC_HEADER: Final = struct.Struct(">qq")

LAC_PACKET_BYTES_MIN: Final = _LAC_HEADER.size
LAC_PACKET_BYTES_MAX: Final = _LAC_HEADER.size + digests.DIGEST_BYTES_MAX


class PacketHeader(NamedTuple):
    """The numbers of a packet. They are not checked: only ``Sealer.open`` checks the digest.

    It is a tuple, like ``Entry``, because there is one for each entry, and to make a frozen
    dataclass costs three times as much.
    """

    ledger_id: LedgerId
    entry_id: EntryId
    last_add_confirmed: EntryId
    length: int


class Entry(NamedTuple):
    """A packet that passed the check."""

    ledger_id: LedgerId
    entry_id: EntryId
    last_add_confirmed: EntryId
    length: int
    payload: bytes


class EntryFault(enum.Enum):
    """The field of a packet that is wrong."""

    TRUNCATED = "is shorter than its header and digest"
    OVERSIZED = "is larger than the limit"
    DIGEST = "has a digest that does not match: it was damaged, or has another password"
    LEDGER = "is of another ledger"
    ENTRY = "is another entry"
    LAC = "has an impossible last add confirmed"
    LENGTH = "has a length that cannot be"


class EntryError(WireError):
    """A copy of an entry must not be used: ask another bookie, and repair this copy."""

    def __init__(
        self, fault: EntryFault, ledger_id: LedgerId, entry_id: EntryId | None, detail: str
    ) -> None:
        what = "a LAC packet" if entry_id is None else f"entry {entry_id}"
        super().__init__(f"{what} of ledger {ledger_id} {fault.value}: {detail}")
        self.fault = fault
        self.ledger_id = ledger_id
        #: The entry that the caller asked for; None for a LAC packet.
        self.entry_id = entry_id


def header(packet: bytes | memoryview) -> PacketHeader:
    """Read the numbers of a packet of at least ``HEADER_BYTES``; they are not checked."""
    ledger_id, entry_id, confirmed, length = _HEADER.unpack_from(packet)
    return PacketHeader(LedgerId(ledger_id), EntryId(entry_id), EntryId(confirmed), length)


def same(one: bytes | memoryview, other: bytes | memoryview, digest: Digest) -> bool:
    """Are these packets the same entry, whatever their LAC and digest?"""
    start = HEADER_BYTES + digests.digest_bytes(digest)
    return len(one) == len(other) and all(
        bytes(one[part]) == bytes(other[part])  # a memoryview compares byte by byte
        for part in (slice(0, 16), slice(24, 32), slice(start, None))
    )


class Sealer:
    """Builds and checks the packets of one ledger; it has the ledger's digest and password."""

    __slots__ = ("_digester", "ledger_id", "overhead_bytes")

    def __init__(self, ledger_id: LedgerId, digest: Digest, password: bytes) -> None:
        assert 0 <= ledger_id < ID_END
        self.ledger_id = ledger_id
        self._digester = digests.digester(digest, password)
        #: The size of header and digest, which come before the payload.
        self.overhead_bytes: Final = HEADER_BYTES + self._digester.size_bytes

    def prefixes(
        self, first: EntryId, confirmed: EntryId, length_before: int, payloads: Sequence[bytes]
    ) -> list[bytes]:
        """Give header and digest, which come before the payload, of consecutive entries.

        ``length_before`` is the ledger's length before the first of them. Payloads are ``bytes``,
        because a payload must not change between its digest and its sending.
        """
        assert 0 <= first <= ID_END - len(payloads)
        assert NO_ENTRY <= confirmed < first
        assert max(map(len, payloads), default=0) <= PAYLOAD_BYTES_MAX
        lengths = accumulate(map(len, payloads), initial=length_before)
        next(lengths)  # before the first
        heads = list(
            map(_HEADER.pack, repeat(self.ledger_id), count(first), repeat(confirmed), lengths)
        )
        return list(map(add, heads, self._digester.digests(heads, payloads)))

    def seal(self, entry_id: EntryId, confirmed: EntryId, length: int, payload: bytes) -> bytes:
        """Build one packet; ``length`` includes this entry.

        A repair may know a LAC beyond the entry; a writer cannot.
        """
        assert 0 <= entry_id < ID_END
        assert confirmed >= NO_ENTRY
        assert len(payload) <= min(length, PAYLOAD_BYTES_MAX)
        head = _HEADER.pack(self.ledger_id, entry_id, confirmed, length)
        return head + self._digester.digest(head, payload) + payload

    def open(self, packet: bytes | memoryview, entry_id: EntryId) -> Entry:
        """Check that a packet is this entry, and give the entry; raises ``EntryError``."""
        return self.open_all(bytes(packet), (entry_id,), (len(packet),))[0]

    def open_all(
        self, packets: bytes, entry_ids: Sequence[EntryId], ends: Sequence[int]
    ) -> list[Entry]:
        """Check packets that stand back to back, and give their entries.

        Raises ``EntryError`` for the first packet that is not the entry it should be. DUMMY has no
        digest, so damage to a payload is not noticed.
        """
        overhead, starts = self.overhead_bytes, [0, *ends[:-1]]
        sizes = list(map(sub, ends, starts))
        if min(sizes) < overhead or max(sizes) > PACKET_BYTES_MAX:
            raise self._first_bad(packets, entry_ids, ends)
        # One field of all entries at a time, and few objects: here most of a reader's time is
        # spent.
        heads = [packets[at : at + HEADER_BYTES] for at in starts]
        given = [packets[at + HEADER_BYTES : at + overhead] for at in starts]
        payloads = [packets[at + overhead : end] for at, end in zip(starts, ends, strict=True)]
        found = b"".join(self._digester.digests(heads, payloads))
        numbers = struct.unpack(f">{4 * len(heads)}q", b"".join(heads))
        ledgers, ids, confirmed, lengths = (numbers[at::4] for at in range(4))
        if not (
            hmac.compare_digest(b"".join(given), found)
            and ledgers.count(self.ledger_id) == len(heads)
            and ids == tuple(entry_ids)
            and min(confirmed) >= NO_ENTRY
            and all(map(ge, lengths, map(len, payloads)))
        ):
            raise self._first_bad(packets, entry_ids, ends)
        rows = zip(ledgers, ids, confirmed, lengths, payloads, strict=True)
        return list(map(tuple.__new__, repeat(Entry), rows))

    def _first_bad(
        self, packets: bytes, entry_ids: Sequence[EntryId], ends: Sequence[int]
    ) -> EntryError:
        """Give the error of the first packet that is not the entry it should be."""
        for entry_id, start, end in zip(entry_ids, [0, *ends[:-1]], ends, strict=True):
            if (error := self._diagnose(packets[start:end], entry_id)) is not None:
                return error
        raise AssertionError("every packet is good")

    def _diagnose(self, packet: bytes, entry_id: EntryId) -> EntryError | None:
        """Give the wrong field of a packet; the digest goes before the numbers that it covers."""
        body = self.overhead_bytes
        if len(packet) < body:
            detail = f"{len(packet)} bytes, header and digest have {body}"
            return EntryError(EntryFault.TRUNCATED, self.ledger_id, entry_id, detail)
        found = header(packet)
        expected = self._digester.digest(packet[:HEADER_BYTES], packet[body:])
        if len(packet) > PACKET_BYTES_MAX:
            fault = EntryFault.OVERSIZED
        elif packet[HEADER_BYTES:body] != expected:
            fault = EntryFault.DIGEST
        elif found.ledger_id != self.ledger_id:
            fault = EntryFault.LEDGER
        elif found.entry_id != entry_id:
            fault = EntryFault.ENTRY
        elif found.last_add_confirmed < NO_ENTRY:
            fault = EntryFault.LAC
        elif found.length < len(packet) - body:
            fault = EntryFault.LENGTH
        else:
            return None
        return EntryError(fault, self.ledger_id, entry_id, f"{len(packet)} bytes, {found}")

    def seal_lac(self, confirmed: EntryId) -> bytes:
        """Build a LAC packet."""
        assert confirmed >= NO_ENTRY
        head = _LAC_HEADER.pack(self.ledger_id, confirmed)
        return head + self._digester.digest(head, b"")

    def open_lac(self, packet: bytes) -> EntryId:
        """Check a LAC packet and give the LAC; raises ``EntryError``."""
        size = _LAC_HEADER.size + self._digester.size_bytes
        if len(packet) != size:
            fault = EntryFault.TRUNCATED if len(packet) < size else EntryFault.OVERSIZED
            raise EntryError(fault, self.ledger_id, None, f"{len(packet)} of {size} bytes")
        head = packet[: _LAC_HEADER.size]
        ledger, confirmed = _LAC_HEADER.unpack(head)
        if not hmac.compare_digest(packet[len(head) :], self._digester.digest(head, b"")):
            fault = EntryFault.DIGEST
        elif ledger != self.ledger_id:
            fault = EntryFault.LEDGER
        elif confirmed < NO_ENTRY:
            fault = EntryFault.LAC
        else:
            return EntryId(confirmed)
        detail = f"it says ledger {ledger}, LAC {confirmed}"
        raise EntryError(fault, self.ledger_id, None, detail)
