"""The parts of a carrier, whatever its items mean: kinds, spelled items, frames. Pure.

``carriers`` has the picture.
"""

import enum
import struct
from collections.abc import Container
from typing import Final, NamedTuple

from zonekeeper.wire.formats import entries, frames
from zonekeeper.wire.formats.errors import Fault
from zonekeeper.wire.formats.frames import Frame
from zonekeeper.wire.formats.headers import HeaderStart

START: Final = HeaderStart(what="carrier", magic=b"ZKCR", version=3, header_bytes=24)

#: Kind, flags, bytes of the tail, word, number.
ITEM: Final = struct.Struct(">BBHIQ")


class ItemKind(enum.IntEnum):
    """The kinds of items."""

    APPEND = 1
    WRITE_LAC = 2
    HELLO = 3
    ACKED = 4
    REFUSED = 5
    READ = 6
    READ_REPLY = 7
    OPEN = 8


class RawItem(NamedTuple):
    """An item without its frames, in its spelled form; a parsed one has had its bounds checked."""

    kind: int
    number: int
    flags: int = 0
    word: int = 0
    fixed: bytes = b""
    tail: bytes = b""

    def check(self, *, flags: int = 0, word: bool = False, tail: Container[int] = (0,)) -> None:
        """Refuse fields that this kind of item does not use; ``flags`` are those that it uses."""
        if self.flags & ~flags or (self.word and not word):
            raise START.bad(
                Fault.RESERVED, f"item kind {self.kind}, {self.flags=:#x}, {self.word=}"
            )
        if len(self.tail) not in tail:
            raise START.bad(
                Fault.LENGTH, f"item kind {self.kind} with a tail of {len(self.tail)} bytes"
            )


class CarrierFrames:
    """The frames of a carrier, which are taken one after the other."""

    __slots__ = ("_at", "_view")

    def __init__(self, view: memoryview, start: int) -> None:
        self._view = view
        self._at = start

    def take(self) -> Frame:
        """Check the next frame, and give it; raises ``FormatError``."""
        rest = self._view[self._at :]
        size = frames.measure(rest)
        self._at += size
        return frames.parse(rest[:size])

    def end(self) -> None:
        """Raise ``FormatError`` if there is more."""
        if self._at != len(self._view):
            raise START.bad(Fault.TRAILING, f"{len(self._view) - self._at} bytes after the frames")


def checked_id(value: int) -> int:
    """Give a number that can be a ledger's or an entry's id; raises ``FormatError``."""
    if value >= entries.ID_END:
        raise START.bad(Fault.RANGE, f"{value} is not a ledger or entry id")
    return value
