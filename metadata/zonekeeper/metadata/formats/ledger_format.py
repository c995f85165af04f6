r"""A ledger's metadata as Apache BookKeeper stores it: version 3 both ways, version 2 to read.

    BookieMetadataFormatVersion \t 3 \n      at most 9 digits
    varint length                            version 3: binary protobuf
    LedgerMetadataFormat                     version 2: text protobuf, to the end

     1 quorumSize       write quorum        7 digestType   CRC32 1, HMAC 2, CRC32C 3, DUMMY 4
     2 ensembleSize                         8 password     empty if there is none
     3 length           0 until closed      9 ackQuorumSize  missing: the write quorum
     4 lastEntryId      -1 until closed    10 ctime        only if the writer gave it
     5 state            OPEN 1, IN_RECOVERY 2, CLOSED 3
     6 segment *        {1 ensembleMember *, 2 firstEntryId}
    11 customMetadata * {1 key, 2 value}   12 cToken       always in version 3

Fields are written in the order of their numbers, defaults included, so the bytes are those of
Apache's own writer. Length and last entry have a meaning only in a closed ledger. In other ledgers
readers ignore them, as Apache's readers do. A ledger of version 2 gets version 3 at its next write.
There is no checksum: Apache has none, and the store has one of its own.
"""

from typing import Final

from zonekeeper.metadata.formats import protobuf_text
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from zonekeeper.metadata.formats.malformed import Flaw, MalformedError, UnsupportedError, check_size
from zonekeeper.metadata.formats.protobuf import (
    INT32_MAX,
    INT64_MAX,
    FieldKind,
    Message,
    Schema,
    Spec,
    bytes_field,
    number_field,
    read_varint,
    varint,
)
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import NO_ENTRY, BookieId, EntryId

_MAGIC: Final = b"BookieMetadataFormatVersion\t"
VERSION: Final = 3
#: The earliest version that is read: a text.
VERSION_MIN: Final = 2
_VERSION_DIGITS_MAX: Final = 9

_STATES: Final = {"OPEN": 1, "IN_RECOVERY": 2, "CLOSED": 3}
_DIGESTS: Final = {"CRC32": 1, "HMAC": 2, "CRC32C": 3, "DUMMY": 4}
_STATE_OF: Final = {number: LedgerState(name) for name, number in _STATES.items()}
_DIGEST_OF: Final = {number: Digest(name) for name, number in _DIGESTS.items()}

_SEGMENT: Final = Schema(
    "segment",
    Spec(1, "ensembleMember", FieldKind.BYTES, repeated=True),
    Spec(2, "firstEntryId", FieldKind.NUMBER),
)
_CUSTOM: Final = Schema(
    "customMetadata", Spec(1, "key", FieldKind.BYTES), Spec(2, "value", FieldKind.BYTES)
)
_LEDGER: Final = Schema(
    "ledger",
    Spec(1, "quorumSize", FieldKind.NUMBER),
    Spec(2, "ensembleSize", FieldKind.NUMBER),
    Spec(3, "length", FieldKind.NUMBER),
    Spec(4, "lastEntryId", FieldKind.NUMBER),
    Spec(5, "state", _STATES),
    Spec(6, "segment", _SEGMENT, repeated=True),
    Spec(7, "digestType", _DIGESTS),
    Spec(8, "password", FieldKind.BYTES),
    Spec(9, "ackQuorumSize", FieldKind.NUMBER),
    Spec(10, "ctime", FieldKind.NUMBER),
    Spec(11, "customMetadata", _CUSTOM, repeated=True),
    Spec(12, "cToken", FieldKind.NUMBER),
)


