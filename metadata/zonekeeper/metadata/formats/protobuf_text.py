r"""Protobuf's text format, as far as Apache BookKeeper's records use it.

    name: "text"        bytes and strings, with C escapes
    name: 12            numbers
    name: NAME          enums
    name { ... }        messages
    # to the end of the line is a comment

A text is read by turning it into the binary form, so that each message has one reader. The depth is
limited by the schema, which is finite. Texts are written as Java's printer writes them: one field a
line, and an octal escape for each byte outside printable ASCII.
"""

import re
from collections.abc import Mapping
from typing import Final

from zonekeeper.metadata.formats.malformed import Flaw, MalformedError, UnsupportedError
from zonekeeper.metadata.formats.protobuf import INT64_MAX, Schema, Spec, bytes_field, number_field

#: The quantifiers are possessive: no text can make the pattern backtrack.
_TOKEN: Final = re.compile(
    r"""(?:[ \t\r\n]++|\#[^\n]*+)*+
    (?:(?P<name>[A-Za-z_][A-Za-z0-9_]*+)
      |(?P<number>-?(?:0|[1-9][0-9]{0,18}+)(?![0-9A-Za-z_.]))
      |(?P<string>"(?:[^"\\\n]|\\.)*+"|'(?:[^'\\\n]|\\.)*+')
      |(?P<mark>[:{}])
      |(?P<end>\Z))""",
    re.VERBOSE,
)
_ESCAPE: Final = re.compile(rb"\\(?:([0-3]?[0-7]{1,2})|x([0-9A-Fa-f]{1,2})|(.))", re.DOTALL)
_BY_LETTER: Final = dict(zip(b"abfnrtv\\'\"?", b"\a\b\f\n\r\t\v\\'\"?", strict=True))
_BY_CODE: Final = {
    code: f"\\{letter:c}" for letter, code in _BY_LETTER.items() if letter != ord("?")
}


def quoted(value: bytes) -> str:
    """Write bytes as a quoted string."""
    printable = range(ord(" "), ord("~") + 1)
    return '"{}"'.format(
        "".join(
            _BY_CODE.get(byte) or (f"{byte:c}" if byte in printable else f"\\{byte:03o}")
            for byte in value
        )
    )


def string_line(name: str, value: str) -> str:
    """Write a string field."""
    return f"{name}: {quoted(value.encode())}\n"


def to_binary(text: str, schema: Schema) -> bytes:
    """Turn a text into the binary form of the same message; names must be the schema's."""
    tokens = _Tokens(text)
    binary = _message(tokens, schema)
    tokens.expect("end", schema.name)
    return binary


class _Tokens:
    """The tokens of a text; ``kind`` and ``value`` are those of the next token."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self.kind, self.value = "", ""
        self.advance()

    def advance(self) -> None:
        found = _TOKEN.match(self._text, self._at)
        if found is None or found.lastgroup is None:
            raise MalformedError(Flaw.BAD_TEXT, f"no field can start or go on at {self.where()}")
        self._at = found.end()
        self.kind, self.value = found.lastgroup, found[found.lastgroup]

    def expect(self, kind: str, what: str, value: str | None = None) -> str:
        """Take a token of a kind, or refuse the text."""
        found = self.value
        if self.kind != kind or (value is not None and found != value):
            wanted = value or kind
            raise MalformedError(Flaw.BAD_TEXT, f"{what}: {wanted} expected before {self.where()}")
        if kind != "end":
            self.advance()
        return found

    def where(self) -> str:
        return f"line {self._text.count(chr(10), 0, self._at) + 1}"


def _message(tokens: _Tokens, schema: Schema) -> bytes:
    out = bytearray()
    while tokens.kind == "name":
        name = tokens.expect("name", schema.name)
        spec = schema.by_name.get(name)
        if spec is None:
            raise UnsupportedError(f"{schema.name} has a field {name}, from a newer version")
        out += _field(tokens, spec, f"{schema.name}.{name}")
    return bytes(out)


def _field(tokens: _Tokens, spec: Spec, what: str) -> bytes:
    if isinstance(spec.kind, Schema):
        if tokens.value == ":":
            tokens.advance()
        tokens.expect("mark", what, "{")
        inner = _message(tokens, spec.kind)
        tokens.expect("mark", what, "}")
        return bytes_field(spec.number, inner)
    tokens.expect("mark", what, ":")
    if isinstance(spec.kind, Mapping):
        word = tokens.expect("name", what)
        if word not in spec.kind:
            raise UnsupportedError(f"{what} is {word}, from a newer version")
        return number_field(spec.number, spec.kind[word])
    if spec.is_number:
        number = int(tokens.expect("number", what))
        if not -INT64_MAX - 1 <= number <= INT64_MAX:
            raise MalformedError(Flaw.OUT_OF_RANGE, f"{what} is {number}")
        return number_field(spec.number, number)
    out = bytearray(_unquoted(tokens.expect("string", what)))
    while tokens.kind == "string":  # neighbouring strings are one string
        out += _unquoted(tokens.expect("string", what))
    return bytes_field(spec.number, bytes(out))


def _unquoted(token: str) -> bytes:
    def replace(found: re.Match[bytes]) -> bytes:
        octal, hexadecimal, letter = found.groups()
        if octal is not None:
            return bytes([int(octal, 8)])
        if hexadecimal is not None:
            return bytes([int(hexadecimal, 16)])
        if letter[0] not in _BY_LETTER:
            raise MalformedError(Flaw.BAD_TEXT, f"unknown escape {letter!r}")
        return bytes([_BY_LETTER[letter[0]]])

    return _ESCAPE.sub(replace, token[1:-1].encode())
