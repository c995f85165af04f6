"""The flight: all batches that a writer still holds, in order: kept, written, waiting.

::

      confirmed and gone | kept ... | written ... | waiting ...        | not taken yet
                                    ^ confirmed   ^ written_to         ^ last

A *waiting* batch has no ack quorum yet. A *written* batch has one that a power loss may undo, and
waits for a force; only ledgers with deferred sync have such batches. A *kept* batch is confirmed,
but was not yet put into the lane of some member.

Batches move forward only, from the front, without a gap. If members fail, a written batch may lose
its quorum. It then stays among the written ones until it has a quorum again.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain

from zonekeeper.client.writing.batches import ENTRY_OVERHEAD_BYTES, Batch
from zonekeeper.placement.base.ids import EntryId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.formats import entries, frames


class Flight:
    """The batches of one ledger; ``confirmed <= written_to <= last``."""

    def __init__(self, confirmed: EntryId, length: int) -> None:
        self.confirmed = confirmed
        #: The ledger's payload bytes up to ``confirmed``.
        self.confirmed_length = length
        #: The last entry up to which enough members have written, synced or not.
        self.written_to = confirmed
        #: The last entry that was taken.
        self.last = confirmed
        #: The ledger's payload bytes up to ``last``.
        self._length = length
        self.waiting: deque[Batch] = deque()
        self.written: deque[Batch] = deque()
        self.written_bytes = 0
        self.kept: deque[Batch] = deque()
        self.kept_bytes = 0
        #: The written and waiting batches, by their first entries.
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
        """Note an ack; False: no unconfirmed batch begins at ``first``."""
        batch = self._by_first.get(first)
        if batch is None:
            return False
        (batch.written if deferred else batch.acked).add(position)
        return True

    def forced(self, position: int, upto: EntryId) -> None:
        """Turn *written* of a position into an ack, for all batches that begin up to ``upto``."""
        for batch in self.unconfirmed:
            if batch.first > upto:
                break
            if position in batch.written:
                batch.written.remove(position)
                batch.acked.add(position)

    def unack(self, positions: Collection[int]) -> None:
        """Forget what these positions acked or wrote of the batches that are not confirmed."""
        for batch in self.unconfirmed:
            batch.acked.difference_update(positions)
        self.unwrite(positions)

    def unwrite(self, positions: Collection[int]) -> None:
        """Forget *written* of these positions, in the batches that are not confirmed."""
        for batch in self.unconfirmed:
            batch.written.difference_update(positions)

    def wait_longer(self, more_ms: int) -> None:
        """Take ``more_ms`` off the time that each batch has waited."""
        for batch in self.waiting:
            batch.since_ms += more_ms

    def complete_to(self, position: int, upto: EntryId, quorums: Quorums) -> bool:
        """Has a position written or acked all that it holds up to an entry?"""
        # From the end: a batch that the position lacks is most likely among the newest.
        for batch in chain(reversed(self.waiting), reversed(self.written)):
            if batch.first <= upto and batch.lacks(position, quorums):
                return False
        return True

    def write(self, is_written: Callable[[Batch], bool]) -> bool:
        """Move batches from the front of waiting to written while ``is_written``; did any move?"""
        before = self.written_to
        while self.waiting and is_written(self.waiting[0]):
            batch = self.waiting.popleft()
            self.written_to = batch.last
            self.written.append(batch)
            self.written_bytes += batch.size_bytes
        return self.written_to != before

    def confirm(self, is_enough: Callable[[Batch], bool]) -> bool:
        """Confirm batches from the front while they have enough acks; was any confirmed?"""
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
        """Give the batches that begin at an entry or later, in order; searched from the end."""
        found = []
        for batch in chain(reversed(self.waiting), reversed(self.written), reversed(self.kept)):
            if batch.first < following:
                break
            found.append(batch)
        return reversed(found)

    def let_go(self, wanted: EntryId | None) -> int:
        """Drop the kept batches before an entry (None: all kept batches); give their bytes."""
        dropped = 0
        while self.kept and (wanted is None or self.kept[0].last < wanted):
            dropped += self.kept.popleft().size_bytes
        self.kept_bytes -= dropped
        return dropped

    def abandon(self) -> int:
        """Drop all batches; give their bytes."""
        dropped = self.let_go(None) + sum(batch.size_bytes for batch in self.unconfirmed)
        self.waiting.clear()
        self.written.clear()
        self.written_bytes = 0
        self._by_first.clear()
        return dropped
