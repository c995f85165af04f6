"""Judges what was seen of a log: its promises, each as a comparison in one pass."""

from collections.abc import Iterator, Mapping
from typing import Final, assert_never

from tests.simulation import log_sights as seen

#: All rules, and what they say.
LOG_RULES: Final[Mapping[str, str]] = {
    "log kept": "every message that was stored is in the log for good, under its sequence",
    "log once": "no message is in a log twice",
    "log alike": "all readers get the same message, with the same id, under a sequence",
    "log dense": "a reader gets message after message, without a gap, and none before those that "
    "it asked for",
    "log order": "ids ascend with sequences",
    "log shown": "a look that begins after a message was flushed sees it",
    "log writer": "a writer begins behind everything that was stored or read",
    "log reason": "the state of the world allows every error of a log",
}

#: What a log may fail with, beside everything that says that it is retryable.
_ALLOWED: Final = frozenset({"LogTaken", "LogEnded", "LogTrimmed", "LogDeleting"})
#: Of the client below: what trouble of every kind may end with.
_OF_LEDGERS: Final = frozenset({"ReadFailed", "RecoveryFailed", "NotEnoughBookies"})

Broken = tuple[str, str]


class LogRules:
    """One pass over what was seen of one log."""

    def __init__(self) -> None:
        self._appended: dict[str, dict[int, bytes]] = {}
        #: By sequence: what stands there for good.
        self._stored: dict[int, bytes] = {}
        self._read: dict[int, tuple[bytes, bytes]] = {}
        self._places: dict[bytes, int] = {}
        self._flushed: dict[int, str] = {}
        #: Sequences below this one may be gone.
        self._trimmed = 0
        #: Of each handle: the sequence that it gets next, if it is known, and what it must reach.
        self._next: dict[str, int | None] = {}
        self._due: dict[str, int] = {}

    def broken(self, sight: seen.LogSight) -> Iterator[Broken]:
        """Take the next sight in, and give the rules that it breaks."""
        match sight:
            case seen.LogOpened():
                self._appended[sight.who] = {}
                last = max([*self._stored, *self._read], default=-1)
                if sight.first <= last:
                    yield "log writer", f"{sight.who} begins at {sight.first}, and there is {last}"
            case seen.LogAppended():
                self._appended[sight.who][sight.sequence] = sight.value
            case seen.LogStored():
                yield from self._take_stored(sight.who, sight.upto)
            case seen.LogFlushed():
                yield from self._take_stored(sight.who, sight.sequence)
                self._flushed[sight.sequence] = sight.id
            case seen.LogAsked():
                self._next[sight.handle] = sight.sequence
                self._due[sight.handle] = max(self._flushed, default=-1)
            case seen.LogGot():
                yield from self._take_got(sight)
            case seen.LogEndSeen():
                yield from self._take_end(sight)
            case seen.LogTrimWanted():
                self._trimmed = max(self._trimmed, sight.sequence)
            case seen.LogFailed():
                if not (sight.retryable or sight.error in _ALLOWED | _OF_LEDGERS):
                    yield "log reason", f"{sight.who} got {sight.error}"
            case _:
                assert_never(sight)

    def _take_stored(self, who: str, upto: int) -> Iterator[Broken]:
        for sequence, value in self._appended[who].items():
            if sequence > upto:
                return
            stands = self._stored.setdefault(sequence, value)
            if stands != value:
                yield "log kept", f"{sequence} is {stands!r}, and then {value!r} was stored"
            if sequence in self._read and self._read[sequence][1] != value:
                yield "log kept", f"{sequence} read as {self._read[sequence]}, stored as {value!r}"

    def _take_got(self, sight: seen.LogGot) -> Iterator[Broken]:
        sequence, value, handle = sight.sequence, sight.value, sight.handle
        expected = self._next[handle]
        if expected is None:
            expected = min(sequence, self._trimmed)
        if sequence != expected:
            yield "log dense", f"{handle} got {sequence} in the place of {expected}"
        self._next[handle] = sequence + 1
        if self._stored.get(sequence, value) != value:
            yield "log kept", f"{handle} got {value!r} as {sequence}: {self._stored[sequence]!r}"
        if not any(many.get(sequence) == value for many in self._appended.values()):
            yield "log alike", f"{handle} got {value!r} as {sequence}, and nobody wrote that"
        if self._read.setdefault(sequence, (sight.id, value)) != (sight.id, value):
            yield "log alike", f"{handle} got {value!r} as {sequence}, not {self._read[sequence]}"
        if self._places.setdefault(value, sequence) != sequence:
            yield "log once", f"{value!r} is at {self._places[value]} and at {sequence}"
        before = self._read.get(sequence - 1)
        if before is not None and before[0] >= sight.id:
            yield "log order", f"{sequence} has an id that is not above the one before"
        if sequence in self._flushed and bytes.fromhex(self._flushed[sequence]) != sight.id:
            yield "log alike", f"{sequence} was flushed as {self._flushed[sequence]}"

    def _take_end(self, sight: seen.LogEndSeen) -> Iterator[Broken]:
        following, due = self._next[sight.handle], self._due[sight.handle]
        if following is None:
            following = 0
        if following <= due and due >= self._trimmed:
            yield "log shown", f"{sight.handle} ended before {following}, and {due} was flushed"
