"""The rules about logs are checked: each bad history is refused for its reason; good ones pass."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.simulation import campaign, checker
from tests.simulation import history as seen
from tests.simulation.campaign import Task
from tests.simulation.log_rules import LOG_RULES
from tests.simulation.log_sights import (
    CursorRecorded,
    CursorWanted,
    LogAppended,
    LogAsked,
    LogEndSeen,
    LogFailed,
    LogFlushed,
    LogGot,
    LogLedgerGone,
    LogLedgerSwept,
    LogOpened,
    LogRecorded,
    LogSight,
    LogStored,
    LogTrimWanted,
)
from tests.simulation.query_rules import QUERY_RULES
from tests.support.checkout_root import ROOT
from zonekeeper.metadata.formats.log_record import (
    LogLedger,
    LogLedgerEnd,
    LogRecord,
    LogRules,
    LogWriterMark,
)
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.metadata.logs.log_cursor import CursorMark, CursorPosition
from zonekeeper.placement.base.ids import EntryId, LedgerId

EPOCHS = {"": 0, "one": 1, "two": 2}
NEW = LogRecord(id="a" * 32, created_ms=1)
OTHER = replace(NEW, id="b" * 32)


def recorded(record: LogRecord | None) -> LogSight:
    return LogRecorded(record=record)


def held(who: str, record: LogRecord = NEW) -> LogRecord:
    """Give the record as it is when a writer has claimed the log."""
    return replace(record, epoch=EPOCHS[who], writer=LogWriterMark(token=who, address=who))


def opened(first: int, who: str = "one") -> tuple[LogSight, ...]:
    return recorded(held(who)), LogOpened(who=who, first=first)


def ledger(number: int, sequence: int, *, messages: int | None = None, epoch: int = 1) -> LogLedger:
    end = None
    if messages is not None:
        last = EntryId(messages)
        end = LogLedgerEnd(last_entry=last, size_bytes=10, messages=messages, first_ms=1, last_ms=1)
    return LogLedger(id=LedgerId(number), epoch=epoch, sequence=sequence, end=end)


def with_ledgers(*ledgers: LogLedger) -> LogRecord:
    return replace(held("one"), ledgers=ledgers, last_ledger=ledgers[-1].id)


def begun(record: LogRecord, number: int, sequence: int) -> LogRecord:
    start = MessageId(LedgerId(number), EntryId(1), 0)
    return replace(record, start=start, start_sequence=sequence)


def appended(sequence: int, value: str = "", who: str = "one") -> LogSight:
    text = value or f"{who}/{sequence}"
    return LogAppended(who=who, sequence=sequence, value=text.encode())


def stored(upto: int, who: str = "one") -> LogSight:
    return LogStored(who=who, upto=upto)


def got(sequence: int, value: str = "", known: int | None = None) -> LogSight:
    number = 10 + sequence if known is None else known
    text = value or f"one/{sequence}"
    return LogGot(handle="r", sequence=sequence, id=bytes((number,)), value=text.encode())


FLUSHED = LogFlushed(who="one", sequence=1, id=bytes((11,)).hex())
ASKED = LogAsked(handle="r")
ENDED = LogEndSeen(handle="r")
START = (recorded(NEW), *opened(0), appended(0), appended(1))
#: A log of two ledgers, one of which has ended.
TWO = with_ledgers(ledger(4, 0, messages=2), ledger(6, 2))
LEDGERS = (
    recorded(NEW),
    recorded(held("one")),
    recorded(with_ledgers(ledger(4, 0))),
    recorded(TWO),
)
DELETED = (recorded(replace(NEW, deleting=True)), recorded(None))
MARK = CursorMark(
    log_id=NEW.id,
    created_ms=1,
    epoch=1,
    token="t",
    address="c",
    position=CursorPosition(sequence=5),
    moved_ms=1,
)


def marked(sequence: int, epoch: int = 1, token: str = "t") -> LogSight:
    position = CursorPosition(sequence=sequence)
    return CursorRecorded(mark=replace(MARK, position=position, epoch=epoch, token=token))


def wanted(sequence: int | None, *, seeks: bool = False, who: str = "c") -> LogSight:
    return CursorWanted(who=who, sequence=sequence, seeks=seeks)


def gone(number: int) -> LogSight:
    return LogLedgerGone(ledger=LedgerId(number), log=NEW.id, epoch=1)


def swept(number: int, epoch: int, log: str = NEW.id) -> LogSight:
    return LogLedgerSwept(ledger=LedgerId(number), log=log, epoch=epoch)


BAD: dict[str, tuple[Sequence[LogSight], str]] = {
    "stored twice": (
        (*START, stored(1), *opened(0, "two"), appended(0, who="two"), stored(0, "two")),
        "log kept",
    ),
    "stored, and something else read": (
        (*START, *opened(0, "two"), appended(0, who="two"), stored(0), ASKED, got(0, "two/0")),
        "log kept",
    ),
    "sent again": (
        (*START, appended(2, "one/1"), ASKED, got(0), got(1), got(2, "one/1")),
        "log once",
    ),
    "never written": ((*START, ASKED, got(0, "else")), "log alike"),
    "another id": ((*START, ASKED, got(0), ASKED, got(0, known=9)), "log alike"),
    "another id than was told": ((*START, FLUSHED, ASKED, got(0), got(1, known=12)), "log alike"),
    "a gap": ((*START, appended(2), ASKED, got(0), got(2)), "log dense"),
    "not from the beginning": ((*START, ASKED, got(1)), "log dense"),
    "ids that fall": ((*START, ASKED, got(0), got(1, known=10)), "log order"),
    "not shown": ((*START, FLUSHED, ASKED, got(0), ENDED), "log shown"),
    "a writer that begins in the middle": ((*START, stored(1), *opened(1, "two")), "log writer"),
    "another incarnation": (
        (
            *START,
            ASKED,
            got(0),
            *DELETED,
            recorded(OTHER),
            recorded(held("two", OTHER)),
            LogOpened(who="two", first=0),
            appended(1, who="two"),
            got(1, "two/1"),
        ),
        "log one",
    ),
    "a record that is gone": ((recorded(NEW), recorded(None)), "log record"),
    "a record that became another": ((recorded(NEW), recorded(OTHER)), "log record"),
    "an epoch that falls": ((recorded(NEW), *opened(0, "two"), *opened(0)), "log record"),
    "a ledger of an earlier writer": (
        (
            *LEDGERS,
            recorded(held("two", TWO)),
            recorded(held("two", replace(TWO, ledgers=(*TWO.ledgers, ledger(7, 3, epoch=1))))),
        ),
        "log record",
    ),
    "a ledger that is lower": (
        (*LEDGERS, recorded(replace(TWO, ledgers=(*TWO.ledgers, ledger(5, 3))))),
        "log record",
    ),
    "another end": (
        (*LEDGERS, recorded(with_ledgers(ledger(4, 0, messages=1), ledger(6, 2)))),
        "log record",
    ),
    "an ended ledger that is taken out": (
        (*LEDGERS, recorded(with_ledgers(ledger(6, 2)))),
        "log record",
    ),
    "a deletion taken back": (
        (recorded(NEW), recorded(replace(NEW, deleting=True)), recorded(NEW)),
        "log record",
    ),
    "a start that nobody wanted": ((*LEDGERS, recorded(begun(TWO, 6, 2))), "log start"),
    "a start that is too far": (
        (*LEDGERS, LogTrimWanted(sequence=1), recorded(begun(TWO, 6, 2))),
        "log start",
    ),
    "a start that falls": (
        (*LEDGERS, LogTrimWanted(sequence=2), recorded(begun(TWO, 6, 2)), recorded(TWO)),
        "log start",
    ),
    "deleted before the start moved": ((*LEDGERS, gone(4)), "log whole"),
    "an orphan that may come in": ((*LEDGERS, swept(7, epoch=1)), "log orphan"),
    "an orphan of an unknown log": ((*LEDGERS, swept(7, 1, "c" * 32)), "log orphan"),
    "a cursor that nobody moved": ((marked(5), marked(7)), "log cursor"),
    "a cursor that another one moved": (
        (marked(5), wanted(7, who="d"), marked(7)),
        "log cursor",
    ),
    "a cursor that went back": ((marked(5), wanted(3), marked(3)), "log cursor"),
    "a cursor of two": ((marked(5), marked(5, token="u")), "log cursor"),
    "a cursor that moved as it was opened": (
        (marked(5), wanted(7), marked(7, epoch=2, token="u")),
        "log cursor",
    ),
    "a cursor that outlives its log": ((recorded(NEW), marked(5), *DELETED), "log cursor"),
    "an id that is of no log": (
        (*START, LogFailed(who="r", error="NotInLog", retryable=False)),
        "log reason",
    ),
    "damage": ((LogFailed(who="r", error="LogDamaged", retryable=False),), "log reason"),
}

GOOD: Sequence[LogSight] = (
    *START,
    stored(0),
    ASKED,
    got(0),
    ENDED,
    FLUSHED,
    ASKED,
    got(0),
    got(1),
    ENDED,
    LogTrimWanted(sequence=1),
    recorded(begun(held("one"), 3, 1)),
    ASKED,
    got(1),
    LogFailed(who="one", error="LogTaken", retryable=False),
    recorded(begun(held("two"), 3, 1)),
    LogOpened(who="two", first=2),
)


#: A log of ledgers that is trimmed, by a person and by its rules, and deleted; its cursor goes too.
GOOD_LEDGERS: Sequence[LogSight] = (
    *LEDGERS,
    marked(0),
    swept(7, epoch=0),
    LogTrimWanted(sequence=None),
    recorded(begun(TWO, 6, 2)),
    swept(4, epoch=1),
    gone(4),
    wanted(None, seeks=True),
    marked(2),
    marked(2, epoch=2, token="u"),
    recorded(replace(begun(TWO, 6, 2), deleting=True)),
    gone(6),
    CursorRecorded(mark=None),
    LogFailed(who="r", error="LogDeleting", retryable=False),
    recorded(replace(begun(TWO, 6, 2), ledgers=(), deleting=True, gone=LedgerId(6))),
    recorded(None),
    swept(8, epoch=1),
    recorded(replace(OTHER, rules=LogRules(keep_bytes=1))),
    ASKED,
    ENDED,
)


def rules_of(sights: Sequence[LogSight]) -> set[str]:
    return {one.rule for one in checker.check([seen.OfLog(sight=sight) for sight in sights])}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_history_of_a_log_is_refused_for_its_reason(name: str) -> None:
    sights, rule = BAD[name]
    assert rule in rules_of(sights)


def test_a_good_history_of_a_log_is_accepted() -> None:
    assert rules_of(GOOD) == set()
    assert rules_of(GOOD_LEDGERS) == set()


def test_every_rule_of_logs_has_a_bad_history() -> None:
    assert {rule for _, rule in BAD.values()} == set(LOG_RULES) - set(QUERY_RULES)


def test_the_page_of_the_simulator_lists_every_rule_of_logs() -> None:
    page = (ROOT / "docs" / "simulator.md").read_text(encoding="utf-8")
    for rule, says in LOG_RULES.items():
        assert f"\n| *{rule}* | {says} |\n" in page


def test_a_few_seeds_with_a_log_keep_every_promise() -> None:
    report = campaign.do(Task(profile="logs", first=10_000, seeds=2))
    assert not report.failures, "\n".join(map(str, report.failures))
