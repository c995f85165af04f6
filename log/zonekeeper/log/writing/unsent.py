"""The messages of a writer that are not acknowledged: unsent, or in a batch on its way. Pure.

Sequences are given out densely, and batches take messages in order. A batch is made of what is
pending: as many messages as fit. At a rotation batches of two ledgers are on their way. A ledger
confirms its own batches in order. A batch is acknowledged only when all batches before it are
confirmed, those of the ledger before included: what the new ledger holds counts for nothing while
the old one may still lose something.

When a ledger has failed, the next one gets exactly the messages that the log turned out not to hold
(``moved``). A batch is one entry, so a ledger holds all of a batch or nothing of it.

    acked <= sent <= given      sequences: acknowledged below, sent below, given out below
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from zonekeeper.log.formats import batches
from zonekeeper.log.formats.messages import LogMessage
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.placement.base.ids import EntryId, LedgerId

#: A batch of so many bytes is full; a larger one would hold up the batches behind it.
BATCH_BYTES_AIM: Final = 256 << 10
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


class Unsent:
    """The messages that a writer holds, by their sequences."""

    def __init__(self, first: int) -> None:
        self.given = first
        self.acked = first
        self.used_bytes = 0
        self._pending: deque[tuple[LogMessage, int]] = deque()
        #: Batches of a ledger that failed, to be sent before anything that is pending.
        self._again: deque[OutgoingBatch] = deque()
        self._sent: deque[SentBatch] = deque()
        #: Of each ledger that is written: the entries that it has not confirmed.
        self._unconfirmed: dict[LedgerId, deque[EntryId]] = {}
        self._remembered: deque[_Stored] = deque(maxlen=REMEMBERED_MAX)

    @property
    def has_unsent(self) -> bool:
        """Is there anything to send?"""
        return bool(self._pending or self._again)

    def in_flight(self, ledger: LedgerId) -> int:
        """Give the number of batches that a ledger was sent and has not confirmed."""
        return len(self._unconfirmed.get(ledger, ()))

    def first_sent(self, ledger: LedgerId) -> EntryId | None:
        """Give the entry of the first batch that a ledger has not confirmed."""
        waiting = self._unconfirmed.get(ledger)
        return waiting[0] if waiting else None

    def append(self, message: LogMessage, size_bytes: int) -> int:
        """Take a message, and give its sequence."""
        self._pending.append((message, size_bytes))
        self.used_bytes += size_bytes
        self.given += 1
        return self.given - 1

    def take(self) -> OutgoingBatch:
        """Take the next batch to send; the caller has seen that there is one."""
        if self._again:
            return self._again.popleft()
        many, size = list[LogMessage](), 0
        while self._pending and len(many) < batches.MESSAGES_MAX:
            message, message_bytes = self._pending[0]
            if many and size + message_bytes > BATCH_BYTES_AIM:
                break
            self._pending.popleft()
            many.append(message)
            size += message_bytes
        first = self._sent[-1].batch.end if self._sent else self.acked
        return OutgoingBatch(first=first, many=many, size_bytes=size)

    def sent(self, batch: OutgoingBatch, ledger: LedgerId, entry: EntryId) -> None:
        """Note the entry that a batch was appended as."""
        self._sent.append(SentBatch(batch=batch, ledger=ledger, entry=entry))
        self._unconfirmed.setdefault(ledger, deque()).append(entry)

    def put_back(self, batch: OutgoingBatch) -> None:
        """Put back a batch that was taken and not appended."""
        self._again.appendleft(batch)

    def confirmed(self, ledger: LedgerId, entry: EntryId) -> None:
        """Note that a ledger has confirmed everything up to an entry."""
        waiting = self._unconfirmed.get(ledger, deque())
        while waiting and waiting[0] <= entry:
            waiting.popleft()
        if not waiting:
            self._unconfirmed.pop(ledger, None)
        while self._sent and self._is_confirmed(self._sent[0]):
            self._acknowledge(self._sent.popleft())

    def moved(self, ledger_end: int) -> None:
        """Note that the last ledger of the log ended before the message with a sequence.

        What the log holds is acknowledged. The rest is sent again, in the same batches.
        """
        while self._sent and self._sent[0].batch.end <= ledger_end:
            self._acknowledge(self._sent.popleft())
        assert self.acked == ledger_end, f"a ledger ended at {ledger_end}, inside of a batch"
        self._again.extendleft(reversed([one.batch for one in self._sent]))
        self._sent.clear()
        self._unconfirmed.clear()

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

    def _is_confirmed(self, one: SentBatch) -> bool:
        waiting = self._unconfirmed.get(one.ledger)
        return waiting is None or one.entry < waiting[0]

    def _acknowledge(self, one: SentBatch) -> None:
        self.acked = one.batch.end
        self.used_bytes -= one.batch.size_bytes
        self._remembered.append(_Stored(one.batch.first, one.batch.end, one.ledger, one.entry))
