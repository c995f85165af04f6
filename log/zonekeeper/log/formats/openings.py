"""The opening entry: the first entry of each ledger of a log, which says whose ledger it is. Pure.

::

    0        4     5      6      8        12        28      36         44
    | magic  | ver | kind | zero | crc32c | log id  | epoch | sequence |
    | "ZKLO" | 1   | 1 2 3|      | of 12..|         |       |          |
    +--------+-----+------+------+--------+---------+-------+----------+
    44   kind 1, chained                         44   kind 2, attempt
    | ledger before | its last entry | name |    | batch | partition | length | query | name |
    | 8             | 8              | to end    | 8     | 4         | 2      |       | to end
    +---------------+----------------+-------+---+-------+-----------+--------+-------+-------
    44   kind 3, manifest
    | ledger before | its last entry | batch | length | query | name |
    | 8             | 8              | 8     | 2      |       | to end

All numbers are big-endian and unsigned, but for the ledger before and its last entry: they are
signed, and -1 says that there is none. ``sequence`` is that of the ledger's first message; an
attempt does not know it, and says 0. The name of the log is in UTF-8. It lets a record that was
lost be made again.

A *chained* ledger continues the ledger before it: that ledger must end at exactly the named entry.
A chained ledger that does not is not part of its log. Readers stop before it, and the next writer
drops it. An *attempt* was written in parallel with others, and is part of a log only if a manifest
ledger names it. A *manifest* ledger is chained like others, and brings one batch of a query in: its
last entry names the attempts (``manifests``). Without that entry it is no part of any log. So its
opening tells it from a ledger that counts with whatever it has.
"""

import struct
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never

from zonekeeper.log.formats import texts
from zonekeeper.log.formats.texts import TEXT_BYTES_MAX
from zonekeeper.metadata.formats.malformed import Flaw, MalformedError, UnsupportedError
from zonekeeper.placement.base.ids import NO_ENTRY, EntryId, LedgerId
from zonekeeper.wire.formats import checksums

MAGIC: Final = b"ZKLO"
VERSION: Final = 1
_WHERE: Final = "an opening entry"
LOG_ID_BYTES: Final = 16
#: No opening entry is longer.
OPENING_BYTES_MAX: Final = 4_096

_CHAINED: Final = 1
_ATTEMPT: Final = 2
_MANIFEST: Final = 3
_KINDS: Final = (_CHAINED, _ATTEMPT, _MANIFEST)
_START: Final = struct.Struct(">4sBBHI")
_SUMMED_FROM: Final = _START.size
_WHOSE: Final = struct.Struct(f">{LOG_ID_BYTES}sqq")
_REST_FROM: Final = _SUMMED_FROM + _WHOSE.size
_BEFORE: Final = struct.Struct(">qq")
_TRY: Final = struct.Struct(">qIH")
_OF_BATCH: Final = struct.Struct(">qqqH")
_NO_LEDGER: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Predecessor:
    """The ledger before, and its last entry (``NO_ENTRY``: it is empty)."""

    ledger: LedgerId
    last_entry: EntryId


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainedOpening:
    """The opening of a ledger that continues the one before it."""

    log_id: bytes
    epoch: int
    name: str
    #: The sequence of the ledger's first message.
    sequence: int
    #: None: the log has no ledger before this one.
    before: Predecessor | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptOpening:
    """The opening of a ledger that one task writes, in parallel with others."""

    log_id: bytes
    epoch: int
    name: str
    query: str
    batch: int
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestOpening:
    """The opening of a ledger that brings a batch of a query into the log, behind its attempts."""

    log_id: bytes
    epoch: int
    name: str
    #: The sequence of the ledger's own first message; the attempts' messages come before it.
    sequence: int
    #: The last ledger of the log before the batch; None: it had none.
    before: Predecessor | None
    query: str
    batch: int


LogOpening: TypeAlias = ChainedOpening | AttemptOpening | ManifestOpening


def build(opening: LogOpening) -> bytes:
    """Write an opening entry. The caller keeps to ``TEXT_BYTES_MAX``."""
    name = opening.name.encode()
    assert len(opening.log_id) == LOG_ID_BYTES
    assert 0 < len(name) <= TEXT_BYTES_MAX
    match opening:
        case ChainedOpening():
            kind, sequence = _CHAINED, opening.sequence
            rest = _BEFORE.pack(*_ends(opening.before))
        case AttemptOpening():
            kind, sequence, query = _ATTEMPT, 0, opening.query.encode()
            assert 0 < len(query) <= TEXT_BYTES_MAX
            rest = _TRY.pack(opening.batch, opening.partition, len(query)) + query
        case ManifestOpening():
            kind, sequence, query = _MANIFEST, opening.sequence, opening.query.encode()
            assert 0 < len(query) <= TEXT_BYTES_MAX
            rest = _OF_BATCH.pack(*_ends(opening.before), opening.batch, len(query)) + query
        case _:
            assert_never(opening)
    summed = _WHOSE.pack(opening.log_id, opening.epoch, sequence) + rest + name
    return _START.pack(MAGIC, VERSION, kind, 0, checksums.value(summed)) + summed


