"""All batches of a writer that are not done with, in order: kept, written, waiting.

::

      confirmed and gone | kept ... | written ... | waiting ...        | not taken yet
                                    ^ confirmed   ^ written_to         ^ last

*Waiting* batches have no ack quorum. *Written* ones, of ledgers with deferred sync alone, have one
that a power loss may undo, and wait for a force. *Kept* ones are confirmed, and some member could
not be sent them yet. All goes from the front, without a gap, and never back: where members fail,
a written batch may lose its quorum, and gets it again where it stands.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain

from zonekeeper.client.writing.batches import ENTRY_OVERHEAD_BYTES, Batch
from zonekeeper.placement.base.ids import EntryId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.formats import entries, frames


class Flight:
    """The batches under way of one ledger."""

    def __init__(self, confirmed: EntryId, length: int) -> None:
        self.confirmed = confirmed
        #: The ledger's payload bytes up to ``confirmed``.
        self.confirmed_length = length
        #: The last entry that was written by enough members, even if they have not synced it.
        self.written_to = confirmed
        #: The last entry that was taken, and the length up to it.
        self.last = confirmed
        self._length = length
        self.waiting: deque[Batch] = deque()
        self.written: deque[Batch] = deque()
        self.written_bytes = 0
        self.kept: deque[Batch] = deque()
        self.kept_bytes = 0
        #: Written and waiting ones, by their first entries.
        self._by_first: dict[EntryId, Batch] = {}

    @property
    def idle(self) -> bool:
        """Is everything confirmed?"""
        return not self._by_first

    @property
    def unconfirmed(self) -> Iterator[Batch]:
        """Give the batches that are not confirmed, in order."""
        return chain(self.written, self.waiting)

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
        batch = Batch(
            frame=frame,
            length=self._length,
            size_bytes=payload_bytes + ENTRY_OVERHEAD_BYTES * len(payloads),
            since_ms=now_ms,
        )
        self.waiting.append(batch)
        self._by_first[first] = batch

    def ack(self, first: EntryId, position: int, *, deferred: bool) -> bool:
        """Note an ack; False: nothing waits for it."""
        batch = self._by_first.get(first)
        if batch is None:
            return False
        (batch.written if deferred else batch.acked).add(position)
        return True

    def forced(self, position: int, upto: EntryId) -> None:
        """Note that what a position had written up to an entry is durable there."""
        for batch in self.unconfirmed:
            if batch.first > upto:
                break
            if position in batch.written:
                batch.written.remove(position)
                batch.acked.add(position)

    def unack(self, positions: Collection[int]) -> None:
        """Forget what these positions have acknowledged of all that is not confirmed."""
        for batch in self.unconfirmed:
            batch.acked.difference_update(positions)
        self.unwrite(positions)

    def unwrite(self, positions: Collection[int]) -> None:
        """Forget what these positions may have lost with their power."""
        for batch in self.unconfirmed:
            batch.written.difference_update(positions)

    def wait_longer(self, more_ms: int) -> None:
        """Let no batch have waited for so long."""
        for batch in self.waiting:
            batch.since_ms += more_ms

    def complete_to(self, position: int, upto: EntryId, quorums: Quorums) -> bool:
        """Has a position all that it holds up to an entry? What it lacks is likely the latest."""
        for batch in chain(reversed(self.waiting), reversed(self.written)):
            if batch.first <= upto and batch.lacks(position, quorums):
                return False
        return True

    def write(self, is_written: Callable[[Batch], bool]) -> bool:
        """Let batches go from the front of the waiting as long as enough have written them."""
        before = self.written_to
        while self.waiting and is_written(self.waiting[0]):
            batch = self.waiting.popleft()
            self.written_to = batch.last
            self.written.append(batch)
            self.written_bytes += batch.size_bytes
        return self.written_to != before

    def confirm(self, is_enough: Callable[[Batch], bool]) -> bool:
        """Confirm batches from the front as long as they have enough acks; did any?"""
        before = self.confirmed
        while (stage := self.written or self.waiting) and is_enough(stage[0]):
            batch = stage.popleft()
            assert batch.first == self.confirmed + 1, "confirmed without a gap"
            if stage is self.written:
                self.written_bytes -= batch.size_bytes
            del self._by_first[batch.first]
            self.confirmed = batch.last
            self.written_to = max(self.written_to, batch.last)
            self.confirmed_length = batch.length
            self.kept.append(batch)
            self.kept_bytes += batch.size_bytes
        return self.confirmed != before

    def since(self, following: EntryId) -> Iterator[Batch]:
        """Give what is here of the batches from an entry on; looked for from the end."""
        found = []
        for batch in chain(reversed(self.waiting), reversed(self.written), reversed(self.kept)):
            if batch.first < following:
                break
            found.append(batch)
        return reversed(found)

    def let_go(self, wanted: EntryId | None) -> int:
        """Drop kept batches before an entry (None: all of them); give their bytes."""
        dropped = 0
        while self.kept and (wanted is None or self.kept[0].last < wanted):
            dropped += self.kept.popleft().size_bytes
        self.kept_bytes -= dropped
        return dropped

    def abandon(self) -> int:
        """Drop everything; give its bytes."""
        dropped = self.let_go(None) + sum(batch.size_bytes for batch in self.unconfirmed)
        self.waiting.clear()
        self.written.clear()
        self.written_bytes = 0
        self._by_first.clear()
        return dropped
