"""Records and pages of logs are read as they were written, and for ever."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest

from tests.metadata.logs.records_of_logs import LOG_ID, NEW, at_start_of, ledger
from tests.metadata.parsers import INSTANCE
from zonekeeper.metadata.formats import log_record_format
from zonekeeper.metadata.formats.log_record import (
    NEWEST_MAX,
    PAGE_LEDGERS,
    LogLedger,
    LogPage,
    LogQuery,
    LogRecord,
    LogRules,
    LogWriterMark,
)
from zonekeeper.metadata.formats.malformed import Flaw, MalformedError
from zonekeeper.metadata.formats.records import ForeignRecordError
from zonekeeper.placement.base.ids import LedgerId, ZoneName
from zonekeeper.placement.base.quorums import Quorums


def unsummed(number: int) -> LogLedger:
    """Give a ledger as it was written before ends had a running sum of bytes."""
    given = ledger(number)
    assert given.end is not None
    return replace(given, end=replace(given.end, total_bytes=0))


#: A record with every field of the first writer.
FULL: Final = LogRecord(
    id=LOG_ID,
    created_ms=1_700_000_000_000,
    rules=LogRules(
        quorums=Quorums(ensemble=3, write=3, ack=2, ack_zones=2),
        minimum=Quorums(ensemble=2, write=2, ack=1),
        keep_ms=86_400_000,
        keep_bytes=1 << 40,
        unknown='{"standby": ["a", "b"]}',
    ),
    epoch=3,
    writer=LogWriterMark(
        token="5d41", zone=ZoneName("a"), address="10.0.0.7:90", unknown='{"x": 1}'
    ),
    start=at_start_of(4)[0],
    start_sequence=40,
    first_page=1,
    next_page=3,
    ledgers=(
        *map(unsummed, range(96, 99)),
        LogLedger(id=LedgerId(300), epoch=3, sequence=990, unknown='{"manifest": 299}'),
        LogLedger(id=LedgerId(301), epoch=3, sequence=None),
    ),
    last_ledger=LedgerId(302),
    gone=LedgerId(7),
    unknown='{"standby": true}',
)
PAGE: Final = LogPage(number=2, log_id=LOG_ID, ledgers=tuple(map(unsummed, range(64, 96))))
#: A record with the fields that came with cursors and retention.
KEPT: Final = replace(
    FULL,
    rules=replace(FULL.rules, cursor_wait_ms=3_600_000, cursor_wait_bytes=1 << 30),
    ledgers=(*map(ledger, range(96, 99)), *FULL.ledgers[3:]),
)
#: A record with the rules that came with laggards.
LAGS: Final = replace(
    KEPT, rules=replace(KEPT.rules, downgrade_lag_ms=2_000, downgrade_lag_bytes=1 << 20)
)
#: A record with queries, which came with Spark's sink.
QUERIED: Final = replace(
    KEPT,
    queries=(
        LogQuery(query="j-7", run="j-7", published=0, is_over=True),
        LogQuery(
            query="6f2ee3ee",
            run="r3",
            lost_runs=("r1", "r2"),
            published=41,
            unknown='{"asked": 1}',
        ),
        LogQuery(query="new", run="r"),
    ),
)

Golden = Callable[[str], bytes]


def test_the_golden_record_and_page_are_read_and_written(golden: Golden) -> None:
    assert log_record_format.parse(golden("log-record"), INSTANCE) == FULL
    assert log_record_format.render(FULL, INSTANCE) == golden("log-record")
    assert log_record_format.parse(golden("log-record-kept"), INSTANCE) == KEPT
    assert log_record_format.render(KEPT, INSTANCE) == golden("log-record-kept")
    assert log_record_format.parse(golden("log-record-queried"), INSTANCE) == QUERIED
    assert log_record_format.render(QUERIED, INSTANCE) == golden("log-record-queried")
    assert log_record_format.parse_page(golden("log-page"), INSTANCE) == PAGE
    assert log_record_format.render_page(PAGE, INSTANCE) == golden("log-page")


@pytest.mark.parametrize("record", [NEW, replace(NEW, deleting=True), FULL, KEPT, LAGS, QUERIED])
def test_a_record_is_read_as_it_was_written(record: LogRecord) -> None:
    raw = log_record_format.render(record, INSTANCE)

    assert log_record_format.parse(raw, INSTANCE) == record


def test_a_record_of_another_instance_is_foreign() -> None:
    with pytest.raises(ForeignRecordError):
        log_record_format.parse(log_record_format.render(NEW, "other"), INSTANCE)


def changed(**fields: object) -> bytes:
    plain = json.loads(log_record_format.render(FULL, INSTANCE))
    for key, value in fields.items():
        if value is None:
            del plain[key]
        else:
            plain[key] = value
    return json.dumps(plain).encode()


def of_a_ledger(at: int, **fields: object) -> bytes:
    plain = json.loads(log_record_format.render(FULL, INSTANCE))
    for key, value in fields.items():
        plain["ledgers"][at][key] = value
        if value is None:
            del plain["ledgers"][at][key]
    return json.dumps(plain).encode()


@pytest.mark.parametrize(
    ("raw", "flaw"),
    [
        (changed(id="7"), Flaw.BAD_TEXT),
        (changed(id="0F" * 16), Flaw.BAD_TEXT),
        (changed(epoch=-1), Flaw.WRONG_TYPE),
        (changed(deleting=1), Flaw.WRONG_TYPE),
        (changed(ledgers={}), Flaw.WRONG_TYPE),
        (changed(ledgers=[7]), Flaw.WRONG_TYPE),
        (changed(pages=[3, 2]), Flaw.OUT_OF_RANGE),
        (changed(pages=[0, True]), Flaw.OUT_OF_RANGE),
        (changed(pages=[0]), Flaw.OUT_OF_RANGE),
        (changed(rules=[]), Flaw.WRONG_TYPE),
        (changed(start="4:1"), Flaw.BAD_TEXT),
        (changed(lastLedger=300), Flaw.INCONSISTENT),
        (changed(lastLedger=None), Flaw.INCONSISTENT),
        (changed(writer={"token": "x", "address": "y" * 1_001}), Flaw.TOO_LARGE),
        (of_a_ledger(0, id=300), Flaw.OUT_OF_RANGE),
        (of_a_ledger(0, lastEntry=None), Flaw.INCONSISTENT),
        (of_a_ledger(0, sequence=None), Flaw.MISSING),
        (of_a_ledger(3, bytes=7), Flaw.INCONSISTENT),
        (of_a_ledger(3, totalBytes=7), Flaw.INCONSISTENT),
        (of_a_ledger(0, totalBytes=-1), Flaw.WRONG_TYPE),
    ],
)
def test_each_kind_of_damage_is_named(raw: bytes, flaw: Flaw) -> None:
    with pytest.raises(MalformedError) as caught:
        log_record_format.parse(raw, INSTANCE)

    assert caught.value.flaw is flaw


def queried(*queries: object) -> bytes:
    plain = json.loads(log_record_format.render(NEW, INSTANCE))
    return json.dumps(plain | {"queries": list(queries)}).encode()


@pytest.mark.parametrize(
    ("raw", "flaw"),
    [
        (changed(queries={}), Flaw.WRONG_TYPE),
        (queried(7), Flaw.WRONG_TYPE),
        (queried({"run": "r"}), Flaw.WRONG_TYPE),
        (queried({"query": "q"}), Flaw.WRONG_TYPE),
        (queried({"query": "q", "run": "r", "published": -1}), Flaw.WRONG_TYPE),
        (queried({"query": "q", "run": "r", "over": 1}), Flaw.WRONG_TYPE),
        (queried({"query": "q", "run": "r", "lostRuns": "r"}), Flaw.WRONG_TYPE),
        (queried({"query": "q", "run": "r", "lostRuns": [7]}), Flaw.WRONG_TYPE),
        (queried({"query": "q", "run": "r", "lostRuns": ["x"] * 9}), Flaw.WRONG_TYPE),
        (queried(*[{"query": "q", "run": "r"}] * 2), Flaw.DUPLICATE),
        (queried(*({"query": f"q{one}", "run": "r"} for one in range(65))), Flaw.TOO_LARGE),
    ],
)
def test_each_kind_of_damage_of_queries_is_named(raw: bytes, flaw: Flaw) -> None:
    with pytest.raises(MalformedError) as caught:
        log_record_format.parse(raw, INSTANCE)

    assert caught.value.flaw is flaw


def test_a_ledger_without_an_end_before_one_with_an_end_is_refused() -> None:
    unended = replace(FULL.ledgers[0], end=None)
    raw = log_record_format.render(replace(FULL, ledgers=(unended, *FULL.ledgers[1:3])), INSTANCE)

    with pytest.raises(MalformedError, match="may have no end"):
        log_record_format.parse(raw, INSTANCE)


def test_a_record_of_more_ledgers_than_any_writer_leaves_is_refused() -> None:
    many = tuple(map(ledger, range(NEWEST_MAX + 1)))
    raw = log_record_format.render(replace(FULL, ledgers=many), INSTANCE)

    with pytest.raises(MalformedError, match="65 ledgers"):
        log_record_format.parse(raw, INSTANCE)


@pytest.mark.parametrize(
    "ledgers",
    [
        PAGE.ledgers[1:],
        (*PAGE.ledgers[: PAGE_LEDGERS - 1], replace(PAGE.ledgers[-1], end=None)),
    ],
)
def test_a_page_is_whole_or_damaged(ledgers: tuple[LogLedger, ...]) -> None:
    raw = log_record_format.render_page(replace(PAGE, ledgers=ledgers), INSTANCE)

    with pytest.raises(MalformedError, match="a page has 32 ledgers"):
        log_record_format.parse_page(raw, INSTANCE)


def test_quorums_that_are_none_are_refused() -> None:
    rules = replace(FULL.rules, quorums=Quorums(ensemble=2, write=3, ack=2))
    raw = log_record_format.render(replace(FULL, rules=rules), INSTANCE)

    with pytest.raises(MalformedError, match="quorums 2/3/2"):
        log_record_format.parse(raw, INSTANCE)


def test_rules_of_laggards_are_kept_by_a_program_that_does_not_know_them() -> None:
    """To such a program they are unknown fields, and come back as they were."""
    plain = json.loads(log_record_format.render(LAGS, INSTANCE))
    assert plain["rules"]["downgradeLagMs"] == 2_000
    assert plain["rules"]["downgradeLagBytes"] == 1 << 20
    assert "downgradeLagMs" not in json.loads(log_record_format.render(KEPT, INSTANCE))["rules"]