def parse(raw: bytes) -> LogOpening:
    """Read an opening entry; raises ``MalformedError``, or ``UnsupportedError`` for a newer one."""
    kind = _check_start(raw)
    log_id, epoch, sequence = _WHOSE.unpack_from(raw, _SUMMED_FROM)
    if epoch < 1 or sequence < 0:
        raise _bad(Flaw.OUT_OF_RANGE, f"epoch {epoch}, sequence {sequence}")
    if kind == _CHAINED:
        ledger, last_entry = _BEFORE.unpack(_piece(raw, _REST_FROM, _BEFORE.size))
        return ChainedOpening(
            log_id=log_id,
            epoch=epoch,
            name=texts.parse(raw[_REST_FROM + _BEFORE.size :], _WHERE),
            sequence=sequence,
            before=_before(ledger, last_entry),
        )
    if kind == _MANIFEST:
        return _manifest(raw, log_id, epoch, sequence)
    batch, partition, size = _TRY.unpack(_piece(raw, _REST_FROM, _TRY.size))
    query_from = _REST_FROM + _TRY.size
    if batch < 0 or sequence:
        raise _bad(Flaw.OUT_OF_RANGE, f"batch {batch}, sequence {sequence} of an attempt")
    return AttemptOpening(
        log_id=log_id,
        epoch=epoch,
        name=texts.parse(raw[query_from + size :], _WHERE),
        query=texts.parse(_piece(raw, query_from, size), _WHERE),
        batch=batch,
        partition=partition,
    )


def continues(opening: LogOpening, before: Predecessor | None) -> bool:
    """Does a ledger with this opening continue the ledger before it, as that one ended?"""
    return not isinstance(opening, AttemptOpening) and opening.before == before


def _manifest(raw: bytes, log_id: bytes, epoch: int, sequence: int) -> ManifestOpening:
    ledger, last_entry, batch, size = _OF_BATCH.unpack(_piece(raw, _REST_FROM, _OF_BATCH.size))
    query_from = _REST_FROM + _OF_BATCH.size
    if batch < 0:
        raise _bad(Flaw.OUT_OF_RANGE, f"batch {batch} of a manifest")
    return ManifestOpening(
        log_id=log_id,
        epoch=epoch,
        name=texts.parse(raw[query_from + size :], _WHERE),
        sequence=sequence,
        before=_before(ledger, last_entry),
        query=texts.parse(_piece(raw, query_from, size), _WHERE),
        batch=batch,
    )


def _check_start(raw: bytes) -> int:
    """Check everything before the summed bytes, and their sum; give the kind."""
    if len(raw) < _REST_FROM:
        raise _bad(Flaw.TRUNCATED, f"{len(raw)} bytes")
    magic, version, kind, zero, crc = _START.unpack_from(raw)
    if magic != MAGIC:
        raise _bad(Flaw.BAD_HEADER, f"it begins with {magic.hex()}")
    if version != VERSION:
        raise UnsupportedError(f"an opening entry of version {version}; known is {VERSION}")
    if len(raw) > OPENING_BYTES_MAX:
        raise _bad(Flaw.TOO_LARGE, f"{len(raw)} bytes; the limit is {OPENING_BYTES_MAX}")
    if (found := checksums.value(raw[_SUMMED_FROM:])) != crc:
        raise _bad(Flaw.BAD_CHECKSUM, f"{found:08x}, the header says {crc:08x}")
    if zero or kind not in _KINDS:
        raise UnsupportedError(
            f"an opening entry of kind {kind} with bits {zero:#x}, which a newer program wrote"
        )
    return int(kind)


def _piece(raw: bytes, at: int, size: int) -> bytes:
    piece = raw[at : at + size]
    if len(piece) != size:
        raise _bad(Flaw.TRUNCATED, f"{size} bytes wanted at {at}, of {len(raw)}")
    return piece


def _ends(before: Predecessor | None) -> tuple[int, int]:
    return (_NO_LEDGER, NO_ENTRY) if before is None else (before.ledger, before.last_entry)


def _before(ledger: int, last_entry: int) -> Predecessor | None:
    if ledger < _NO_LEDGER or last_entry < NO_ENTRY or (ledger == _NO_LEDGER != last_entry):
        raise _bad(Flaw.OUT_OF_RANGE, f"ledger before {ledger}, its last entry {last_entry}")
    if ledger == _NO_LEDGER:
        return None
    return Predecessor(ledger=LedgerId(ledger), last_entry=EntryId(last_entry))


def _bad(flaw: Flaw, detail: str) -> MalformedError:
    return MalformedError(flaw, f"{_WHERE}: {detail}")
