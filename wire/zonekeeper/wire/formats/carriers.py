"""A carrier: one message of a stream, with frames of any number of ledgers and small items.

::

    0        4     5       8           12       16       20        24
    | magic  | ver | zero  | crc32c of | size   | items  | frames  | item | item | ...
    | "ZKCR" | 3   | 0 0 0 | 12..frames| bytes  |        | begin at|      |      |
    +--------+-----+-------+-----------+--------+--------+---------+------+------+----
    | frame | frame | ...       those of the items, in their order, back to back, to the end |

    an item
    0      1       2      4      8         16
    | kind | flags | tail | word | number  | fixed part of its kind | tail ... |

All numbers are big-endian. The items are all before the frames. So the carrier's crc32c covers
everything but the frames, which have their own crc32c, and a payload is summed once. The sender
chooses ``number``: it names an append or a read on this stream, and the answer repeats it. The
other fields of each kind of item::

    kind            flags        word       fixed part                            tail
    1 Append        -            -          -                        + 1 frame    -
    2 WriteLac      -            -          ledger                                LAC packet
    3 Hello         -            -          boot epoch                            nonce
    4 Acked         -            -          last number                           -
    5 Refused       -            error      -                                     detail, UTF-8
    6 Read          1: proven    max bytes  ledger, first, last, step             key, token
                    2: fences
    7 ReadReply     1: has LAC   frames     next entry, LAC        + word frames  -
    8 Open          1: was open  -          -                                     ``openings``
                    2: proven

A read's tail is the ledger's master key, if it fences, and the create token, if that is known. What
is *proven* has a proof (``proofs``) in place of the master key, and 2 says whether the read fences.
As for frames, each carrier has one spelling, and reserved fields are zero. Memory is allocated only
for sizes that were checked before. These constants never change. Another layout, or another kind of
item, is another version. (Version 1 had no ``Open``. Version 2 had no create tokens, and its
``Open`` had no flag. Both are out of use.)

Both sides of a stream agree on a version of the wire first (``versions``). Version 3 of carriers
is version 1 of the wire, and from there on both count alike. Version 1 of the wire has no nonce,
and nothing is proven there.
"""

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, TypeAlias, assert_never

from zonekeeper.placement.base.ids import NO_ENTRY, EntryId, LedgerId
from zonekeeper.wire.formats import checksums, entries, openings, proofs
from zonekeeper.wire.formats.carrier_parts import ITEM, CarrierFrames, ItemKind, RawItem, checked_id
from zonekeeper.wire.formats.carrier_parts import START as _START
from zonekeeper.wire.formats.digests import MASTER_KEY_BYTES, MasterKey
from zonekeeper.wire.formats.errors import Fault, OwnerJudge
from zonekeeper.wire.formats.frames import Frame
from zonekeeper.wire.formats.headers import SUMMED_FROM
from zonekeeper.wire.formats.openings import FragmentOpening
from zonekeeper.wire.formats.proofs import ShownProof

MAGIC: Final = _START.magic
VERSION: Final = _START.version
HEADER_BYTES: Final = _START.header_bytes

#: A sender stops adding items to a carrier at this size ...
CARRIER_BYTES_AIM: Final = 1 << 20
#: ... or appends at this size: smaller messages would cost more in a flood of appends.
APPENDS_BYTES_AIM: Final = 4 << 20
#: A receiver refuses a carrier that is larger than this.
CARRIER_BYTES_MAX: Final = 8 << 20
#: The number of items of the smallest size that fill a carrier up to the aim.
ITEMS_MAX: Final = CARRIER_BYTES_AIM // 16
#: The greatest number of requests in one ``Acked``, so that they can be counted through.
ACKED_MAX: Final = ITEMS_MAX
#: The greatest size of the text of a ``Refused``, in UTF-8; a longer text is cut.
DETAIL_BYTES_MAX: Final = 1 << 10

_AFTER_CRC: Final = struct.Struct(">III")

