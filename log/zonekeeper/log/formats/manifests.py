"""The manifest: the last entry of a manifest ledger, which brings a batch of a query in. Pure.

::

    0        4     5      6        8        12      20      28      36
    | magic  | ver | bits | length | crc32c | batch | number| number| query | run | attempts
    | "ZKLM" | 1   | 0 1  | of the | of 12..|       | of at-| of own|       |     | 32 bytes each
    |        |     |      | query  |        |       | tempts| mess. |       |     |
    +--------+-----+------+--------+--------+-------+-------+-------+-------+-----+--------------
    an attempt | ledger | last entry | messages | bytes |             8 bytes each

All numbers are unsigned and big-endian. *Own messages* are those that the manifest ledger has
itself, before this entry: small partitions. The attempts are in the order of their ids, which is
their order in the log. The run's text goes up to the attempts, which end the entry. Bit 1 says that
the query is a job, which has no other batch.

A manifest ledger counts only when this entry is its last one. So a publisher that dies before it
has written the manifest leaves nothing that could count.
"""

import struct
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from zonekeeper.log.formats import texts
from zonekeeper.log.formats.texts import TEXT_BYTES_MAX
from zonekeeper.metadata.formats.malformed import Flaw, MalformedError, UnsupportedError
from zonekeeper.metadata.formats.message_ids import LONG_MAX
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.formats import checksums

MAGIC: Final = b"ZKLM"
VERSION: Final = 1
_WHERE: Final = "a manifest"
#: No batch of a query has more attempts.
ATTEMPTS_MAX: Final = 2_000

_START: Final = struct.Struct(">4sBBHI")
_SUMMED_FROM: Final = _START.size
_COUNTS: Final = struct.Struct(">QQQ")
_TEXTS_FROM: Final = _SUMMED_FROM + _COUNTS.size
_ATTEMPT: Final = struct.Struct(">QQQQ")
_JOB: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedAttempt:
    """An attempt that a manifest names, with its end."""

    ledger: LedgerId
    last_entry: EntryId
    messages: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A batch of a query, as it came into the log."""

    query: str
    run: str
    batch: int
    is_job: bool
    #: The messages of the manifest ledger itself.
    messages: int
    attempts: tuple[NamedAttempt, ...]


def is_manifest(raw: bytes) -> bool:
    """Is an entry a manifest, of any version, and no batch of messages?"""
    return raw[:4] == MAGIC  # also of a view of bytes


def build(manifest: Manifest) -> bytes:
    """Write a manifest. The caller keeps to the limits, and to the order of the attempts."""
    query, run = manifest.query.encode(), manifest.run.encode()
    assert 0 < len(query) <= TEXT_BYTES_MAX
    assert 0 < len(run) <= TEXT_BYTES_MAX
    assert len(manifest.attempts) <= ATTEMPTS_MAX
    named = [
        _ATTEMPT.pack(one.ledger, one.last_entry, one.messages, one.size_bytes)
        for one in manifest.attempts
    ]
    counts = _COUNTS.pack(manifest.batch, len(named), manifest.messages)
    summed = b"".join([counts, query, run, *named])
    bits = _JOB if manifest.is_job else 0
    return _START.pack(MAGIC, VERSION, bits, len(query), checksums.value(summed)) + summed


def parse(raw: bytes) -> Manifest:
    """Read a manifest; raises ``MalformedError``, or ``UnsupportedError`` for a newer one."""
    bits, query_bytes = _check_start(raw)
    batch, count, messages = _COUNTS.unpack_from(raw, _SUMMED_FROM)
    if max(batch, messages) > LONG_MAX or count > ATTEMPTS_MAX:
        raise _bad(Flaw.OUT_OF_RANGE, f"batch {batch}, {count} attempts, {messages} messages")
    run_from, attempts_from = _TEXTS_FROM + query_bytes, len(raw) - count * _ATTEMPT.size
    if attempts_from < run_from:
        raise _bad(Flaw.TRUNCATED, f"{len(raw)} bytes, with {count} attempts")
    attempts = tuple(map(_named, _ATTEMPT.iter_unpack(raw[attempts_from:])))
    if any(one.ledger >= other.ledger for one, other in pairwise(attempts)):
        raise _bad(Flaw.INCONSISTENT, "the ids of its attempts do not ascend")
    return Manifest(
        query=texts.parse(raw[_TEXTS_FROM:run_from], _WHERE),
        run=texts.parse(raw[run_from:attempts_from], _WHERE),
        batch=batch,
        is_job=bool(bits & _JOB),
        messages=messages,
        attempts=attempts,
    )


def _check_start(raw: bytes) -> tuple[int, int]:
    """Check everything before the summed bytes, and their sum; give the bits and a length."""
    if len(raw) < _TEXTS_FROM:
        raise _bad(Flaw.TRUNCATED, f"{len(raw)} bytes")
    magic, version, bits, query_bytes, crc = _START.unpack_from(raw)
    if magic != MAGIC:
        raise _bad(Flaw.BAD_HEADER, f"it begins with {magic.hex()}")
    if version != VERSION:
        raise UnsupportedError(f"a manifest of version {version}; this program reads {VERSION}")
    if len(raw) > _TEXTS_FROM + 2 * TEXT_BYTES_MAX + ATTEMPTS_MAX * _ATTEMPT.size:
        raise _bad(Flaw.TOO_LARGE, f"{len(raw)} bytes")
    if (found := checksums.value(raw[_SUMMED_FROM:])) != crc:
        raise _bad(Flaw.BAD_CHECKSUM, f"{found:08x}, the header says {crc:08x}")
    if bits & ~_JOB:
        raise UnsupportedError(f"a manifest with bits {bits:#x}, which a newer program wrote")
    return bits, query_bytes


def _named(numbers: tuple[int, int, int, int]) -> NamedAttempt:
    ledger, last_entry, messages, size_bytes = numbers
    if max(numbers) > LONG_MAX or not messages or not last_entry:
        raise _bad(Flaw.OUT_OF_RANGE, f"attempt {ledger}: entry {last_entry}, {messages} messages")
    return NamedAttempt(
        ledger=LedgerId(ledger),
        last_entry=EntryId(last_entry),
        messages=messages,
        size_bytes=size_bytes,
    )


def _bad(flaw: Flaw, detail: str) -> MalformedError:
    return MalformedError(flaw, f"{_WHERE}: {detail}")
