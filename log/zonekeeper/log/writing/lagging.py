"""Which members of a ledger lag too far: by time, or by bytes. Pure.

A member lags from the first entry on that it has not answered for, since that entry was sent. All
sent entries are noted while some member owes an answer, with their times and the bytes before them.
So a member is never blamed for what it was not sent.

A newcomer is sent old entries, too. It lags by what it owes since it came, and not by what the
member before it left behind: else one slow bookie would cost the ledger all others in turn.
"""

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from zonekeeper.metadata.formats.log_record import LogRules
from zonekeeper.placement.base.ids import BookieId, EntryId

#: The pauses between two looks: a part of the rule's time, but no less and no more than this.
_LOOKS: Final = 4
_LOOK_MS_MIN: Final = 10
_LOOK_MS_MAX: Final = 1_000


def pause_ms(rules: LogRules) -> int | None:
    """Give the pause between two looks at members; None: no rule says how far one may lag."""
    if rules.downgrade_lag_ms is None and rules.downgrade_lag_bytes is None:
        return None
    lag_ms = _LOOK_MS_MAX if rules.downgrade_lag_ms is None else rules.downgrade_lag_ms
    return max(_LOOK_MS_MIN, min(_LOOK_MS_MAX, lag_ms // _LOOKS))


@dataclass(frozen=True, slots=True)
class _Mark:
    """An entry that was sent."""

    entry: EntryId
    sent_ms: int
    #: The bytes that were sent before it.
    bytes_before: int


@dataclass(frozen=True, slots=True)
class _Start:
    """When a member came, and the bytes that were sent before that."""

    at_ms: int
    bytes_before: int


class Lagging:
    """The members of one ledger."""

    def __init__(self, rules: LogRules) -> None:
        self._ms = rules.downgrade_lag_ms
        self._bytes = rules.downgrade_lag_bytes
        self._marks: deque[_Mark] = deque()
        self._sent_bytes = 0
        #: None: not known yet.
        self._members: frozenset[BookieId] | None = None
        #: Of the members that came later than the first ones.
        self._starts: dict[BookieId, _Start] = {}

    @property
    def is_watched(self) -> bool:
        """Is there a rule, and an entry that some member may not have answered for?"""
        return bool(self._marks)

    def sent(self, entry: EntryId, *, size_bytes: int, now_ms: int) -> None:
        """Note an entry that was sent."""
        if self._ms is not None or self._bytes is not None:
            self._marks.append(_Mark(entry, now_ms, self._sent_bytes))
            self._sent_bytes += size_bytes

    def seated(self, members: Collection[BookieId], now_ms: int) -> None:
        """Note the present members; those that were none at the last call are newcomers."""
        before, self._members = self._members, frozenset(members)
        self._starts = {one: at for one, at in self._starts.items() if one in self._members}
        for one in self._members - (self._members if before is None else before):
            self._starts[one] = _Start(now_ms, self._sent_bytes)

    def laggards(self, behind: Mapping[BookieId, EntryId], now_ms: int) -> list[BookieId]:
        """Give the members that lag too far.

        ``behind``: for each member that owes an answer, the first entry that it is owed for.
        """
        first = min(behind.values(), default=None)
        while self._marks and (first is None or self._marks[0].entry < first):
            self._marks.popleft()
        return sorted(one for one, entry in behind.items() if self._lags(one, entry, now_ms))

    def _lags(self, bookie: BookieId, entry: EntryId, now_ms: int) -> bool:
        mark = next((one for one in self._marks if one.entry >= entry), None)
        if mark is None:
            return False
        start = self._starts.get(bookie, _Start(mark.sent_ms, mark.bytes_before))
        is_late = self._ms is not None and now_ms - max(mark.sent_ms, start.at_ms) >= self._ms
        lacking = self._sent_bytes - max(mark.bytes_before, start.bytes_before)
        return is_late or (self._bytes is not None and lacking >= self._bytes)