_ONE: Final = struct.Struct(">Q")
_READ: Final = struct.Struct(">QQQQ")
_READ_TAILS: Final = tuple(
    key + token for key in (0, MASTER_KEY_BYTES) for token in (0, openings.TOKEN_BYTES)
)
_REPLY: Final = struct.Struct(">Qq")
_HAS_LAC: Final = 1
_WAS_OPEN: Final = 1
_OPEN_PROVEN: Final = 2
_READ_PROVEN: Final = 1
_FENCES: Final = 2
#: The first version of the wire in which keys are proven.
PROVING: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """To the bookie: a fragment begins. Once acknowledged, its ledger may be written here."""

    number: int
    opening: FragmentOpening
    #: Had this writer the ledger open on this bookie before? A bookie that does not know the ledger
    #: any more then answers ``LedgerDeleted``.
    was_open: bool = False
    #: A proof stands in the opening in place of the master key.
    proven: bool = False
    #: At the bookie's host: that proof, with what it must have been made of. It never travels.
    shown: ShownProof | None = field(default=None, compare=False, repr=False)
    #: At the bookie's host: what decides once the ledger's owner is known. It never travels.
    judge: OwnerJudge | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """To the bookie: make this frame durable. The numbers on a stream ascend."""

    number: int
    frame: Frame


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteLac:
    """To the bookie: the LAC of a quiet writer. It is numbered and acknowledged like an append."""

    number: int
    ledger_id: LedgerId
    #: The packet that ``entries.Sealer.seal_lac`` builds.
    packet: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """From the bookie, first on a stream: the bookie's boot epoch. Its number is 0."""

    boot_epoch: int
    #: The stream's nonce, for proofs; None in the first version of the wire.
    nonce: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Acked:
    """From the bookie: these requests are durable: ``0 <= last - number < ACKED_MAX``."""

    number: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """From the bookie: this request is not done, and why (see ``errors.from_number``)."""

    number: int
    code: int
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """To the bookie: send the entries ``first, first + step, ...`` up to ``last`` that you have.

    With E > Qw a reader asks each bookie only for its share: ``step`` is then E.
    """

    number: int
    ledger_id: LedgerId
    first: EntryId
    last: EntryId
    step: int = 1
    #: The approximate limit for packets; the first entry is sent whatever its size.
    max_bytes: int
    #: The master key, if this read fences the ledger; every read of a recovery must do so.
    fence_key: MasterKey | None = field(default=None, repr=False)
    #: The create token of the ledger; 0: not known.
    create_token: int = 0
    #: In place of a key: the proof of the key, and whether the read fences.
    proof: bytes | None = field(default=None, repr=False)
    fences: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAnswer:
    """From the bookie: the one answer to a read that was not refused.

    The answer covers the requested entries *before* ``next_entry``. If one of them is in no frame
    here, the bookie does not have it and never acknowledged it (``NoSuchEntry``). The answer says
    nothing about later entries: ask again from ``next_entry``. A bookie that is not certain about
    an entry stops before it. If nothing is left to answer, it refuses (``LimboLedger``,
    ``IoFailed``).
    """

    number: int
    next_entry: EntryId
    #: The LAC that the bookie knows; None if it does not say (a fencing read).
    last_add_confirmed: EntryId | None
    frames: tuple[Frame, ...] = ()


#: The items that a bookie gets on an Append stream: their numbers ascend; each is answered once.
Request: TypeAlias = Open | Append | WriteLac
Item: TypeAlias = Request | Hello | Acked | Refused | Read | ReadAnswer


def size_of(item: Item) -> int:
    """Give the bytes of an item with its frames in a carrier, without ``HEADER_BYTES``."""
    return len(_encode(item)) + sum(frame.size_bytes for frame in _frames_of(item))


def build(items: Iterable[Item], wire_version: int = 1) -> bytes:
    """Build the carrier of at least one item; each payload is copied once.

    The sender must keep it under ``CARRIER_BYTES_MAX`` (see ``size_of``). Any single frame fits.
    """
    encoded: list[bytes] = []
    parts: list[bytes] = []
    for item in items:
        assert wire_version >= PROVING or not _is_proving(item)
        encoded.append(_encode(item))
        for frame in _frames_of(item):
            parts += (frame.head, frame.packets)
    assert 1 <= len(encoded) <= ITEMS_MAX
    control = b"".join(encoded)
    frames_at = HEADER_BYTES + len(control)
    size = frames_at + sum(map(len, parts))
    assert size <= CARRIER_BYTES_MAX
    summed = _AFTER_CRC.pack(size, len(encoded), frames_at) + control
    before = _START.render(checksums.value(summed), later=wire_version - 1)
    return b"".join((before, summed, *parts))


