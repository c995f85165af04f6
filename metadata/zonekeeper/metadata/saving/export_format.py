r"""A whole root as text: one line a node, in an order that does not depend on the store.

    zonekeeper-metadata \t 1 \t <INSTANCEID> \t <root>
    "/LAYOUT" \t text \t "2\norg.apache..."              value as a JSON string
    "/00/0000/L0001" \t base64 \t Qm9va2ll...            value that is not printable text
    "/available" \t empty
    ".zonekeeper/policy" \t text \t "{...}"              a node beside the root
    end \t <number of nodes> \t <SHA-256 of all lines before, in hexadecimal>

A path here is the part after the root. Parents come before their children, and siblings are sorted
by name. The root's own tree comes before ours. Ephemeral nodes are left out, because they belong to
sessions. A file that was cut short lacks the last line, and is refused as a whole.
"""

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TextIO

from zonekeeper.metadata.formats.malformed import (
    VALUE_SIZE_BYTES_MAX,
    Flaw,
    MalformedError,
    UnsupportedError,
)

_MAGIC: Final = "zonekeeper-metadata"
_VERSION: Final = 1
#: Enough for a value in base64 with its path and the rest of the line.
LINE_LENGTH_MAX: Final = VALUE_SIZE_BYTES_MAX * 2

_SUFFIX: Final = re.compile(r"(?:\.zonekeeper)?(?:/[^/]+)*")


@dataclass(frozen=True, slots=True)
class ExportHeader:
    """The origin of an export: the cluster's instance and its root."""

    instance: str
    root: str


@dataclass(frozen=True, slots=True)
class ExportNode:
    """One node: the part of its path after the root, and its value."""

    suffix: str
    value: bytes

    @property
    def order(self) -> tuple[str, ...]:
        """A key for the order of nodes in an export."""
        return tuple(self.suffix.split("/"))


@dataclass(frozen=True, slots=True)
class ExportFooter:
    """The last line of an export."""

    nodes: int
    checksum: str


class ExportWriter:
    """Makes the lines of an export, and keeps their number and their checksum."""

    def __init__(self) -> None:
        self._sum = hashlib.sha256()
        self._nodes = 0

    def header(self, header: ExportHeader) -> str:
        """Give the first line."""
        return self._line([_MAGIC, str(_VERSION), header.instance, header.root])

    def node(self, node: ExportNode) -> str:
        """Give the line of a node."""
        self._nodes += 1
        return self._line([json.dumps(node.suffix, ensure_ascii=False), *_encoded(node.value)])

    def footer(self) -> str:
        """Give the last line."""
        return f"end\t{self._nodes}\t{self._sum.hexdigest()}\n"

    def _line(self, parts: list[str]) -> str:
        line = "\t".join(parts) + "\n"
        self._sum.update(line.encode())
        return line


def lines_of(text: TextIO) -> Iterator[str]:
    """Read the lines of a file; a line that is too long is not read to its end."""
    try:
        while line := text.readline(LINE_LENGTH_MAX + 1):
            yield line
    except UnicodeDecodeError as error:
        raise MalformedError(Flaw.BAD_TEXT, f"the file is not UTF-8: {error}") from error


def read(lines: Iterable[str]) -> Iterator[ExportHeader | ExportNode | ExportFooter]:
    """Read an export: its header, its nodes in order, and at last its footer.

    Do not use anything before the footer has come: it shows that nothing is missing or changed.
    """
    total, nodes = hashlib.sha256(), 0
    last: tuple[str, ...] = ()
    numbered = enumerate(lines, 1)
    for number, line in numbered:
        parts = _parts(line, number)
        if number == 1:
            yield _header(parts)
        elif parts[0] == "end":
            yield _footer(parts, nodes, total.hexdigest())
            if next(numbered, None) is not None:
                raise MalformedError(Flaw.TRAILING, f"lines behind the end, which is line {number}")
            return
        else:
            node = _node(parts, number)
            if node.order <= last:
                raise MalformedError(Flaw.INCONSISTENT, f"line {number} is out of order")
            nodes, last = nodes + 1, node.order
            yield node
        total.update(line.encode())
    raise MalformedError(Flaw.TRUNCATED, "the export has no end: it was cut short")


def _encoded(value: bytes) -> list[str]:
    if not value:
        return ["empty"]
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        text = "\x00"
    if all(char.isprintable() or char in "\n\t" for char in text):
        return ["text", json.dumps(text, ensure_ascii=False)]
    return ["base64", base64.b64encode(value).decode("ascii")]


def _parts(line: str, number: int) -> list[str]:
    if len(line) > LINE_LENGTH_MAX:
        raise MalformedError(Flaw.TOO_LARGE, f"line {number} has {len(line)} characters")
    if not line.endswith("\n"):
        raise MalformedError(Flaw.TRUNCATED, f"line {number} has no end")
    return line[:-1].split("\t")


def _header(parts: list[str]) -> ExportHeader:
    match parts:
        case [magic, version, instance, root] if (magic, version) == (_MAGIC, str(_VERSION)):
            return ExportHeader(instance, root)
        case [magic, version, *_] if magic == _MAGIC and version.isdecimal():
            if version != str(_VERSION):
                raise UnsupportedError(
                    f"an export of version {version}; this program reads {_VERSION}"
                )
    raise MalformedError(Flaw.BAD_HEADER, "this is no export of a cluster's metadata")


def _node(parts: list[str], number: int) -> ExportNode:
    where = f"line {number}"
    match parts:
        case [suffix, "empty"]:
            value = b""
        case [suffix, "text", text]:
            value = _json_text(text, where).encode("utf-8", "strict")
        case [suffix, "base64", text]:
            try:
                value = base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError) as error:
                raise MalformedError(Flaw.BAD_TEXT, f"{where}: no base64") from error
        case _:
            raise MalformedError(Flaw.BAD_TEXT, f"{where} is no node")
    path = _json_text(suffix, where)
    if not _SUFFIX.fullmatch(path):
        raise MalformedError(Flaw.OUT_OF_RANGE, f"{where}: {path!r} is no path")
    if parts[1:] != _encoded(value):
        raise MalformedError(Flaw.INCONSISTENT, f"{where}: its value is written in another way")
    return ExportNode(path, value)


def _footer(parts: list[str], nodes: int, checksum: str) -> ExportFooter:
    match parts:
        case [_, count, said] if said == checksum and count == str(nodes):
            return ExportFooter(nodes, checksum)
        case [_, count, _] if count != str(nodes):
            raise MalformedError(Flaw.INCONSISTENT, f"{nodes} nodes, and the end says {count[:20]}")
    raise MalformedError(Flaw.BAD_CHECKSUM, "the export was changed since it was written")


def _json_text(text: str, where: str) -> str:
    try:
        value = json.loads(text)
        if isinstance(value, str):
            value.encode("utf-8")
            return value
    except (ValueError, RecursionError) as error:
        raise MalformedError(Flaw.BAD_TEXT, f"{where}: {error}") from error
    raise MalformedError(Flaw.WRONG_TYPE, f"{where}: not a text")
