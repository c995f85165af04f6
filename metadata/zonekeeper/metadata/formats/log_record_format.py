"""The record of a log, and its pages, as JSON (``records``). Pure.

    record  {"createdMs":…,"deleting":false,"epoch":2,"gone":12,"id":"<32 digits>",
             "lastLedger":17,"ledgers":[…],"pages":[0,3],"rules":{…},"start":"12:0:5",
             "startSequence":400,"writer":{"address":"","token":"…","zone":"a",
             "candidate":"host-1","candidacy":"<32 digits>"},      only of a candidate
             "queries":[…]}                                        not written where it is empty
    query   {"query":"…","run":"…","lostRuns":["…"],"published":41,"over":true}
                                                 not written: no lost run, no batch, not over
    page    {"id":"<32 digits>","ledgers":[…],"page":2}
    ledger  {"epoch":2,"id":17,"sequence":900,"lastEntry":204,"bytes":…,"messages":…,
             "firstMs":…,"lastMs":…,"latestMs":…,         from "lastEntry" on once it has ended
             "totalBytes":…}                              not written where it is 0

A field that is None is not written. Fields that this version does not know are kept, in the record,
its rules, its writer and each ledger. So a field may be added without a new format, if a program
that does not know it does no harm: it takes the field for absent, and writes it back unchanged. Any
other change needs a new format, which an older program refuses (``records.FORMAT``). In a ledger
``bytes`` are those of its messages.
"""

import json
import re
from collections.abc import Container, Mapping, Sequence
from itertools import pairwise
from typing import Final

from zonekeeper.metadata.formats import message_ids, records
from zonekeeper.metadata.formats.log_record import (
    ADDRESS_LENGTH_MAX,
    LOST_RUNS_MAX,
    NEWEST_MAX,
    PAGE_LEDGERS,
    QUERIES_MAX,
    UNENDED_MAX,
    LogLedger,
    LogLedgerEnd,
    LogPage,
    LogQuery,
    LogRecord,
    LogRules,
    LogWriterMark,
)
from zonekeeper.metadata.formats.malformed import Flaw, MalformedError, UnsupportedError
from zonekeeper.metadata.formats.message_ids import BadMessageIdError, MessageId
from zonekeeper.placement.base.fields import Plain
from zonekeeper.placement.base.ids import EntryId, LedgerId, ZoneName
from zonekeeper.placement.base.quorums import Quorums

#: The field of what stands in a record's place while the record is made anew.
REBUILDING: Final = "rebuilding"

_ID: Final = re.compile("[0-9a-f]{32}")
_KNOWN: Final = frozenset(
    {
        "createdMs", "deleting", "epoch", "gone", "id", "lastLedger", "ledgers", "pages", "rules",
        "start", "startSequence", "writer", "queries",
    }
)  # fmt: skip
_OF_A_LEDGER: Final = frozenset(
    {
        "epoch", "id", "sequence", "lastEntry", "bytes", "messages", "firstMs", "lastMs",
        "latestMs", "totalBytes",
    }
)  # fmt: skip
_OF_A_QUERY: Final = frozenset({"query", "run", "lostRuns", "published", "over"})
_OF_AN_END: Final = _OF_A_LEDGER - {"epoch", "id", "sequence", "lastEntry"}
#: The numbers among the rules: their names in the record, and in ``LogRules``.
_RULES: Final = {
    "rotateBytes": "rotate_bytes",
    "rotateMessages": "rotate_messages",
    "rotateAfterMs": "rotate_after_ms",
    "downgradeAfterMs": "downgrade_after_ms",
    "downgradeLagMs": "downgrade_lag_ms",
    "downgradeLagBytes": "downgrade_lag_bytes",
    "keepMs": "keep_ms",
    "keepBytes": "keep_bytes",
    "cursorWaitMs": "cursor_wait_ms",
    "cursorWaitBytes": "cursor_wait_bytes",
}
_QUORUMS: Final = ("quorums", "minimum")