def parse(data: bytes | bytearray, wire_version: int = 1) -> tuple[Item, ...]:
    """Check a carrier and all its frames, and give its items; raises ``FormatError``.

    If anything in a carrier is wrong, nothing of it is used. The items share no memory with it.
    """
    count, frames_at = _parse_header(data, wire_version)
    source = CarrierFrames(memoryview(data), frames_at)
    result, at = [], HEADER_BYTES
    for _ in range(count):
        item, at = _parse_item(data, at, frames_at, source)
        if wire_version < PROVING and _is_proving(item):
            raise _START.bad(Fault.RESERVED, f"a nonce or a proof in wire version {wire_version}")
        result.append(item)
    if at != frames_at:
        raise _START.bad(Fault.TRAILING, f"{frames_at - at} bytes after the items")
    source.end()
    return tuple(result)


def _parse_header(data: bytes | bytearray, wire_version: int) -> tuple[int, int]:
    """Check the header and the checksum; give the number of items and where they end."""
    _START.check(data, later=wire_version - 1)
    size, count, frames_at = _AFTER_CRC.unpack_from(data, SUMMED_FROM)
    if max(size, len(data)) > CARRIER_BYTES_MAX:
        raise _START.bad(Fault.OVERSIZED, f"{size} bytes, the limit is {CARRIER_BYTES_MAX}")
    if size > len(data):
        raise _START.bad(Fault.TRUNCATED, f"{len(data)} of {size} bytes")
    if size < len(data):
        raise _START.bad(Fault.TRAILING, f"{len(data) - size} bytes")
    if not HEADER_BYTES <= frames_at <= size:
        raise _START.bad(Fault.LENGTH, f"frames begin at {frames_at} of {size}")
    expected = _START.crc(data)
    if (found := checksums.value(bytes(data[SUMMED_FROM:frames_at]))) != expected:
        raise _START.bad(Fault.CHECKSUM, f"{found:08x}, the header says {expected:08x}")
    if not 1 <= count <= ITEMS_MAX:
        raise _START.bad(Fault.COUNT, f"{count} items, the limit is {ITEMS_MAX}")
    return count, frames_at


def _is_proving(item: Item) -> bool:
    """Has an item what the first version of the wire does not have?"""
    match item:
        case Open():
            return item.proven
        case Hello():
            return item.nonce is not None
        case Read():
            return item.proof is not None
        case _:
            return False


def _frames_of(item: Item) -> tuple[Frame, ...]:
    match item:
        case Append():
            return (item.frame,)
        case ReadAnswer():
            return item.frames
        case _:
            return ()


def _encode(item: Item) -> bytes:
    """Give the bytes of the item without its frames."""
    match item:
        case Append():
            raw = RawItem(ItemKind.APPEND, item.number)
        case Open():
            flags = (_WAS_OPEN if item.was_open else 0) | (_OPEN_PROVEN if item.proven else 0)
            raw = RawItem(
                ItemKind.OPEN, item.number, flags=flags, tail=openings.spell(item.opening)
            )
        case WriteLac():
            ledger = _ONE.pack(item.ledger_id)
            assert item.packet.startswith(ledger)
            raw = RawItem(ItemKind.WRITE_LAC, item.number, fixed=ledger, tail=item.packet)
        case Hello():
            raw = RawItem(
                ItemKind.HELLO, 0, fixed=_ONE.pack(item.boot_epoch), tail=item.nonce or b""
            )
        case Acked():
            assert 0 <= item.last - item.number < ACKED_MAX
            raw = RawItem(ItemKind.ACKED, item.number, fixed=_ONE.pack(item.last))
        case Refused():
            raw = RawItem(ItemKind.REFUSED, item.number, word=item.code, tail=_cut(item.detail))
        case Read():
            fixed = _READ.pack(item.ledger_id, item.first, item.last, item.step)
            raw = RawItem(
                ItemKind.READ,
                item.number,
                flags=_read_flags(item),
                word=item.max_bytes,
                fixed=fixed,
                tail=(item.proof or item.fence_key or b"")
                + openings.spell_token(item.create_token),
            )
        case ReadAnswer():
            raw = _raw_reply(item)
        case _:
            assert_never(item)
    return (
        ITEM.pack(raw.kind, raw.flags, len(raw.tail), raw.word, raw.number) + raw.fixed + raw.tail
    )


