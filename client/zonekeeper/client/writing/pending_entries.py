"""What was appended and is not taken yet, cut into batches as it comes in.

A batch ends where its frame would outgrow a carrier's aim. So a flood finds full batches, an entry
that comes alone is a batch of its own, and appending costs the same however much is pending.
"""

from collections import deque
from typing import Final

from zonekeeper.wire.formats import carriers, entries, frames
from zonekeeper.wire.formats.digests import DIGEST_BYTES_MAX

#: A frame of this size and its item fill an answer to a reader up to the aim; a writer's carrier
#: takes several.
BATCH_BYTES_AIM: Final = carriers.CARRIER_BYTES_AIM - 256
#: Sealing more at once would hold up the loop for too long.
BATCH_ENTRIES_MAX: Final = 1 << 13
#: What an entry takes in a frame beside its payload, at most.
ENTRY_BYTES: Final = (
    entries.HEADER_BYTES + DIGEST_BYTES_MAX + frames.LENGTH_BYTES + frames.LISTED_ID_BYTES
)


class PendingEntries:
    """Payloads in the order of their entries."""

    __slots__ = ("_batches", "_last", "_last_bytes")

    def __init__(self) -> None:
        self._batches: deque[list[bytes]] = deque()
        #: The batch that still grows; the last of ``_batches``, if there is one.
        self._last: list[bytes] = []
        self._last_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._batches)

    @property
    def has_full(self) -> bool:
        """Is the next batch full? Then it does not grow by waiting."""
        return len(self._batches) > 1

    def put(self, payload: bytes) -> bool:
        """Add the next entry; True: it begins a batch."""
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
        """Give the next batch; there is one."""
        return self._batches.popleft()

    def clear(self) -> None:
        """Let go of everything."""
        self._batches.clear()