def render(record: LogRecord, instance: str) -> bytes:
    """Write a record."""
    plain: dict[str, Plain] = json.loads(record.unknown)
    plain |= {
        "createdMs": record.created_ms,
        "deleting": record.deleting,
        "epoch": record.epoch,
        "id": record.id,
        "ledgers": [_plain_ledger(ledger) for ledger in record.ledgers],
        "pages": [record.first_page, record.next_page],
        "rules": _plain_rules(record.rules),
        "startSequence": record.start_sequence,
    }
    if record.gone is not None:
        plain["gone"] = record.gone
    if record.last_ledger is not None:
        plain["lastLedger"] = record.last_ledger
    if record.start is not None:
        plain["start"] = str(record.start)
    if record.writer is not None:
        writer: dict[str, Plain] = json.loads(record.writer.unknown)
        writer |= {"token": record.writer.token, "address": record.writer.address}
        if record.writer.zone is not None:
            writer["zone"] = record.writer.zone
        if record.writer.candidacy:
            writer["candidate"] = record.writer.candidate
            writer["candidacy"] = record.writer.candidacy
        plain["writer"] = writer
    if record.queries:
        plain["queries"] = [_plain_query(query) for query in record.queries]
    return records.render(plain, instance)


def parse(raw: bytes, instance: str) -> LogRecord:
    """Read a record; raises ``UnreadableError`` or ``ForeignRecordError``."""
    data = records.parse(raw, instance)
    if REBUILDING in data:
        raise UnsupportedError(
            "the log is being rebuilt, and is neither read nor written meanwhile; if no program "
            "does that any more, rebuild it again"
        )
    first_page, next_page = _pages(data)
    ledgers = _ledgers(data)
    last = _number_or_none(data, "lastLedger")
    gone = _number_or_none(data, "gone")
    if ledgers and (last is None or ledgers[-1].id > last):
        raise MalformedError(Flaw.INCONSISTENT, "lastLedger must be the highest ledger")
    if len(ledgers) > NEWEST_MAX:
        raise MalformedError(Flaw.TOO_LARGE, f"a record of {len(ledgers)} ledgers")
    _check_ends(ledgers)
    return LogRecord(
        id=_id(data),
        created_ms=records.number(data, "createdMs"),
        rules=_rules(_object(data, "rules")),
        epoch=records.number(data, "epoch"),
        writer=_writer(_object(data, "writer")) if "writer" in data else None,
        start=_start(data),
        start_sequence=records.number(data, "startSequence"),
        first_page=first_page,
        next_page=next_page,
        ledgers=ledgers,
        last_ledger=None if last is None else LedgerId(last),
        gone=None if gone is None else LedgerId(gone),
        deleting=_flag(data, "deleting"),
        queries=_queries(data),
        unknown=records.unknown(data, _KNOWN),
    )


def render_page(page: LogPage, instance: str) -> bytes:
    """Write a page."""
    return records.render(
        {
            "id": page.log_id,
            "ledgers": [_plain_ledger(ledger) for ledger in page.ledgers],
            "page": page.number,
        },
        instance,
    )


def parse_page(raw: bytes, instance: str) -> LogPage:
    """Read a page; raises ``UnreadableError`` or ``ForeignRecordError``."""
    data = records.parse(raw, instance)
    ledgers = _ledgers(data)
    if len(ledgers) != PAGE_LEDGERS or any(ledger.end is None for ledger in ledgers):
        raise MalformedError(
            Flaw.INCONSISTENT, f"a page has {PAGE_LEDGERS} ledgers, and all of them have ended"
        )
    return LogPage(number=records.number(data, "page"), log_id=_id(data), ledgers=ledgers)


def _plain_ledger(ledger: LogLedger) -> Plain:
    plain: dict[str, Plain] = json.loads(ledger.unknown)
    plain |= {"id": ledger.id, "epoch": ledger.epoch}
    if ledger.sequence is not None:
        plain["sequence"] = ledger.sequence
    if ledger.end is not None:
        plain |= {
            "lastEntry": ledger.end.last_entry,
            "bytes": ledger.end.size_bytes,
            "messages": ledger.end.messages,
            "firstMs": ledger.end.first_ms,
            "lastMs": ledger.end.last_ms,
            "latestMs": ledger.end.latest_ms,
        }
        if ledger.end.total_bytes:
            plain["totalBytes"] = ledger.end.total_bytes
    return plain


