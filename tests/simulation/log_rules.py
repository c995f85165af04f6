"""Judges what was seen of a log: its promises, each as a comparison in one pass."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, assert_never

from tests.simulation import log_sights as seen
from tests.simulation import query_rules
from tests.simulation.log_cursor_rules import CursorRules
from tests.simulation.log_record_rules import Incarnation, RecordRules
from zonekeeper.metadata.formats import message_ids
from zonekeeper.placement.base.ids import LedgerId

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
    "log one": "a look sees one incarnation of a log",
    "log record": "the record changes only by the writer that claimed it last, its ledgers ascend, "
    "and an end that is noted stays",
    "log start": "a log begins later only because a person or its rules said so",
    "log whole": "no ledger that is a part of a log is deleted before the log begins behind it",
    "log orphan": "the log keeper deletes no ledger that may still come into its log",
    **query_rules.QUERY_RULES,
    "log cursor": "only the consumer that opened a cursor last moves it, and forward unless it "
    "seeks",
}

#: What a log may fail with, beside everything that says that it is retryable.
_ALLOWED: Final = frozenset({"LogTaken", "LogEnded", "LogTrimmed", "CursorTaken", "NoLogError"})
#: The same, once a log was deleted.
_OF_DELETED: Final = frozenset({"LogDeleting", "OtherIncarnation", "NoCursorError", "NotInLog"})
#: Of the client below: what trouble of every kind may end with.
_OF_LEDGERS: Final = frozenset({"ReadFailed", "RecoveryFailed", "NotEnoughBookies"})

Broken = tuple[str, str]


class _Log:
    """What was stored in one incarnation, and read of it."""

    def __init__(self) -> None:
        #: By sequence: what stands there for good.
        self.stored: dict[int, bytes] = {}
        self.read: dict[int, tuple[bytes, bytes]] = {}
        self.flushed: dict[int, str] = {}


@dataclass(slots=True)
class _Look:
    """One reader's look at the log."""

    #: The sequence that it gets next; None: that of the earliest message.
    following: int | None
    #: The incarnation that was there when it began, how many starts that had, and what it must
    #: reach.
    began: Incarnation | None
    starts: int
    due: int
    #: The incarnation that its messages are of.
    log_id: str | None = None


