"""The messages of a writer that are not acknowledged: unsent, or in a batch on its way. Pure.

Sequences are given out densely, and batches take messages in order. A batch is made of what is
pending: as many messages as fit. At a rotation batches of two ledgers are on their way. A ledger
confirms its own batches in order. A batch is acknowledged only when all batches before it are
confirmed, those of the ledger before included: what the new ledger holds counts for nothing while
the old one may still lose something.

When a ledger has failed, the next one gets exactly the messages that the log turned out not to hold
(``moved``). A batch is one entry, so a ledger holds all of a batch or nothing of it.

With deferred sync an ack quorum first has a batch in memory only: then the ledger has *written* it,
and confirms it when it was forced. A message that is written counts as stored, and is kept here
until it is confirmed. So what a loss of power takes from bookies is sent again.

    acked <= stored <= sent <= given    sequences: confirmed below, and so on
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from zonekeeper.log.base.log_figures import LogWriterFigures
from zonekeeper.log.formats import batches
from zonekeeper.log.formats.messages import LogMessage
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.placement.base.ids import EntryId, LedgerId

#: A batch of so many bytes is full. Bookies take a few large entries at less cost than many small
#: ones; a larger batch would hold up the batches behind it.
BATCH_BYTES_AIM: Final = 1 << 20
#: The ids of so many acknowledged batches are remembered.
REMEMBERED_MAX: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingBatch:
    """Messages that go into one entry."""

    first: int
    many: Sequence[LogMessage]
    size_bytes: int

    @property
    def end(self) -> int:
        """The sequence after its last message."""
        return self.first + len(self.many)


@dataclass(frozen=True, slots=True, kw_only=True)
class SentBatch:
    """A batch that has an entry."""

    batch: OutgoingBatch
    ledger: LedgerId
    entry: EntryId


@dataclass(frozen=True, slots=True)
class _Stored:
    """Where the messages of an acknowledged batch are; the messages themselves are not kept."""

    first: int
    end: int
    ledger: LedgerId
    entry: EntryId


@dataclass(slots=True)
class _Progress:
    """How far a ledger is: ``confirmed <= written <= sent``, each the last such entry."""

    sent: EntryId
    written: EntryId
    confirmed: EntryId


class Unsent:
    """The messages that a writer holds, by their sequences."""

    def __init__(self, first: int, figures: LogWriterFigures | None = None) -> None:
        self.given = first
        self.stored = first
        self.acked = first
        self.used_bytes = 0
        self._figures = figures or LogWriterFigures()
        #: The batch that takes messages, and those before it, which are full.
        self._filling: list[LogMessage] = []
        self._filling_bytes = 0
        self._full: deque[OutgoingBatch] = deque()
        #: How many batches were filled in all.
        self.filled = 0
        #: Batches of a ledger that failed, to be sent before anything that is pending.
        self._again: deque[OutgoingBatch] = deque()
        #: Not confirmed; and those of them that are not stored.
        self._sent: deque[SentBatch] = deque()
        self._unstored: deque[SentBatch] = deque()
        #: Of each ledger that has not confirmed everything.
        self._progress: dict[LedgerId, _Progress] = {}
        self._remembered: deque[_Stored] = deque(maxlen=REMEMBERED_MAX)

    @property
    def has_unsent(self) -> bool:
        """Is there anything to send?"""
        return bool(self._filling or self._full or self._again)

    @property
    def has_full(self) -> bool:
        """Is a batch to be sent that gains nothing by waiting?"""
        return bool(self._full or self._again)

    def in_flight(self, ledger: LedgerId) -> int:
        """Give the number of batches that a ledger was sent and has not written."""
        progress = self._progress.get(ledger)
        return progress.sent - progress.written if progress else 0

    def unconfirmed(self, ledger: LedgerId) -> int:
        """Give the number of batches that a ledger was sent and has not confirmed."""
        progress = self._progress.get(ledger)
        return progress.sent - progress.confirmed if progress else 0

    def first_sent(self, ledger: LedgerId) -> EntryId | None:
        """Give the entry of the first batch that a ledger has not written."""
        progress = self._progress.get(ledger)
        if progress is None or progress.written == progress.sent:
            return None
        return EntryId(progress.written + 1)

    def append(self, message: LogMessage, size_bytes: int) -> int:
        """Take a message, and give its sequence."""
        if not self._fits(1, size_bytes):
            self._full.append(self._filled())
            self.filled += 1
        self._filling.append(message)
        self._filling_bytes += size_bytes
        self.used_bytes += size_bytes
        self.given += 1
        return self.given - 1

    def extend(self, many: Sequence[LogMessage], size_bytes: int) -> bool:
        """Take messages that all go into the batch that is filled now; False: they do not fit."""
        if self._filling_bytes + size_bytes > BATCH_BYTES_AIM or not self._fits(
            len(many), size_bytes
        ):
            return False
        self._filling += many
        self._filling_bytes += size_bytes
        self.used_bytes += size_bytes
        self.given += len(many)
        return True

    def take(self) -> OutgoingBatch:
        """Take the next batch to send; the caller has seen that there is one."""
        if self._again:
            return self._again.popleft()
        return self._full.popleft() if self._full else self._filled()

    def sent(self, batch: OutgoingBatch, ledger: LedgerId, entry: EntryId) -> None:
        """Note the entry that a batch was appended as."""
        one = SentBatch(batch=batch, ledger=ledger, entry=entry)
        self._sent.append(one)
        self._unstored.append(one)
        progress = self._progress.get(ledger)
        if progress is None:
            before = EntryId(entry - 1)
            self._progress[ledger] = _Progress(sent=entry, written=before, confirmed=before)
        else:
            assert entry == progress.sent + 1, "the batches of a ledger have consecutive entries"
            progress.sent = entry

    def put_back(self, batch: OutgoingBatch) -> None:
        """Put back a batch that was taken and not appended."""
        self._again.appendleft(batch)

    def written(self, ledger: LedgerId, entry: EntryId) -> None:
        """Note that an ack quorum has everything of a ledger up to an entry, perhaps in memory."""
        if (progress := self._progress.get(ledger)) is not None:
            progress.written = max(progress.written, min(entry, progress.sent))
        while self._unstored and self._is_stored(self._unstored[0]):
            self.stored = self._unstored.popleft().batch.end

    def confirmed(self, ledger: LedgerId, entry: EntryId) -> None:
        """Note that a ledger has confirmed everything up to an entry."""
        progress = self._progress.get(ledger)
        if progress is not None:
            progress.confirmed = max(progress.confirmed, min(entry, progress.sent))
            if progress.confirmed == progress.sent:
                del self._progress[ledger]
        while self._sent and self._is_confirmed(self._sent[0]):
            self._acknowledge(self._sent.popleft())
        self.written(ledger, entry)

    def moved(self, ledger_end: int) -> None:
        """Note that the last ledger of the log ended before the message with a sequence.

        What the log holds is acknowledged. The rest is sent again, in the same batches.
        """
        while self._sent and self._sent[0].batch.end <= ledger_end:
            self._acknowledge(self._sent.popleft())
        assert self.acked == ledger_end, f"a ledger ended at {ledger_end}, inside of a batch"
        self.stored = self.acked
        self._again.extendleft(reversed([one.batch for one in self._sent]))
        self._sent.clear()
        self._unstored.clear()
        self._progress.clear()

    def id_of(self, sequence: int) -> MessageId | None:
        """Give the id of an acknowledged message; None: it is not remembered any more."""
        low, high = 0, len(self._remembered)
        while low < high:
            middle = (low + high) // 2
            if self._remembered[middle].end <= sequence:
                low = middle + 1
            else:
                high = middle
        if low == len(self._remembered) or self._remembered[low].first > sequence:
            return None
        found = self._remembered[low]
        return MessageId(found.ledger, found.entry, sequence - found.first)

    def _fits(self, count: int, size_bytes: int) -> bool:
        """Do so many messages of so many bytes go into the batch that is filled now?"""
        filling = len(self._filling)
        if filling and self._filling_bytes + size_bytes > BATCH_BYTES_AIM:
            return False
        return filling + count <= batches.MESSAGES_MAX

    def _filled(self) -> OutgoingBatch:
        """End the batch that is filled now, and begin another."""
        many, size_bytes = self._filling, self._filling_bytes
        self._filling, self._filling_bytes = [], 0
        return OutgoingBatch(first=self.given - len(many), many=many, size_bytes=size_bytes)

    def _is_confirmed(self, one: SentBatch) -> bool:
        progress = self._progress.get(one.ledger)
        return progress is None or one.entry <= progress.confirmed

    def _is_stored(self, one: SentBatch) -> bool:
        """Is a batch written, and every ledger before its own confirmed to the end?"""
        if one.batch.end <= self.acked:
            return True
        progress = self._progress.get(one.ledger)
        is_written = progress is None or one.entry <= progress.written
        return is_written and self._sent[0].ledger == one.ledger

    def _acknowledge(self, one: SentBatch) -> None:
        batch = one.batch
        self.acked = batch.end
        self.used_bytes -= batch.size_bytes
        self._figures.messages_total += len(batch.many)
        self._figures.batches_total += 1
        self._figures.bytes_total += batch.size_bytes
        self._remembered.append(_Stored(batch.first, batch.end, one.ledger, one.entry))