def _read_flags(read: Read) -> int:
    if read.proof is None:
        assert not read.fences, "a read that proves nothing fences with its key"
        return 0
    assert read.fence_key is None
    assert len(read.proof) == proofs.PROOF_BYTES
    return _READ_PROVEN | (_FENCES if read.fences else 0)


def _raw_reply(reply: ReadAnswer) -> RawItem:
    assert _disorder(reply) is None
    lac = reply.last_add_confirmed
    return RawItem(
        ItemKind.READ_REPLY,
        reply.number,
        flags=0 if lac is None else _HAS_LAC,
        word=len(reply.frames),
        fixed=_REPLY.pack(reply.next_entry, 0 if lac is None else lac),
    )


def _cut(detail: str) -> bytes:
    """Cut a text to its limit, at the end of a character."""
    return detail.encode("utf-8", "replace")[:DETAIL_BYTES_MAX].decode("utf-8", "ignore").encode()


def _parse_item(
    data: bytes | bytearray, at: int, end: int, source: CarrierFrames
) -> tuple[Item, int]:
    """Give the item that begins at ``at``, and where the next one begins."""
    fixed_at = at + ITEM.size
    if fixed_at > end:
        raise _START.bad(Fault.TRUNCATED, f"an item at {at}, the items end at {end}")
    kind, flags, tail_bytes, word, number = ITEM.unpack_from(data, at)
    known = _PARSERS.get(kind)
    if known is None:
        raise _START.bad(Fault.KIND, f"{kind} at {at}")
    fixed_bytes, parse_kind = known
    tail_at = fixed_at + fixed_bytes
    next_at = tail_at + tail_bytes
    if next_at > end:
        raise _START.bad(
            Fault.TRUNCATED, f"an item of {next_at - at} bytes at {at}, the end is {end}"
        )
    fixed, tail = bytes(data[fixed_at:tail_at]), bytes(data[tail_at:next_at])
    raw = RawItem(kind, number, flags, word, fixed, tail)
    return parse_kind(raw, source), next_at


def _parse_append(raw: RawItem, source: CarrierFrames) -> Item:
    raw.check()
    return Append(number=raw.number, frame=source.take())


def _parse_open(raw: RawItem, _: CarrierFrames) -> Item:
    raw.check(
        flags=_WAS_OPEN | _OPEN_PROVEN, tail=range(openings.BYTES_MIN, openings.BYTES_MAX + 1)
    )
    return Open(
        number=raw.number,
        opening=openings.parse_peers(raw.tail),
        was_open=bool(raw.flags & _WAS_OPEN),
        proven=bool(raw.flags & _OPEN_PROVEN),
    )


def _parse_write_lac(raw: RawItem, _: CarrierFrames) -> Item:
    raw.check(tail=range(entries.LAC_PACKET_BYTES_MIN, entries.LAC_PACKET_BYTES_MAX + 1))
    (ledger,) = _ONE.unpack(raw.fixed)
    if not raw.tail.startswith(raw.fixed):
        raise _START.bad(Fault.PACKET, f"the LAC of ledger {ledger} is {raw.tail.hex()}")
    return WriteLac(number=raw.number, ledger_id=LedgerId(checked_id(ledger)), packet=raw.tail)


def _parse_hello(raw: RawItem, _: CarrierFrames) -> Item:
    raw.check(tail=(0, proofs.NONCE_BYTES))
    if raw.number:
        raise _START.bad(Fault.RESERVED, f"a Hello with the number {raw.number}")
    return Hello(boot_epoch=_ONE.unpack(raw.fixed)[0], nonce=raw.tail or None)


