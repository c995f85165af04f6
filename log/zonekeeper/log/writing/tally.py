"""What a writer has sent to one ledger: when the ledger is full, and how it ends. Pure.

Once the writer sends nothing more to a ledger, the end is fixed: its last entry is the last one
that was sent. The next ledger's opening names that entry. If the ledger then confirms everything,
no recovery of it can find another end, as an acknowledged entry is never lost, and there is none
behind it.
"""

from zonekeeper.log.formats.openings import Predecessor
from zonekeeper.metadata.formats.log_record import LogLedgerEnd, LogRules
from zonekeeper.placement.base.ids import EntryId, LedgerId


class LedgerTally:
    """The messages of one ledger, counted as they are sent."""

    def __init__(self, ledger: LedgerId, first: int, opening_bytes: int) -> None:
        self.ledger = ledger
        #: The sequence of its first message.
        self.first = first
        self.messages = 0
        #: Of the messages' entries.
        self.batch_bytes = 0
        self._opening_bytes = opening_bytes
        self._last_entry = EntryId(0)
        self._first_ms = 0
        self._last_ms = 0

    @property
    def following(self) -> int:
        """The sequence after its last message."""
        return self.first + self.messages

    @property
    def predecessor(self) -> Predecessor:
        """How the next ledger's opening names this one; nothing more is sent to it."""
        return Predecessor(ledger=self.ledger, last_entry=self._last_entry)

    def sent(self, entry: EntryId, *, messages: int, size_bytes: int, wall_ms: int) -> None:
        """Note a batch that was sent."""
        assert entry == self._last_entry + 1, "a ledger of a log has an opening, and then batches"
        if self.messages == 0:
            self._first_ms = wall_ms
        self._last_entry = entry
        self._last_ms = wall_ms
        self.messages += messages
        self.batch_bytes += size_bytes

    def is_full(self, rules: LogRules, *, is_old: bool) -> bool:
        """Is it time to rotate? A ledger without a message is never rotated."""
        return self.messages > 0 and (
            is_old
            or self.batch_bytes >= rules.rotate_bytes
            or self.messages >= rules.rotate_messages
        )

    def end(self) -> LogLedgerEnd:
        """Give the end of a ledger that has confirmed everything, as a recovery would find it."""
        assert self.messages > 0, "a ledger without a message is not rotated"
        return LogLedgerEnd(
            last_entry=self._last_entry,
            size_bytes=self._opening_bytes + self.batch_bytes,
            messages=self.messages,
            first_ms=self._first_ms,
            last_ms=self._last_ms,
        )
