"""Recovery's reading: which entries behind the LAC are to be kept, and where the ledger ends. Pure.

A window of entries is asked of the whole ensemble, and each request fences. Entry by entry, in
order, the answers of its write set decide:

* somebody has it: it is kept, though nobody may have been told that it was acknowledged;
* so many deny it that it can never have been acknowledged, nor ever will be (they are fenced): the
  ledger ends before it, and what lies behind it is dropped;
* neither, and nobody left to ask: unknown. The recovery fails, and changes nothing.

Only an explicit "I never had it" denies. A reply denies what it speaks for and does not hold; a
bookie that failed or timed out is silent from there on, and a bad copy says nothing of its entry.
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
    """How the reading of a window stands."""

    GOING_ON = "going on"
    #: All of the window is to be kept; the next one is to be read.
    FULL = "full"
    #: The ledger ends behind what was found.
    ENDED = "ended"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class AskMember:
    """Ask a member for these entries, with the fence."""

    position: int
    wanted: range


@dataclass(slots=True, kw_only=True)
class TailRead:
    """One window."""

    quorums: Quorums
    zones: tuple[ZoneName | None, ...]
    window: range
    #: What is to be kept, without a gap from the start of the window.
    found: list[Entry] = field(default_factory=list)
    verdict: WindowStanding = WindowStanding.GOING_ON
    errors: dict[int, Exception] = field(default_factory=dict)
    #: By position: up to where it has spoken, and what it has.
    _spoken: dict[int, int] = field(default_factory=dict)
    _held: dict[int, Entry] = field(default_factory=dict)
    _bad: dict[tuple[int, int], Exception] = field(default_factory=dict)
    _outstanding: dict[int, None] = field(default_factory=dict)

    @property
    def failures(self) -> dict[int, Exception]:
        """Say what went wrong, by position."""
        return {**{position: bad for (position, _), bad in self._bad.items()}, **self.errors}

    def start(self) -> list[AskMember]:
        """Ask everybody."""
        self._spoken = dict.fromkeys(range(self.quorums.ensemble), self.window.start)
        return self._asks()

    def told(
        self,
        position: int,
        entries: Sequence[Entry],
        until: EntryId,
        bad: Mapping[EntryId, Exception] = _NONE_BAD,
    ) -> list[AskMember]:
        """Take in what a member has before ``until``; what it does not have there it denies.

        Of the entries in ``bad`` it has copies that are no good: there it says nothing.
        """
        self._outstanding.pop(position, None)
        self._bad.update({(position, number): error for number, error in bad.items()})
        for entry in entries:
            if self.quorums.holds(position, entry.entry_id):
                self._held.setdefault(entry.entry_id, entry)
        self._spoken[position] = max(self._spoken[position], until)
        return self._go_on()

    def denied(self, position: int) -> list[AskMember]:
        """Take in that a member has nothing from where it was asked on."""
        return self.told(position, (), EntryId(self.window.stop))

    def silent(self, position: int, error: Exception) -> list[AskMember]:
        """Take in that nothing more will be heard of a member."""
        self._outstanding.pop(position, None)
        self.errors[position] = error
        return self._go_on()

    def _go_on(self) -> list[AskMember]:
        if self.verdict is WindowStanding.GOING_ON:
            self._decide()
        return self._asks() if self.verdict is WindowStanding.GOING_ON else []

    def _decide(self) -> None:
        """Go forward entry by entry as far as it is decided."""
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
        """Ask on those who have not spoken of the next entry that is open."""
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
