"""Entries that were appended and are not taken yet, cut into batches as they are appended.

A batch ends where its frame would exceed the size that a carrier aims at. So many entries at once
make full batches, and a single entry is a batch of its own. The cost of an append does not grow
with the number of pending entries.
"""

from collections import deque
from typing import Final

from zonekeeper.wire.formats import carriers, entries, frames
from zonekeeper.wire.formats.digests import DIGEST_BYTES_MAX

#: A frame of this size, with the rest of its item, fills an answer to a reader up to the aim. A
#: writer's carrier holds several such frames.
BATCH_BYTES_AIM: Final = carriers.CARRIER_BYTES_AIM - 256
#: The most entries of a batch. Sealing more at once would block the event loop for too long.
BATCH_ENTRIES_MAX: Final = 1 << 13
#: The most bytes that an entry takes in a frame beside its payload.
ENTRY_BYTES: Final = (
    entries.HEADER_BYTES + DIGEST_BYTES_MAX + frames.LENGTH_BYTES + frames.LISTED_ID_BYTES
)


class PendingEntries:
    """The payloads of the pending entries, in order."""

    __slots__ = ("_batches", "_last", "_last_bytes")

    def __init__(self) -> None:
        self._batches: deque[list[bytes]] = deque()
        #: The last batch of ``_batches``, which still grows. Its content means nothing while
        #: ``_batches`` is empty.
        self._last: list[bytes] = []
        self._last_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._batches)

    @property
    def has_full(self) -> bool:
        """Is the next batch full? A full batch does not grow by waiting."""
        return len(self._batches) > 1

    def put(self, payload: bytes) -> bool:
        """Add the next entry; True: the entry begins a new batch."""
        size_bytes = len(payload) + ENTRY_BYTES
        begins = (
            not self._batches
            or self._last_bytes + size_bytes > BATCH_BYTES_AIM
            or len(self._last) >= BATCH_ENTRIES_MAX
        )
        if begins:
            self._last, self._last_bytes = [], 0
            self._batches.append(self._last)
        self._last.append(payload)
        self._last_bytes += size_bytes
        return begins

    def take(self) -> list[bytes]:
        """Remove the next batch and give it; the caller knows that there is one."""
        return self._batches.popleft()

    def clear(self) -> None:
        """Drop all pending entries."""
        self._batches.clear()