def _parse_acked(raw: RawItem, _: CarrierFrames) -> Item:
    raw.check()
    (last,) = _ONE.unpack(raw.fixed)
    if not 0 <= last - raw.number < ACKED_MAX:
        raise _START.bad(Fault.RANGE, f"acknowledged from {raw.number} to {last}")
    return Acked(number=raw.number, last=last)


def _parse_refused(raw: RawItem, _: CarrierFrames) -> Item:
    raw.check(word=True, tail=range(DETAIL_BYTES_MAX + 1))
    if raw.word == 0:
        raise _START.bad(Fault.RANGE, "refused with error number 0")
    try:
        detail = raw.tail.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _START.bad(Fault.TEXT, str(error)) from error
    return Refused(number=raw.number, code=raw.word, detail=detail)


def _parse_read(raw: RawItem, _: CarrierFrames) -> Item:
    raw.check(flags=_READ_PROVEN | _FENCES, word=True, tail=_READ_TAILS)
    key_bytes = MASTER_KEY_BYTES if len(raw.tail) >= MASTER_KEY_BYTES else 0
    key, token = raw.tail[:key_bytes], raw.tail[key_bytes:]
    is_proven = bool(raw.flags & _READ_PROVEN)
    if raw.flags and not (is_proven and key):
        raise _START.bad(Fault.RESERVED, f"a read with flags {raw.flags} and no proof")
    ledger, first, last, step = _READ.unpack(raw.fixed)
    if not first <= last or not 1 <= step <= entries.ID_END:
        raise _START.bad(Fault.RANGE, f"a read from {first} to {last} by {step}")
    return Read(
        number=raw.number,
        ledger_id=LedgerId(checked_id(ledger)),
        first=EntryId(first),
        last=EntryId(checked_id(last)),
        step=step,
        max_bytes=raw.word,
        fence_key=MasterKey(key) if key and not is_proven else None,
        create_token=openings.parse_token(token),
        proof=key if is_proven else None,
        fences=bool(raw.flags & _FENCES),
    )


def _parse_reply(raw: RawItem, source: CarrierFrames) -> Item:
    raw.check(flags=_HAS_LAC, word=True)
    next_entry, confirmed = _REPLY.unpack(raw.fixed)
    has_lac = bool(raw.flags & _HAS_LAC)
    if confirmed < NO_ENTRY or (confirmed and not has_lac):
        raise _START.bad(Fault.RANGE, f"last add confirmed {confirmed}, flags {raw.flags}")
    if next_entry > entries.ID_END:
        raise _START.bad(Fault.RANGE, f"next entry {next_entry}")
    reply = ReadAnswer(
        number=raw.number,
        next_entry=EntryId(next_entry),
        last_add_confirmed=EntryId(confirmed) if has_lac else None,
        frames=tuple([source.take() for _ in range(raw.word)]),
    )
    if (disorder := _disorder(reply)) is not None:
        raise _START.bad(Fault.DESCENDING, disorder)
    return reply


def _disorder(reply: ReadAnswer) -> str | None:
    """Say what breaks the order of a reply: one ledger, ascending ids, all below the next entry."""
    for before, after in pairwise(reply.frames):
        if before.ledger_id != after.ledger_id:
            return f"a frame of ledger {after.ledger_id} after one of {before.ledger_id}"
        if before.last >= after.first:
            return f"a frame from entry {after.first} after one to {before.last}"
    if reply.frames and reply.frames[-1].last >= reply.next_entry:
        return f"a frame to entry {reply.frames[-1].last}, and {reply.next_entry} is next"
    return None


_PARSERS: Final[dict[int, tuple[int, Callable[[RawItem, CarrierFrames], Item]]]] = {
    ItemKind.APPEND: (0, _parse_append),
    ItemKind.WRITE_LAC: (_ONE.size, _parse_write_lac),
    ItemKind.HELLO: (_ONE.size, _parse_hello),
    ItemKind.ACKED: (_ONE.size, _parse_acked),
    ItemKind.REFUSED: (0, _parse_refused),
    ItemKind.READ: (_READ.size, _parse_read),
    ItemKind.READ_REPLY: (_REPLY.size, _parse_reply),
    ItemKind.OPEN: (0, _parse_open),
}
