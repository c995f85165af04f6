"""The messages of the socket lane: its greeting, and what is said beside carriers.

The greeting has the form of Apache BookKeeper's AUTH, version 2, with a plugin of our own. A bookie
of Apache's answers it politely with another plugin's name. So a client that came to the wrong port
finds that out, and does no harm::

    0                4
    | 02 | 03 | 0 0  | protobuf {1 plugin "zonekeeper", 2 payload} |

The payload is JSON in both directions. A reader ignores keys that it does not know::

    client   {"bookie": "<id>@<instance>", "speaks": "1..2", "stream": "Append"}
    bookie   {"bootEpoch": 3, "callsMax": 1024, "messageBytesMax": 8454144, "speaks": "1..2"}
      or     {"detail": "why not", "error": 16}

``speaks`` is left out by a side that says nothing of its versions (``versions``). After the
greeting a message is a carrier, or one of these; all numbers are big-endian::

    0        4
    | "ZKEN" | error 4     | detail, UTF-8                          the stream ends; 0: no error
    | "ZKPI" |                                                      are you there?
    | "ZKPO" |                                                      I am
    | "ZKCL" | number 8    | timeout ms 4 | n 1 | name n | request  a call, or a subscription
    | "ZKAN" | number 8    | answer                                 one answer to it
    | "ZKTK" | number 8    |                                        an answer was taken
    | "ZKDN" | number 8    | error 4      | detail, UTF-8           its end; 0: no error
    | "ZKCX" | number 8    |                                        the caller needs no answer

A timeout of 0 is none. Each message has one spelling.
"""

import enum
import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never

from zonekeeper.wire.formats import carriers, errors, versions
from zonekeeper.wire.formats.errors import Fault, FormatError
from zonekeeper.wire.formats.versions import WireVersions

PLUGIN: Final = "zonekeeper"
#: The name that a bookie of Apache's gives if nobody has to prove who they are there.
APACHE_PLUGIN: Final = "AuthDisabledPlugin"
#: No greeting is larger: an id, an instance, and an error's text.
GREETING_BYTES_MAX: Final = 4 << 10
#: No message of a client that is not a carrier is larger.
REQUEST_BYTES_MAX: Final = 64 << 10
NAME_BYTES_MAX: Final = 255

_AUTH: Final = b"\x02\x03\x00\x00"
_NUMBER: Final = struct.Struct(">Q")
_ERROR: Final = struct.Struct(">I")
_CALL: Final = struct.Struct(">QIB")
_TAG_BYTES: Final = 4
_U64_END: Final = 1 << 64
_U32_END: Final = 1 << 32


class ConnectionKind(enum.Enum):
    """What a connection is for: one of the two streams, or all calls and tails of a link."""

    APPEND = "Append"
    READ = "Read"
    CALLS = "Calls"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientGreeting:
    """The first message of a client."""

    #: The bookie that is meant, as ``bookie_names.name_of`` spells it.
    bookie: str
    kind: ConnectionKind
    #: None: the client says nothing of its versions.
    speaks: WireVersions | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BookieGreeting:
    """The first message of a bookie that serves the client."""

    boot_epoch: int
    #: None: the bookie says nothing of its versions.
    speaks: WireVersions | None
    #: The limits of what a client may send: bytes of a message, calls and tails at the same time.
    message_bytes_max: int
    calls_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedGreeting:
    """The first and only message of a bookie that does not serve the client."""

    code: int
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEnd:
    """From a bookie: the stream ends, and why; code 0: without an error."""

    code: int
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Ping:
    """From a client that has heard nothing for long."""


@dataclass(frozen=True, slots=True)
class Pong:
    """From a bookie: the answer to a ``Ping``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallBegun:
    """From a client: a call or a subscription; the client chooses its number."""

    number: int
    #: 0: none, as for subscriptions.
    timeout_ms: int
    name: str
    request: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CallAnswer:
    """From a bookie: the answer to a call, or one of a subscription's."""

    number: int
    answer: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerTaken:
    """From a client: it has taken one answer of a subscription, and may be sent another."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEnd:
    """From a bookie: no answer follows; code 0: without an error."""

    number: int
    code: int
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCancelled:
    """From a client: nobody waits for the answer any more."""

    number: int


Said: TypeAlias = (
    StreamEnd | Ping | Pong | CallBegun | CallAnswer | AnswerTaken | CallEnd | CallCancelled
)


# ── the greeting ──


def build_client_greeting(greeting: ClientGreeting) -> bytes:
    """Spell a client's greeting."""
    fields: dict[str, object] = {"bookie": greeting.bookie, "stream": greeting.kind.value}
    return build_auth(PLUGIN, _spelled(fields | _speaking(greeting.speaks)))


