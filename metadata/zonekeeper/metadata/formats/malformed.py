"""What is wrong with stored bytes: one error for damage, one for bytes of a later version.

A reader never guesses. Bytes that break their format raise ``MalformedError`` and say which rule
they break. Bytes that keep the rules of the container but say what this version does not know
raise ``UnsupportedError``, so that nobody repairs what only needs a newer program. A reader raises
nothing else, whatever the bytes are.
"""

import enum
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from zonekeeper.placement.base.troubles import Trouble

#: ZooKeeper's own limit of a node (``jute.maxbuffer``): nothing longer is ever parsed.
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

    #: Where the bytes stand, as far as whoever read them knew.
    where: str = ""

    def __str__(self) -> str:
        """Say where, and what is wrong."""
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
    """Say in an error of a reader, who knows only bytes, which node they are the value of."""
    try:
        yield
    except UnreadableError as error:
        error.where = error.where or f"{path} in {store}"
        raise


def check_size(raw: bytes, what: str) -> None:
    """Refuse what no node can hold, before anything is allocated for it."""
    if len(raw) > VALUE_SIZE_BYTES_MAX:
        raise MalformedError(
            Flaw.TOO_LARGE, f"{what} of {len(raw)} bytes; a node holds {VALUE_SIZE_BYTES_MAX}"
        )
