"""The errors of stored bytes: one for damage, one for bytes of a later version.

A reader never guesses. For bytes that break their format it raises ``MalformedError``, which names
the broken rule. Bytes may also keep the rules of the format and have a content that this version
does not know. For these it raises ``UnsupportedError``: they need no repair, only a newer
program. A reader raises no other error, whatever the bytes are.
"""

import enum
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from zonekeeper.placement.base.troubles import Trouble

#: ZooKeeper's own limit for a node (``jute.maxbuffer``): longer bytes are never parsed.
VALUE_SIZE_BYTES_MAX: Final = 1 << 20


class Flaw(enum.StrEnum):
    """The rule that damaged bytes break."""

    TOO_LARGE = "too large"
    TRUNCATED = "truncated"
    TRAILING = "trailing bytes"
    BAD_HEADER = "bad header"
    BAD_NUMBER = "bad number"
    BAD_TEXT = "bad text"
    WRONG_TYPE = "wrong type of field"
    MISSING = "missing field"
    DUPLICATE = "duplicate field"
    OUT_OF_RANGE = "value out of range"
    INCONSISTENT = "fields contradict each other"
    BAD_CHECKSUM = "bad checksum"


class UnreadableError(Trouble):
    """Stored bytes that this program cannot read; reading them again will not help."""

    #: The place of the bytes, if the caller knew it.
    where: str = ""

    def __str__(self) -> str:
        """Give the place, if it is known, and the fault."""
        problem = super().__str__()
        return f"{self.where}: {problem}" if self.where else problem


class MalformedError(UnreadableError):
    """Stored bytes that break their format."""

    def __init__(self, flaw: Flaw, detail: str) -> None:
        super().__init__(f"{flaw}: {detail}")
        self.flaw = flaw


class UnsupportedError(UnreadableError):
    """Stored bytes of a version, or with a field, that this program does not know."""


@contextmanager
def stored_at(path: str, store: str) -> Iterator[None]:
    """Add to an error of a reader the node that had the bytes; a reader knows only bytes."""
    try:
        yield
    except UnreadableError as error:
        error.where = error.where or f"{path} in {store}"
        raise


def check_size(raw: bytes, what: str) -> None:
    """Refuse bytes that no node can hold, before memory is allocated for them."""
    if len(raw) > VALUE_SIZE_BYTES_MAX:
        raise MalformedError(
            Flaw.TOO_LARGE, f"{what} of {len(raw)} bytes; a node holds {VALUE_SIZE_BYTES_MAX}"
        )