def parse_client_greeting(payload: bytes) -> ClientGreeting:
    """Read the payload of a client's greeting; raises ``WireError``."""
    fields = _fields(payload)
    named = _text(fields, "stream")
    if named not in _KINDS:
        raise _bad(Fault.KIND, f"stream {named[:40]!r}")
    return ClientGreeting(
        bookie=_text(fields, "bookie"), kind=_KINDS[named], speaks=_spoken(fields)
    )


def build_bookie_greeting(greeting: BookieGreeting | RefusedGreeting) -> bytes:
    """Spell a bookie's greeting."""
    if isinstance(greeting, RefusedGreeting):
        detail = cut(greeting.detail).decode()
        return build_auth(PLUGIN, _spelled({"detail": detail, "error": greeting.code}))
    fields: dict[str, object] = {
        "bootEpoch": greeting.boot_epoch,
        "callsMax": greeting.calls_max,
        "messageBytesMax": greeting.message_bytes_max,
    }
    return build_auth(PLUGIN, _spelled(fields | _speaking(greeting.speaks)))


def parse_bookie_greeting(payload: bytes) -> BookieGreeting | RefusedGreeting:
    """Read the payload of a bookie's greeting; raises ``WireError``."""
    fields = _fields(payload)
    if "error" in fields:
        return RefusedGreeting(
            code=_whole(fields, "error", 1, _U32_END), detail=_text(fields, "detail")
        )
    return BookieGreeting(
        boot_epoch=_whole(fields, "bootEpoch", 0, _U64_END),
        speaks=_spoken(fields),
        message_bytes_max=_whole(fields, "messageBytesMax", 1, _U32_END),
        calls_max=_whole(fields, "callsMax", 1, _U32_END),
    )


def build_auth(plugin: str, payload: bytes) -> bytes:
    """Give an AUTH message of Apache's second protocol."""
    name = plugin.encode()
    return b"".join(
        (_AUTH, b"\x0a", _varint(len(name)), name, b"\x12", _varint(len(payload)), payload)
    )


def parse_auth(body: bytes | bytearray) -> tuple[str, bytes]:
    """Give the plugin and the payload of an AUTH message; raises ``FormatError``."""
    if bytes(body[:2]) != _AUTH[:2]:
        raise _bad(Fault.MAGIC, bytes(body[:4]).hex())
    found: dict[int, bytes] = {}
    at = len(_AUTH)
    while at < len(body):
        tag, at = _read_varint(body, at)
        field, form = tag >> 3, tag & 7
        if form == _FORM_NUMBER:
            _, at = _read_varint(body, at)
        elif form == _FORM_BYTES:
            size, at = _read_varint(body, at)
            if at + size > len(body):
                raise _bad(Fault.TRUNCATED, f"field {field} of {size} bytes")
            found[field] = bytes(body[at : at + size])
            at += size
        else:
            raise _bad(Fault.KIND, f"field {field} of form {form}")
    if 1 not in found:
        raise _bad(Fault.TRUNCATED, "no plugin is named")
    try:
        return found[1].decode(), found.get(2, b"")
    except UnicodeDecodeError as error:
        raise _bad(Fault.TEXT, str(error)) from error


_FORM_NUMBER: Final = 0
_FORM_BYTES: Final = 2
_VARINT_BYTES_MAX: Final = 5
#: The bit of a byte of a number that says that another byte follows.
_MORE: Final = 0x80


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= _MORE:
        out.append(number % _MORE | _MORE)
        number >>= 7
    out.append(number)
    return bytes(out)


def _read_varint(data: bytes | bytearray, at: int) -> tuple[int, int]:
    number = 0
    for index in range(_VARINT_BYTES_MAX):
        if at + index >= len(data):
            raise _bad(Fault.TRUNCATED, f"a number at {at}")
        byte = data[at + index]
        number |= byte % _MORE << (7 * index)
        if byte < _MORE:
            return number, at + index + 1
    raise _bad(Fault.RANGE, f"a number at {at}")


def _spelled(fields: Mapping[str, object]) -> bytes:
    return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()


def _speaking(speaks: WireVersions | None) -> dict[str, object]:
    return {} if speaks is None else {"speaks": str(speaks)}


def _spoken(fields: Mapping[str, object]) -> WireVersions | None:
    return versions.parse(_text(fields, "speaks")) if "speaks" in fields else None


def _fields(payload: bytes) -> Mapping[str, object]:
    try:
        plain: object = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise _bad(Fault.TEXT, f"the payload is no JSON: {error}") from error
    if not isinstance(plain, dict):
        raise _bad(Fault.TEXT, "the payload is no JSON object")
    return plain