def render(ledger: LedgerMetadata) -> bytes:
    """Write version 3."""
    body = bytearray()
    body += number_field(1, ledger.write_quorum)
    body += number_field(2, ledger.ensemble_size)
    body += number_field(3, ledger.length)
    body += number_field(4, ledger.last_entry)
    body += number_field(5, _STATES[ledger.state.value])
    for fragment in ledger.fragments:
        members = b"".join(bytes_field(1, bookie.encode()) for bookie in fragment.ensemble)
        body += bytes_field(6, members + number_field(2, fragment.first_entry))
    body += number_field(7, _DIGESTS[ledger.digest.value])
    body += bytes_field(8, ledger.password)
    body += number_field(9, ledger.ack_quorum)
    if ledger.created_ms is not None:
        body += number_field(10, ledger.created_ms)
    for key, value in ledger.custom:
        body += bytes_field(11, bytes_field(1, key.encode()) + bytes_field(2, value))
    body += number_field(12, ledger.create_token)
    return b"%s%d\n%s%s" % (_MAGIC, VERSION, varint(len(body)), body)


def parse(raw: bytes) -> LedgerMetadata:
    """Read version 3 or 2; raises ``MalformedError`` or ``UnsupportedError``."""
    check_size(raw, "a ledger's metadata")
    version, body = _split(raw)
    if version == VERSION:
        length, start = read_varint(body, 0)
        if length > len(body) - start:
            raise MalformedError(
                Flaw.TRUNCATED, f"{length} bytes announced, {len(body) - start} there"
            )
        if length < len(body) - start:
            raise MalformedError(
                Flaw.TRAILING, f"{len(body) - start - length} bytes behind the ledger"
            )
        return _ledger(body[start:])
    if version == VERSION_MIN:
        try:
            text = body.decode("utf-8")
        except UnicodeDecodeError as error:
            raise MalformedError(Flaw.BAD_TEXT, "a ledger of version 2 is not UTF-8") from error
        return _ledger(protobuf_text.to_binary(text, _LEDGER))
    raise UnsupportedError(f"ledger metadata of version {version}; this program reads 2 and 3")


def _split(raw: bytes) -> tuple[int, bytes]:
    if not raw.startswith(_MAGIC):
        raise MalformedError(Flaw.BAD_HEADER, "it does not start as a ledger's metadata does")
    rest = raw[len(_MAGIC) :]
    end = rest.find(b"\n", 0, _VERSION_DIGITS_MAX + 1)
    digits = rest[: max(end, 0)]
    if not digits.isdigit():
        raise MalformedError(Flaw.BAD_HEADER, "its version is not a number of at most 9 digits")
    return int(digits), rest[end + 1 :]


def _ledger(binary: bytes) -> LedgerMetadata:
    message = Message(_LEDGER, binary)
    write_quorum = message.between("quorumSize", 1, INT32_MAX)
    state = _STATE_OF.get(message.int64("state"))
    digest = _DIGEST_OF.get(message.int64("digestType"))
    if state is None or digest is None:
        raise UnsupportedError("the ledger's state or digest is one of a newer version")
    is_closed = state is LedgerState.CLOSED
    length = message.int64("length")
    try:
        return LedgerMetadata(
            ensemble_size=message.between("ensembleSize", 1, INT32_MAX),
            write_quorum=write_quorum,
            ack_quorum=(
                message.between("ackQuorumSize", 1, INT32_MAX)
                if "ackQuorumSize" in message
                else write_quorum
            ),
            fragments=tuple(_fragment(raw) for raw in message.all_bytes("segment")),
            digest=digest,
            password=message.raw("password"),
            state=state,
            last_entry=EntryId(message.int64("lastEntryId")) if is_closed else NO_ENTRY,
            length=length if is_closed else 0,
            created_ms=message.int64("ctime") if "ctime" in message else None,
            custom=tuple(_custom(raw) for raw in message.all_bytes("customMetadata")),
            create_token=(message.between("cToken", 0, INT64_MAX) if "cToken" in message else 0),
        )
    except ValueError as error:
        raise MalformedError(Flaw.INCONSISTENT, str(error)) from error


def _fragment(raw: bytes) -> Fragment:
    message = Message(_SEGMENT, raw)
    return Fragment(
        EntryId(message.between("firstEntryId", 0, INT64_MAX)),
        tuple(BookieId(text) for text in message.all_texts("ensembleMember")),
    )


def _custom(raw: bytes) -> tuple[str, bytes]:
    message = Message(_CUSTOM, raw)
    return message.text("key"), message.raw("value") if "value" in message else b""