def _ledger(data: Plain) -> LogLedger:
    if not isinstance(data, dict):
        raise MalformedError(Flaw.WRONG_TYPE, "a ledger must be an object")
    sequence = _number_or_none(data, "sequence")
    end = None
    if "lastEntry" in data:
        end = LogLedgerEnd(
            last_entry=EntryId(records.number(data, "lastEntry")),
            size_bytes=records.number(data, "bytes"),
            messages=records.number(data, "messages"),
            first_ms=records.number(data, "firstMs"),
            last_ms=records.number(data, "lastMs"),
            latest_ms=records.number(data, "latestMs"),
            total_bytes=_number_or_none(data, "totalBytes") or 0,
        )
        if sequence is None:
            raise MalformedError(Flaw.MISSING, "a ledger that has ended has a sequence")
    elif data.keys() & _OF_AN_END:
        raise MalformedError(Flaw.INCONSISTENT, "a ledger without a last entry has not ended")
    return LogLedger(
        id=LedgerId(records.number(data, "id")),
        epoch=records.number(data, "epoch"),
        sequence=sequence,
        end=end,
        unknown=_unknown(data, _OF_A_LEDGER),
    )


def _ledgers(data: Mapping[str, Plain]) -> tuple[LogLedger, ...]:
    every = data.get("ledgers")
    if not isinstance(every, list):
        raise MalformedError(Flaw.WRONG_TYPE, "ledgers must be a list")
    ledgers = tuple(map(_ledger, every))
    if any(one.id >= other.id for one, other in pairwise(ledgers)):
        raise MalformedError(Flaw.OUT_OF_RANGE, "the ids of ledgers must ascend")
    return ledgers


def _check_ends(ledgers: Sequence[LogLedger]) -> None:
    ends = [ledger.end is None for ledger in ledgers]
    if sum(ends) > UNENDED_MAX or ends != sorted(ends):
        raise MalformedError(
            Flaw.INCONSISTENT, f"only the last {UNENDED_MAX} ledgers may have no end"
        )


def _plain_rules(rules: LogRules) -> Plain:
    plain: dict[str, Plain] = json.loads(rules.unknown)
    for key, attribute in _RULES.items():
        if (value := getattr(rules, attribute)) is not None:
            plain[key] = value
    for key in _QUORUMS:
        quorums: Quorums | None = getattr(rules, key)
        if quorums is not None:
            plain[key] = {
                "ensemble": quorums.ensemble,
                "write": quorums.write,
                "ack": quorums.ack,
                "ackZones": quorums.ack_zones,
            }
    return plain


def _rules(data: Mapping[str, Plain]) -> LogRules:
    return LogRules(
        quorums=_quorums(_object(data, "quorums")) if "quorums" in data else None,
        minimum=_quorums(_object(data, "minimum")) if "minimum" in data else None,
        rotate_bytes=records.number(data, "rotateBytes"),
        rotate_messages=records.number(data, "rotateMessages"),
        rotate_after_ms=records.number(data, "rotateAfterMs"),
        downgrade_after_ms=_number_or_none(data, "downgradeAfterMs"),
        downgrade_lag_ms=_number_or_none(data, "downgradeLagMs"),
        downgrade_lag_bytes=_number_or_none(data, "downgradeLagBytes"),
        keep_ms=_number_or_none(data, "keepMs"),
        keep_bytes=_number_or_none(data, "keepBytes"),
        cursor_wait_ms=_number_or_none(data, "cursorWaitMs"),
        cursor_wait_bytes=_number_or_none(data, "cursorWaitBytes"),
        unknown=_unknown(data, {*_RULES, *_QUORUMS}),
    )


def _quorums(data: Mapping[str, Plain]) -> Quorums:
    ensemble, write = records.number(data, "ensemble"), records.number(data, "write")
    ack, zones = records.number(data, "ack"), records.number(data, "ackZones")
    if not 1 <= zones <= ack <= write <= ensemble:
        raise MalformedError(Flaw.OUT_OF_RANGE, f"quorums {ensemble}/{write}/{ack} in {zones}")
    return Quorums(ensemble=ensemble, write=write, ack=ack, ack_zones=zones)


