"""All batches of a writer that are not done with, in order: first the kept, then the waiting.

::

      confirmed and gone | kept ... | waiting ...        | not taken yet
                                    ^ confirmed          ^ last

*Waiting* batches are not confirmed. *Kept* ones are, and some member could not be sent them yet.
Confirmation goes from the front of the waiting, without a gap, and never back.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence

from zonekeeper.client.batches import ENTRY_OVERHEAD_BYTES, Batch
from zonekeeper.placement.ids import EntryId
from zonekeeper.wire import entries, frames


class Flight:
    """The batches under way of one ledger."""

    def __init__(self, confirmed: EntryId, length: int) -> None:
        self.confirmed = confirmed
        #: The ledger's payload bytes up to ``confirmed``.
        self.confirmed_length = length
        #: The last entry that was taken, and the length up to it.
        self.last = confirmed
        self._length = length
        self.waiting: deque[Batch] = deque()
        self.kept: deque[Batch] = deque()
        self.kept_bytes = 0

    def take(
        self,
        sealer: entries.Sealer,
        payloads: Sequence[bytes],
        lac: EntryId,
        flags: frames.Flags,
        now_ms: int,
    ) -> None:
        """Seal the next entries as a batch."""
        first = EntryId(self.last + 1)
        frame = frames.seal(sealer, first, lac, self._length, payloads, flags)
        payload_bytes = sum(map(len, payloads))
        self.last = frame.last
        self._length += payload_bytes
        self.waiting.append(
            Batch(
                frame=frame,
                length=self._length,
                size_bytes=payload_bytes + ENTRY_OVERHEAD_BYTES * len(payloads),
                since_ms=now_ms,
            )
        )

    def ack(self, first: EntryId | None, position: int) -> bool:
        """Note an ack; False: nothing waits for it."""
        for batch in self.waiting:
            if batch.first == first:
                batch.acked.add(position)
                return True
        return False

    def unack(self, positions: Collection[int]) -> None:
        """Forget what these positions have acknowledged of all that waits."""
        for batch in self.waiting:
            batch.acked.difference_update(positions)

    def confirm(self, is_enough: Callable[[Batch], bool]) -> bool:
        """Confirm batches from the front as long as they have enough acks; did any?"""
        before = self.confirmed
        while self.waiting and is_enough(self.waiting[0]):
            batch = self.waiting.popleft()
            assert batch.first == self.confirmed + 1, "confirmed without a gap"
            self.confirmed = batch.last
            self.confirmed_length = batch.length
            self.kept.append(batch)
            self.kept_bytes += batch.size_bytes
        return self.confirmed != before

    def since(self, following: EntryId) -> Iterator[Batch]:
        """Give what is here of the batches from an entry on."""
        for batches in (self.kept, self.waiting):
            for batch in batches:
                if batch.first >= following:
                    yield batch

    def let_go(self, wanted: EntryId | None) -> int:
        """Drop kept batches before an entry (None: all of them); give their bytes."""
        dropped = 0
        while self.kept and (wanted is None or self.kept[0].last < wanted):
            dropped += self.kept.popleft().size_bytes
        self.kept_bytes -= dropped
        return dropped

    def abandon(self) -> int:
        """Drop everything; give its bytes."""
        dropped = self.let_go(None) + sum(batch.size_bytes for batch in self.waiting)
        self.waiting.clear()
        return dropped
