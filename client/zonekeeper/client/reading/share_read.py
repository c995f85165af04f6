"""Read entries of one share: which replica to ask, when to ask the next one, how to judge answers.

Pure. The replicas are asked in the given order. The next replica is asked in two cases: no question
is outstanding and the entry was not given, or the hedge time has passed without an answer. Each
further hedge waits twice as long. The read ends with the first answer that holds the first wanted
entry. Its result is that entry and those that follow it in the answer without a gap.

"I never had it" and "I cannot tell" are kept apart to the end. The entry is missing only if *every*
replica denies it. One replica that failed, or whose copy is bad, makes the result unknown.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import attrgetter, eq
from typing import Final, TypeAlias

from zonekeeper.wire.formats.entries import Entry

_entry_id: Final = attrgetter("entry_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Got:
    """A replica gave the first wanted entry, and perhaps more; every digest was checked."""

    position: int
    entries: Sequence[Entry]


@dataclass(frozen=True, slots=True, kw_only=True)
class Denied:
    """A replica is sure that it never had the first wanted entry."""

    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """A replica failed, or its copy of the first wanted entry is bad."""

    position: int
    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class HedgeDue:
    """The hedge time is over."""


Event: TypeAlias = Got | Denied | Unknown | HedgeDue


@dataclass(frozen=True, slots=True, kw_only=True)
class AskReplica:
    """Ask a replica; ``Got``, ``Denied`` or ``Unknown`` follows."""

    position: int
    #: Is the replica asked because another one is slow?
    hedging: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeLater:
    """Give a ``HedgeDue`` after this time."""

    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSlow:
    """A replica has not answered within the hedge time."""

    position: int


Effect: TypeAlias = AskReplica | WakeLater | CallSlow


class ReadStanding(enum.Enum):
    """The state of a read."""

    GOING_ON = "going on"
    GOT = "got"
    #: Every replica denies the first wanted entry.
    MISSING = "missing"
    #: No replica gave the first wanted entry, and at least one did not deny it.
    UNKNOWN = "unknown"


@dataclass(slots=True, kw_only=True)
class ShareRead:
    """One read of ``wanted``; all entries of ``wanted`` have the same replicas."""

    wanted: range
    #: The positions of the replicas, in the order of asking.
    order: tuple[int, ...]
    hedge_after_ms: int
    outcome: ReadStanding = ReadStanding.GOING_ON
    entries: list[Entry] = field(default_factory=list)
    errors: dict[int, Exception] = field(default_factory=dict)
    _asked: int = 0
    _outstanding: dict[int, None] = field(default_factory=dict)

    def start(self) -> list[Effect]:
        """Ask the first replica."""
        return [*self._ask_next(hedging=False), WakeLater(delay_ms=self.hedge_after_ms)]

    def handle(self, event: Event) -> list[Effect]:
        """Take an event in, and give what is to be done."""
        if self.outcome is not ReadStanding.GOING_ON:
            return []
        match event:
            case Got():
                self._outstanding.pop(event.position, None)
                self.entries = self._run(event.entries)
                assert self.entries, "a replica that has it gives it"
                self.outcome = ReadStanding.GOT
                return []
            case Denied():
                return self._useless(event.position)
            case Unknown():
                self.errors[event.position] = event.error
                return self._useless(event.position)
            case HedgeDue():
                return self._hedge()

    def _hedge(self) -> list[Effect]:
        if self._asked == len(self.order):
            return []
        self.hedge_after_ms *= 2
        slow = [CallSlow(position=position) for position in self._outstanding]
        asks = self._ask_next(hedging=True)
        return [*slow, *asks, WakeLater(delay_ms=self.hedge_after_ms)]

    def _useless(self, position: int) -> list[Effect]:
        self._outstanding.pop(position, None)
        if self._outstanding:
            return []
        if self._asked < len(self.order):
            return self._ask_next(hedging=False)
        self.outcome = ReadStanding.UNKNOWN if self.errors else ReadStanding.MISSING
        return []

    def _ask_next(self, *, hedging: bool) -> list[Effect]:
        position = self.order[self._asked]
        self._asked += 1
        self._outstanding[position] = None
        return [AskReplica(position=position, hedging=hedging)]

    def _run(self, given: Sequence[Entry]) -> list[Entry]:
        """Give the entries of an answer from the first wanted one up to the first gap."""
        run = list(given[: len(self.wanted)])
        if all(map(eq, map(_entry_id, run), self.wanted)):
            return run
        # Rare: there is a gap.
        gap = next(at for at, entry in enumerate(run) if entry.entry_id != self.wanted[at])
        return run[:gap]
