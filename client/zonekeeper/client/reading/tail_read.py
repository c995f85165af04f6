"""A recovery's reading: which entries after the LAC are kept, and where the ledger ends. Pure.

The whole ensemble is asked for a window of entries, and each request fences. The entries are
decided one by one, in order, by the answers of the entry's write set:

* A bookie has the entry: the entry is kept, even if its writer never acknowledged it.
* So many bookies deny the entry that it was never acknowledged: the ledger ends before it, and all
  later entries are dropped. It cannot be acknowledged later either, because those bookies are
  fenced.
* Neither, and no bookie is left to ask: the entry is unknown. The recovery fails, and does not
  close the ledger.

Only an explicit "I never had it" denies. A reply denies each entry of the range that it speaks for
and does not hold. A bookie that failed or timed out is silent about the rest of the window. A bad
copy proves nothing about its entry.
"""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from zonekeeper.placement.base import coverage
from zonekeeper.placement.base.coverage import Coverage
from zonekeeper.placement.base.ids import EntryId, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.formats.entries import Entry

_NONE_BAD: Final[Mapping[EntryId, Exception]] = MappingProxyType({})


class WindowStanding(enum.Enum):
    """The state of the reading of a window."""

    GOING_ON = "going on"
    #: All entries of the window are kept; the next window is to be read.
    FULL = "full"
    #: The ledger ends after the entries found.
    ENDED = "ended"
    #: The next entry can be neither kept nor denied.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class AskMember:
    """Ask a member for these entries, in a request that fences."""

    position: int
    wanted: range


@dataclass(slots=True, kw_only=True)
class TailRead:
    """The reading of one window."""

    quorums: Quorums
    zones: tuple[ZoneName | None, ...]
    window: range
    #: The entries to keep: ``found[i].entry_id == window.start + i``.
    found: list[Entry] = field(default_factory=list)
    verdict: WindowStanding = WindowStanding.GOING_ON
    #: Positions that are silent, and why.
    errors: dict[int, Exception] = field(default_factory=dict)
    #: By position: the bookie has spoken for all entries ``< _spoken[position]``.
    _spoken: dict[int, int] = field(default_factory=dict)
    #: By entry id: a good copy from any member of the entry's write set.
    _held: dict[int, Entry] = field(default_factory=dict)
    #: By (position, entry id): the flaw of a bad copy.
    _bad: dict[tuple[int, int], Exception] = field(default_factory=dict)
    #: Positions with a request under way.
    _outstanding: dict[int, None] = field(default_factory=dict)

    @property
    def failures(self) -> dict[int, Exception]:
        """The failures and bad copies, by position."""
        return {**{position: bad for (position, _), bad in self._bad.items()}, **self.errors}

    def start(self) -> list[AskMember]:
        """Ask every member."""
        self._spoken = dict.fromkeys(range(self.quorums.ensemble), self.window.start)
        return self._asks()

    def told(
        self,
        position: int,
        entries: Sequence[Entry],
        until: EntryId,
        bad: Mapping[EntryId, Exception] = _NONE_BAD,
    ) -> list[AskMember]:
        """Take in a reply: the member speaks for its range of entries before ``until``.

        The member denies each entry of that range that is neither in ``entries`` nor in ``bad``.
        ``bad`` names its bad copies; for those entries the member says nothing.
        """
        self._outstanding.pop(position, None)
        self._bad.update({(position, number): error for number, error in bad.items()})
        for entry in entries:
            if self.quorums.holds(position, entry.entry_id):
                self._held.setdefault(entry.entry_id, entry)
        self._spoken[position] = max(self._spoken[position], until)
        return self._go_on()

    def denied(self, position: int) -> list[AskMember]:
        """Take in that a member denies all entries that it was asked for."""
        return self.told(position, (), EntryId(self.window.stop))

    def silent(self, position: int, error: Exception) -> list[AskMember]:
        """Take in that a member failed: it says nothing more."""
        self._outstanding.pop(position, None)
        self.errors[position] = error
        return self._go_on()

    def _go_on(self) -> list[AskMember]:
        if self.verdict is WindowStanding.GOING_ON:
            self._decide()
        return self._asks() if self.verdict is WindowStanding.GOING_ON else []

    def _decide(self) -> None:
        """Decide entry by entry, in order, until an entry is still open."""
        for number in range(self._next, self.window.stop):
            if (entry := self._held.get(number)) is not None:
                self.found.append(entry)
                continue
            members = self.quorums.write_set(EntryId(number))
            answer = coverage.of_entry(
                self.quorums,
                EntryId(number),
                denied={
                    p for p in members if self._spoken[p] > number and (p, number) not in self._bad
                },
                pending={p for p in members if self._spoken[p] <= number and p not in self.errors},
                zones=self.zones,
            )
            waiting = any(self._spoken[p] <= number and p not in self.errors for p in members)
            if answer is Coverage.YES:
                self.verdict = WindowStanding.ENDED
            elif not waiting:
                self.verdict = WindowStanding.UNKNOWN
            return
        self.verdict = WindowStanding.FULL

    @property
    def _next(self) -> int:
        return self.window.start + len(self.found)

    def _asks(self) -> list[AskMember]:
        """Ask each member that has not spoken for the next open entry and has no request."""
        asks = []
        for position, spoken in self._spoken.items():
            if (
                spoken <= self._next
                and position not in self._outstanding
                and position not in self.errors
            ):
                self._outstanding[position] = None
                start = max(spoken, self._next)
                asks.append(AskMember(position=position, wanted=range(start, self.window.stop)))
        return asks
