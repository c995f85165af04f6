"""The id of a message in a log: the ledger, the entry, and the place in the entry's batch. Pure.

    text     17:204:3              decimal, no leading zeros
    bytes    0        8        16      20
             | ledger | entry  | index |       unsigned, big-endian

Ids of one log ascend with its messages, because a log never gets a ledger whose id is not above
that of its last one. The 20 bytes sort like the ids. The texts do not. Each id has one text.
"""

import re
import struct
from dataclasses import dataclass
from typing import Final

from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.placement.base.troubles import Refusal

MESSAGE_ID_BYTES: Final = 20
#: ``0 <= ledger <= LONG_MAX`` and ``0 <= entry <= LONG_MAX``.
LONG_MAX: Final = (1 << 63) - 1
#: ``0 <= index <= INDEX_MAX``.
INDEX_MAX: Final = (1 << 32) - 1

_BYTES: Final = struct.Struct(">QQI")
_NUMBER: Final = "(0|[1-9][0-9]{0,18})"
_TEXT: Final = re.compile(f"{_NUMBER}:{_NUMBER}:{_NUMBER}")
_SHOWN_MAX: Final = 80


class BadMessageIdError(Refusal, ValueError):
    """This is not the id of a message."""


@dataclass(frozen=True, slots=True, order=True)
class MessageId:
    """The id of a message; ids compare as their messages stand in the log."""

    ledger: LedgerId
    entry: EntryId
    index: int

    def __post_init__(self) -> None:
        if not (0 <= self.ledger <= LONG_MAX and 0 <= self.entry <= LONG_MAX):
            raise BadMessageIdError(
                f"{self.ledger}:{self.entry}:{self.index} is not the id of a message: ledger and "
                f"entry are numbers from 0 to {LONG_MAX}"
            )
        if not 0 <= self.index <= INDEX_MAX:
            raise BadMessageIdError(
                f"{self.ledger}:{self.entry}:{self.index} is not the id of a message: the place in "
                f"a batch is a number from 0 to {INDEX_MAX}"
            )

    def __str__(self) -> str:
        return f"{self.ledger}:{self.entry}:{self.index}"

    def __bytes__(self) -> bytes:
        """Give the 20 bytes."""
        return _BYTES.pack(self.ledger, self.entry, self.index)


def parse(text: str) -> MessageId:
    """Read the text of an id; raises ``BadMessageIdError``."""
    found = _TEXT.fullmatch(text)
    if found is None:
        raise BadMessageIdError(
            f"{text[:_SHOWN_MAX]!r} is not the id of a message: it looks like 17:204:3 (ledger, "
            "entry, place in the entry's batch)"
        )
    ledger, entry, index = map(int, found.groups())
    return MessageId(LedgerId(ledger), EntryId(entry), index)


def from_bytes(raw: bytes) -> MessageId:
    """Read the bytes of an id; raises ``BadMessageIdError``."""
    if len(raw) != MESSAGE_ID_BYTES:
        raise BadMessageIdError(
            f"{len(raw)} bytes are not the id of a message: it has {MESSAGE_ID_BYTES}"
        )
    ledger, entry, index = _BYTES.unpack(raw)
    return MessageId(LedgerId(ledger), EntryId(entry), index)
