"""What an application gives to append: entries as binary data, one or several.

An entry is ``bytes`` from here on, so that a buffer that the application changes later changes no
entry. A call that appends several entries knows which one was the last, whatever ends it.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from zonekeeper.client.base import errors
from zonekeeper.placement.base.ids import EntryId

Data = bytes | bytearray | memoryview


def as_bytes(data: Data) -> bytes:
    """Copy an entry to ``bytes``, unless it is; raises TypeError for anything but binary data.

    ``bytes`` itself would accept a number.
    """
    if isinstance(data, bytes):
        return data
    if not isinstance(data, bytearray | memoryview):
        raise TypeError(
            f"an entry is bytes, a bytearray or a memoryview, not {type(data).__name__}; "
            "it was not appended"
        )
    return bytes(data)


def as_many(many: Iterable[Data]) -> Iterable[Data]:
    """Check an iterable of entries; raises TypeError for one entry, which iterates over numbers."""
    if isinstance(many, bytes | bytearray | memoryview):
        raise TypeError(
            f"append_many takes several entries, such as a list of bytes, not one of "
            f"{type(many).__name__}: use append; nothing was appended"
        )
    return many


@dataclass(slots=True)
class AppendedSoFar:
    """The last entry that a call has appended; at first the last one before the call."""

    last: EntryId


@contextmanager
def several(before: EntryId) -> Iterator[AppendedSoFar]:
    """Append several entries in the block. A failure after the first one is ``maybe_applied``."""
    done = AppendedSoFar(before)
    try:
        yield done
    except errors.ClientError as error:
        error.maybe_applied = error.maybe_applied or done.last != before
        raise
