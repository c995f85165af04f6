"""Reading some entries that have the same replicas: whom to ask, when to ask the next, what to make
of the answers. Pure.

Replicas are asked in the given order. The next one is asked when nobody who was asked can help any
more, or when the hedge time is over without an answer; each further hedge waits twice as long. The
first answer with the first entry wanted ends it, with all that follows that entry without a gap.

"I never had it" and "I cannot tell" are kept apart to the end: only if *every* replica denies the
entry it is missing; one that failed, or whose copy is bad, makes it unknown.
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
    """A replica has the first entry, and perhaps more; all of it checked."""

    position: int
    entries: Sequence[Entry]


@dataclass(frozen=True, slots=True, kw_only=True)
class Denied:
    """A replica is sure that it never had the first entry."""

    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """A replica failed, or what it gave is bad."""

    position: int
    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class HedgeDue:
    """The hedge time is over."""


Event: TypeAlias = Got | Denied | Unknown | HedgeDue


@dataclass(frozen=True, slots=True, kw_only=True)
class AskReplica:
    """Ask a replica, and give its answer when there is one."""

    position: int
    #: It is asked because another one is slow.
    hedging: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeLater:
    """Give ``HedgeDue`` after this time."""

    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSlow:
    """A replica has not answered within the hedge time."""

    position: int


Effect: TypeAlias = AskReplica | WakeLater | CallSlow


class ReadStanding(enum.Enum):
    """How a read stands."""

    GOING_ON = "going on"
    GOT = "got"
    #: Every replica denies it.
    MISSING = "missing"
    UNKNOWN = "unknown"


@dataclass(slots=True, kw_only=True)
class ShareRead:
    """One read: of ``wanted``, all of whose entries are on the same replicas."""

    wanted: range
    #: Replicas by position, to be asked first first.
    order: tuple[int, ...]
    hedge_after_ms: int
    outcome: ReadStanding = ReadStanding.GOING_ON
    entries: list[Entry] = field(default_factory=list)
    errors: dict[int, Exception] = field(default_factory=dict)
    _asked: int = 0
    _outstanding: dict[int, None] = field(default_factory=dict)

    def start(self) -> list[Effect]:
        """Ask the first."""
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
        """Give what of the answer follows the first wanted entry without a gap."""
        run = list(given[: len(self.wanted)])
        if all(map(eq, map(_entry_id, run), self.wanted)):
            return run
        # Rare: there is a gap.
        gap = next(at for at, entry in enumerate(run) if entry.entry_id != self.wanted[at])
        return run[:gap]