class LogRules:
    """One pass over what was seen of the logs of one name."""

    def __init__(self) -> None:
        self._records = RecordRules()
        self._cursor = CursorRules()
        self._logs: dict[str, _Log] = {}
        self._appended: dict[str, dict[int, bytes]] = {}
        self._writers: dict[bytes, str] = {}
        self._places: dict[tuple[str, bytes], int] = {}
        #: The batch of each message of a query.
        self._batches: dict[bytes, tuple[str, int]] = {}
        #: Jobs that were aborted.
        self._aborted: set[str] = set()
        self._looks: dict[str, _Look] = {}

    def broken(self, sight: seen.LogSight) -> Iterator[Broken]:
        """Take the next sight in, and give the rules that it breaks."""
        match sight:
            case seen.LogOpened():
                self._appended[sight.who] = {}
                log, now = self._log_of(sight.who), self._records.current
                last = max([*log.stored, *log.read], default=-1)
                # A writer that another one has taken the log from meanwhile begins nowhere.
                mark = None if now is None else now.record.writer
                if mark is not None and mark.address == sight.who and sight.first <= last:
                    yield "log writer", f"{sight.who} begins at {sight.first}, and there is {last}"
            case seen.LogAppended():
                self._appended[sight.who][sight.sequence] = sight.value
                self._writers[sight.value] = sight.who
            case seen.LogStored():
                yield from self._take_stored(sight.who, sight.upto)
            case seen.LogFlushed():
                yield from self._take_stored(sight.who, sight.sequence)
                self._log_of(sight.who).flushed[sight.sequence] = sight.id
            case seen.LogAsked() | seen.LogGot() | seen.LogEndSeen():
                yield from self._take_look(sight)
            case seen.LogFailed():
                if not (sight.retryable or sight.error in self._allowed()):
                    yield "log reason", f"{sight.who} got {sight.error}"
            case seen.QueryWrote() | seen.QueryPublished() | seen.QueryAborted():
                yield from self._take_of_query(sight)
            case _:
                yield from self._take_of_store(sight)

    def _take_of_query(
        self, sight: seen.QueryWrote | seen.QueryPublished | seen.QueryAborted
    ) -> Iterator[Broken]:
        match sight:
            case seen.QueryWrote():
                self._records.sizes[sight.query, sight.batch] = len(sight.values)
                self._batches |= dict.fromkeys(sight.values, (sight.query, sight.batch))
            case seen.QueryPublished():
                now = self._records.logs.get(sight.log)
                if now is None or not query_rules.is_over(now.record, sight.query, sight.batch):
                    yield "query told", f"batch {sight.batch} of {sight.query} is not in the log"
                if sight.sequence is not None:
                    for at, value in enumerate(sight.values, sight.sequence):
                        yield from self._keep(self._at(sight.log), at, value)
            case seen.QueryAborted():
                self._aborted.add(sight.query)
            case _:
                assert_never(sight)

    def _take_of_store(
        self,
        sight: seen.LogTrimWanted
        | seen.LogRecorded
        | seen.LogLedgerGone
        | seen.LogLedgerSwept
        | seen.CursorRecorded
        | seen.CursorWanted,
    ) -> Iterator[Broken]:
        match sight:
            case seen.LogTrimWanted():
                self._records.take_wanted(sight.sequence)
            case seen.LogRecorded():
                if sight.record is None and self._cursor.mark is not None:
                    yield "log cursor", "the log is deleted, and its cursor is there"
                yield from self._records.take(sight.record)
            case seen.LogLedgerGone():
                yield from self._records.take_gone(sight)
            case seen.LogLedgerSwept():
                yield from self._records.take_swept(sight)
            case seen.CursorRecorded():
                yield from self._cursor.take(sight.mark)
            case seen.CursorWanted():
                self._cursor.take_wanted(sight)
            case _:
                assert_never(sight)

    def _take_look(self, sight: seen.LogAsked | seen.LogGot | seen.LogEndSeen) -> Iterator[Broken]:
        match sight:
            case seen.LogAsked():
                now = self._records.current
                self._looks[sight.handle] = _Look(
                    following=sight.sequence,
                    began=now,
                    starts=0 if now is None else len(now.starts) - 1,
                    due=-1 if now is None else max(self._at(now.record.id).flushed, default=-1),
                )
            case seen.LogGot():
                yield from self._take_got(sight)
            case seen.LogEndSeen():
                yield from self._take_end(sight.handle, self._looks[sight.handle])
            case _:
                assert_never(sight)

    def _allowed(self) -> frozenset[str]:
        logs = self._records.logs.values()
        deleted = any(one.deleting for one in logs)
        return _ALLOWED | _OF_LEDGERS | (_OF_DELETED if deleted else frozenset())

    def _at(self, log_id: str) -> _Log:
        return self._logs.setdefault(log_id, _Log())

    def _log_of(self, writer: str) -> _Log:
        return self._at(self._records.claims.get(writer, ""))

    def _take_stored(self, who: str, upto: int) -> Iterator[Broken]:
        log = self._log_of(who)
        for sequence, value in self._appended[who].items():
            if sequence > upto:
                return
            yield from self._keep(log, sequence, value)

    def _keep(self, log: _Log, sequence: int, value: bytes) -> Iterator[Broken]:
        stands = log.stored.setdefault(sequence, value)
        if stands != value:
            yield "log kept", f"{sequence} is {stands!r}, and then {value!r} was stored"
        if sequence in log.read and log.read[sequence][1] != value:
            yield "log kept", f"{sequence} read as {log.read[sequence]}, stored as {value!r}"

    def _take_got(self, sight: seen.LogGot) -> Iterator[Broken]:
        sequence, value, handle = sight.sequence, sight.value, sight.handle
        look, writer = self._looks[handle], self._writers.get(value)
        of_query = self._batches.get(value)
        if writer is None and of_query is None:
            yield "log alike", f"{handle} got {value!r} as {sequence}, and nobody wrote that"
            return
        if of_query is None:
            assert writer is not None
            log_id = self._records.claims.get(writer, "")
        else:
            ledger = message_ids.from_bytes(sight.id).ledger
            log_id = next(
                (name for name, one in self._records.logs.items() if ledger in one.ledgers), ""
            )
            yield from self._of_batch(ledger, log_id, of_query)
        log = self._at(log_id)
        if look.log_id not in (None, log_id):
            yield "log one", f"{handle} got messages of {look.log_id}, and then of {log_id}"
        look.log_id = log_id
        yield from self._follows(sight, look, log_id)
        look.following = sequence + 1
        if writer is not None and self._appended[writer].get(sequence) != value:
            yield "log alike", f"{handle} got {value!r} as {sequence}: it is another message's"
        if log.stored.get(sequence, value) != value:
            yield "log kept", f"{handle} got {value!r} as {sequence}: {log.stored[sequence]!r}"
        if log.read.setdefault(sequence, (sight.id, value)) != (sight.id, value):
            yield "log alike", f"{handle} got {value!r} as {sequence}, not {log.read[sequence]}"
        place = self._places.setdefault((log_id, value), sequence)
        if place != sequence:
            yield "log once", f"{value!r} is at {place} and at {sequence}"
        before = log.read.get(sequence - 1)
        if before is not None and before[0] >= sight.id:
            yield "log order", f"{sequence} has an id that is not above the one before"
        if sequence in log.flushed and bytes.fromhex(log.flushed[sequence]) != sight.id:
            yield "log alike", f"{sequence} was flushed as {log.flushed[sequence]}"

    def _of_batch(
        self, ledger: LedgerId, log_id: str, of_query: tuple[str, int]
    ) -> Iterator[Broken]:
        log = self._records.logs.get(log_id)
        if log is None or log.batches.get(ledger) != of_query:
            yield (
                "query batch",
                f"ledger {ledger} has messages of {of_query}, and came in otherwise",
            )
        elif of_query[0] in self._aborted and not log.record.deleting:
            known = [one for one in log.record.queries if one.query == of_query[0]]
            if any(one.published is None for one in known):
                yield "query told", f"job {of_query[0]} was aborted, and is in the log"

    def _follows(self, sight: seen.LogGot, look: _Look, log_id: str) -> Iterator[Broken]:
        """Is it the message that the look gets next? It begins where the log began meanwhile."""
        if look.following is not None:
            if sight.sequence != look.following:
                yield (
                    "log dense",
                    f"{sight.handle} got {sight.sequence} in the place of {look.following}",
                )
            return
        log = self._records.logs.get(log_id)
        starts = [0] if log is None else log.starts[look.starts if log is look.began else 0 :]
        if sight.sequence not in starts:
            yield "log dense", f"{sight.handle} began with {sight.sequence}, and not with {starts}"

    def _take_end(self, handle: str, look: _Look) -> Iterator[Broken]:
        log = look.began
        if log is None or (look.log_id is None and log.deleting):
            return
        if look.log_id not in (None, log.record.id):
            return
        following = 0 if look.following is None else look.following
        if following <= look.due and look.due >= log.record.start_sequence:
            yield "log shown", f"{handle} ended before {following}, and {look.due} was flushed"
