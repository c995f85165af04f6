"""The part of protobuf's binary encoding that Apache BookKeeper's records use.

    field = key payload         key = varint(number << 3 | type)
    type 0: varint              1 to 10 bytes, seven bits each, lowest first
    type 2: varint length, then that many bytes

This is written by hand for two reasons. The bytes must be exactly Apache's (order of fields,
written defaults). And a reader of stored records must refuse some things that a lenient decoder
accepts: an unknown field, a field twice, a number that is longer than necessary. Generated code
would be one more dependency for a small format, and would need the same checks around it.
"""

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from zonekeeper.metadata.formats.malformed import Flaw, MalformedError, UnsupportedError

INT32_MAX: Final = (1 << 31) - 1
INT64_MAX: Final = (1 << 63) - 1

_NUMBER: Final = 0
_BYTES: Final = 2
_FIXED: Final = (1, 5)
_MORE: Final = 0x80
_VARINT_BYTES_MAX: Final = 10
_MASK64: Final = (1 << 64) - 1


class FieldKind(enum.Enum):
    """The kind of a field, apart from messages and enums."""

    NUMBER = "number"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class Spec:
    """One field: a number, bytes, an enum (names and numbers), or a message."""

    number: int
    name: str
    kind: "FieldKind | Mapping[str, int] | Schema"
    repeated: bool = False

    @property
    def is_number(self) -> bool:
        """Is the field a number in the binary form?"""
        return self.kind is FieldKind.NUMBER or isinstance(self.kind, Mapping)


class Schema:
    """The fields of a message, as far as this version knows them."""

    def __init__(self, name: str, *specs: Spec) -> None:
        self.name = name
        self.by_name: Mapping[str, Spec] = {spec.name: spec for spec in specs}
        self.by_number: Mapping[int, Spec] = {spec.number: spec for spec in specs}


# ── writing ──


def varint(value: int) -> bytes:
    """Encode a number; a negative one is its 64-bit two's complement."""
    rest = value & _MASK64
    out = bytearray()
    while rest >= _MORE:
        out.append(rest & (_MORE - 1) | _MORE)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def number_field(number: int, value: int) -> bytes:
    """Encode an int32, int64 or enum field."""
    return varint(number << 3 | _NUMBER) + varint(value)


def bytes_field(number: int, value: bytes) -> bytes:
    """Encode a bytes, string or message field."""
    return varint(number << 3 | _BYTES) + varint(len(value)) + value


# ── reading ──


def read_varint(data: bytes, offset: int) -> tuple[int, int]:
    """Read an unsigned number; give it and the offset after it."""
    value = 0
    for index in range(_VARINT_BYTES_MAX):
        if offset + index >= len(data):
            raise MalformedError(Flaw.TRUNCATED, f"the number at byte {offset} has no end")
        byte = data[offset + index]
        value |= (byte & (_MORE - 1)) << (7 * index)
        if byte < _MORE:
            if value > _MASK64 or (index > 0 and byte == 0):
                raise MalformedError(
                    Flaw.BAD_NUMBER, f"the number at byte {offset} is not canonical"
                )
            return value, offset + index + 1
    raise MalformedError(Flaw.BAD_NUMBER, f"the number at byte {offset} has more than 64 bits")


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Read the fields of a message in their stored order."""
    offset = 0
    while offset < len(data):
        at = offset
        key, offset = read_varint(data, offset)
        number, kind = key >> 3, key & 0x7
        value, offset = read_varint(data, offset) if kind in (_NUMBER, _BYTES) else (0, offset)
        if kind == _NUMBER:
            yield number, value
        elif kind == _BYTES:
            if value > len(data) - offset:
                raise MalformedError(
                    Flaw.TRUNCATED, f"field {number} at byte {at} says {value} bytes"
                )
            yield number, data[offset : offset + value]
            offset += value
        elif kind in _FIXED:
            raise UnsupportedError(
                f"field {number} at byte {at} is a fixed-size number: not known here"
            )
        else:
            raise MalformedError(Flaw.BAD_NUMBER, f"no field has type {kind}, as at byte {at}")


class Message:
    """A message that was read: its fields by name, each of the type that the schema requires."""

    def __init__(self, schema: Schema, data: bytes) -> None:
        self._schema = schema
        self._found: dict[str, list[int | bytes]] = {}
        for number, value in _fields(data):
            spec = schema.by_number.get(number)
            if spec is None:
                raise UnsupportedError(f"{schema.name} has a field {number}, from a newer version")
            if isinstance(value, int) != spec.is_number:
                raise MalformedError(Flaw.WRONG_TYPE, f"{schema.name}.{spec.name}")
            values = self._found.setdefault(spec.name, [])
            if values and not spec.repeated:
                raise MalformedError(Flaw.DUPLICATE, f"{schema.name}.{spec.name}")
            values.append(value)

    def __contains__(self, name: str) -> bool:
        return name in self._found

    def int64(self, name: str) -> int:
        """Give a signed number, which is required."""
        value = self._need(name)[0]
        assert isinstance(value, int)
        return value - (1 << 64) if value > INT64_MAX else value

    def between(self, name: str, low: int, high: int) -> int:
        """Give a number, which is required: ``low <= number <= high``."""
        value = self.int64(name)
        if not low <= value <= high:
            raise MalformedError(
                Flaw.OUT_OF_RANGE, f"{self._schema.name}.{name} is {value}, not {low} to {high}"
            )
        return value

    def all_bytes(self, name: str) -> list[bytes]:
        """Give all values of a repeated field, in order."""
        return [value for value in self._found.get(name, []) if isinstance(value, bytes)]

    def raw(self, name: str) -> bytes:
        """Give bytes, which are required."""
        value = self._need(name)[0]
        assert isinstance(value, bytes)
        return value

    def text(self, name: str) -> str:
        """Give a string, which is required."""
        return self._decode(name, self.raw(name))

    def all_texts(self, name: str) -> list[str]:
        """Give all values of a repeated string, in order."""
        return [self._decode(name, value) for value in self.all_bytes(name)]

    def _need(self, name: str) -> list[int | bytes]:
        if name not in self._found:
            raise MalformedError(Flaw.MISSING, f"{self._schema.name}.{name}")
        return self._found[name]

    def _decode(self, name: str, value: bytes) -> str:
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError as error:
            raise MalformedError(
                Flaw.BAD_TEXT, f"{self._schema.name}.{name} is not UTF-8"
            ) from error