def _writer(data: Mapping[str, Plain]) -> LogWriterMark:
    address = records.text(data, "address")
    if len(address) > ADDRESS_LENGTH_MAX:
        raise MalformedError(Flaw.TOO_LARGE, f"a writer's address of {len(address)} characters")
    return LogWriterMark(
        token=records.text(data, "token"),
        zone=ZoneName(records.text(data, "zone")) if "zone" in data else None,
        address=address,
        candidate=records.text(data, "candidate") if "candidate" in data else "",
        candidacy=records.text(data, "candidacy") if "candidacy" in data else "",
        unknown=_unknown(data, {"token", "zone", "address", "candidate", "candidacy"}),
    )


def _plain_query(query: LogQuery) -> Plain:
    plain: dict[str, Plain] = json.loads(query.unknown)
    plain |= {"query": query.query, "run": query.run}
    if query.lost_runs:
        plain["lostRuns"] = list(query.lost_runs)
    if query.published is not None:
        plain["published"] = query.published
    if query.is_over:
        plain["over"] = True
    return plain


def _queries(data: Mapping[str, Plain]) -> tuple[LogQuery, ...]:
    every = data.get("queries", [])
    if not isinstance(every, list):
        raise MalformedError(Flaw.WRONG_TYPE, "queries must be a list")
    if len(every) > QUERIES_MAX:
        raise MalformedError(Flaw.TOO_LARGE, f"a record of {len(every)} queries")
    queries = tuple(map(_query, every))
    if len({one.query for one in queries}) != len(queries):
        raise MalformedError(Flaw.DUPLICATE, "a query stands twice in a record")
    return queries


def _query(data: Plain) -> LogQuery:
    if not isinstance(data, dict):
        raise MalformedError(Flaw.WRONG_TYPE, "a query must be an object")
    every = data.get("lostRuns", [])
    lost_runs = [run for run in every if isinstance(run, str)] if isinstance(every, list) else []
    if lost_runs != every or len(lost_runs) > LOST_RUNS_MAX:
        raise MalformedError(
            Flaw.WRONG_TYPE, f"lostRuns must be a list of at most {LOST_RUNS_MAX} texts"
        )
    return LogQuery(
        query=records.text(data, "query"),
        run=records.text(data, "run"),
        lost_runs=tuple(lost_runs),
        published=_number_or_none(data, "published"),
        is_over=_flag(data, "over") if "over" in data else False,
        unknown=_unknown(data, _OF_A_QUERY),
    )


def _start(data: Mapping[str, Plain]) -> MessageId | None:
    if "start" not in data:
        return None
    try:
        return message_ids.parse(records.text(data, "start"))
    except BadMessageIdError as error:
        raise MalformedError(Flaw.BAD_TEXT, str(error)) from error


def _pages(data: Mapping[str, Plain]) -> tuple[int, int]:
    pages = data.get("pages")
    numbers = [one for one in pages if type(one) is int] if isinstance(pages, list) else []
    if len(numbers) != 2 or numbers != pages or not 0 <= numbers[0] <= numbers[1]:  # noqa: PLR2004 first and next
        raise MalformedError(Flaw.OUT_OF_RANGE, "pages are the first page, and the next one")
    return numbers[0], numbers[1]


def _id(data: Mapping[str, Plain]) -> str:
    value = records.text(data, "id")
    if not _ID.fullmatch(value):
        raise MalformedError(Flaw.BAD_TEXT, f"{value[:40]!r} is not the id of a log")
    return value


def _flag(data: Mapping[str, Plain], key: str) -> bool:
    value = data.get(key)
    if not isinstance(value, bool):
        raise MalformedError(Flaw.WRONG_TYPE, f"{key} must be true or false")
    return value


def _number_or_none(data: Mapping[str, Plain], key: str) -> int | None:
    return records.number(data, key) if key in data else None


def _unknown(data: Mapping[str, Plain], known: Container[str]) -> str:
    """Give the fields of a part of a record that are not known, as JSON."""
    rest = {name: value for name, value in data.items() if name not in known}
    return json.dumps(rest, sort_keys=True)


def _object(data: Mapping[str, Plain], key: str) -> Mapping[str, Plain]:
    value = data.get(key)
    if not isinstance(value, dict):
        raise MalformedError(Flaw.WRONG_TYPE, f"{key} must be an object")
    return value