def _text(fields: Mapping[str, object], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise _bad(Fault.RANGE, f"{name} is no text")
    return value


def _whole(fields: Mapping[str, object], name: str, least: int, end: int) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < end:
        raise _bad(Fault.RANGE, f"{name} is {str(value)[:40]}")
    return value


_KINDS: Final = {kind.value: kind for kind in ConnectionKind}


def _bad(fault: Fault, detail: str) -> FormatError:
    return FormatError("greeting", fault, detail)


# ── beside carriers ──


def build(said: Said) -> bytes:
    """Spell a message that is no carrier."""
    match said:
        case StreamEnd():
            parts = [b"ZKEN", _ERROR.pack(said.code), cut(said.detail)]
        case Ping():
            parts = [b"ZKPI"]
        case Pong():
            parts = [b"ZKPO"]
        case CallBegun():
            name = said.name.encode()
            fixed = _CALL.pack(said.number, said.timeout_ms, len(name))
            parts = [b"ZKCL", fixed, name, said.request]
        case CallAnswer():
            parts = [b"ZKAN", _NUMBER.pack(said.number), said.answer]
        case AnswerTaken():
            parts = [b"ZKTK", _NUMBER.pack(said.number)]
        case CallEnd():
            fixed = _NUMBER.pack(said.number) + _ERROR.pack(said.code)
            parts = [b"ZKDN", fixed, cut(said.detail)]
        case CallCancelled():
            parts = [b"ZKCX", _NUMBER.pack(said.number)]
        case _:
            assert_never(said)
    return b"".join(parts)


def parse(body: bytes | bytearray) -> Said:
    """Read a message that is no carrier; raises ``FormatError``."""
    tag, rest = bytes(body[:_TAG_BYTES]), bytes(body[_TAG_BYTES:])
    known = _PARSERS.get(tag)
    if known is None:
        raise _wrong(Fault.MAGIC, tag.hex())
    return known(rest)


def _parse_end(rest: bytes) -> Said:
    (code,) = _ERROR.unpack(_start(rest, _ERROR.size))
    return StreamEnd(code=code, detail=_detail(rest[_ERROR.size :]))


def _parse_ping(rest: bytes) -> Said:
    _exactly(rest, 0)
    return Ping()


def _parse_pong(rest: bytes) -> Said:
    _exactly(rest, 0)
    return Pong()


def _parse_call(rest: bytes) -> Said:
    number, timeout_ms, size = _CALL.unpack(_start(rest, _CALL.size))
    named = _CALL.size + size
    name = _utf8(_start(rest, named)[_CALL.size :])
    return CallBegun(number=number, timeout_ms=timeout_ms, name=name, request=rest[named:])


def _parse_answer(rest: bytes) -> Said:
    (number,) = _NUMBER.unpack(_start(rest, _NUMBER.size))
    return CallAnswer(number=number, answer=rest[_NUMBER.size :])


def _parse_taken(rest: bytes) -> Said:
    return AnswerTaken(number=_only_number(rest))


def _parse_call_end(rest: bytes) -> Said:
    fixed = _NUMBER.size + _ERROR.size
    start = _start(rest, fixed)
    (number,), (code,) = _NUMBER.unpack_from(start), _ERROR.unpack_from(start, _NUMBER.size)
    return CallEnd(number=number, code=code, detail=_detail(rest[fixed:]))


def _parse_cancelled(rest: bytes) -> Said:
    return CallCancelled(number=_only_number(rest))


_PARSERS: Final[Mapping[bytes, Callable[[bytes], Said]]] = {
    b"ZKEN": _parse_end,
    b"ZKPI": _parse_ping,
    b"ZKPO": _parse_pong,
    b"ZKCL": _parse_call,
    b"ZKAN": _parse_answer,
    b"ZKTK": _parse_taken,
    b"ZKDN": _parse_call_end,
    b"ZKCX": _parse_cancelled,
}


def is_carrier(body: bytes | bytearray) -> bool:
    """Is this message a carrier, as most are?"""
    return body.startswith(carriers.MAGIC)


def cut(detail: str) -> bytes:
    """Cut a text to the limit of an error's text, at the end of a character."""
    limit = carriers.DETAIL_BYTES_MAX
    return detail.encode("utf-8", "replace")[:limit].decode("utf-8", "ignore").encode()


def error_of(code: int, detail: str) -> errors.ProtocolError | None:
    """Give the error of an end; None: without an error."""
    return None if code == 0 else errors.from_number(code, detail)


def _start(rest: bytes, size: int) -> bytes:
    if len(rest) < size:
        raise _wrong(Fault.TRUNCATED, f"{len(rest)} of {size} bytes")
    return rest[:size]


def _only_number(rest: bytes) -> int:
    _exactly(rest, _NUMBER.size)
    return int(_NUMBER.unpack(rest)[0])


def _exactly(rest: bytes, size: int) -> None:
    _start(rest, size)
    if len(rest) > size:
        raise _wrong(Fault.TRAILING, f"{len(rest) - size} bytes")


def _detail(data: bytes) -> str:
    if len(data) > carriers.DETAIL_BYTES_MAX:
        raise _wrong(Fault.LENGTH, f"a text of {len(data)} bytes")
    return _utf8(data)


def _utf8(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise _wrong(Fault.TEXT, str(error)) from error


def _wrong(fault: Fault, detail: str) -> FormatError:
    return FormatError("message", fault, detail)
