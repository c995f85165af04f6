"""How ``zonekeeper log`` reads places, sizes and durations, and how it writes messages."""

import json
from dataclasses import replace

import click
import pytest

from zonekeeper.log import LogMessage, LogRules, MessageId, ReadMessage
from zonekeeper.metadata.formats.log_record import LogLedger, LogRecord
from zonekeeper.metadata.logs.log_cursor import CursorMark, CursorPosition
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.shell.logs import log_options, log_text, message_io
from zonekeeper.shell.logs.log_options import DurationParameter, GivenRules, SizeParameter
from zonekeeper.shell.logs.log_places import LogEdge, LogPlace, PlaceParameter, WallTime
from zonekeeper.shell.logs.log_text import SeenCursors, SeenLog
from zonekeeper.shell.logs.log_work import LogAppended
from zonekeeper.shell.logs.message_io import MessageForm

ID = MessageId(LedgerId(17), EntryId(204), 3)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("earliest", LogEdge.EARLIEST),
        ("latest", LogEdge.LATEST),
        ("0", 0),
        ("204", 204),
        (str((1 << 63) - 1), (1 << 63) - 1),
        ("17:204:3", ID),
        ("1970-01-01T00:00:01", WallTime(1_000)),
        ("1970-01-01T01:00:00.250+01:00", WallTime(250)),
        ("1970-01-02", WallTime(86_400_000)),
        ("2026-11-27T03:00:00Z", WallTime(1_795_748_400_000)),
    ],
)
def test_a_place_is_told_by_its_looks(text: str, place: LogPlace) -> None:
    found = PlaceParameter(*LogEdge).convert(text, None, None)
    assert (type(found), found) == (type(place), place)


@pytest.mark.parametrize(
    "text",
    ["", "-1", "0x1", "1:2", "1:2:3:4", "01:2:3", "17:204:x", "1969-12-31", "2026-13-01", "noon",
     str(1 << 63), "9" * 30, "1:2:99999999999", "03:00:00", "٣"],
)  # fmt: skip
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        PlaceParameter(*LogEdge).convert(text, None, None)


def test_an_end_is_a_place_only_where_it_has_a_meaning() -> None:
    with pytest.raises(click.BadParameter, match="no place in a log: write 17:204:3"):
        PlaceParameter().convert("earliest", None, None)
    with pytest.raises(click.BadParameter, match="write earliest, 17:204:3"):
        PlaceParameter(LogEdge.EARLIEST).convert("latest", None, None)


def test_sizes_and_durations_are_those_of_the_policy() -> None:
    assert SizeParameter().convert("64MiB", None, None) == 64 << 20
    assert SizeParameter().convert("1000", None, None) == 1_000
    assert DurationParameter().convert("30m", None, None) == 1_800_000
    for text in ("0", "0KiB", "64mb", "-1", "", "9" * 30):
        with pytest.raises(click.BadParameter):
            SizeParameter().convert(text, None, None)
    for text in ("0s", "30", "1.5h", ""):
        with pytest.raises(click.BadParameter):
            DurationParameter().convert(text, None, None)


def test_rules_that_are_given_change_no_other_rule() -> None:
    policy = Quorums(ensemble=3, write=3, ack=2, ack_zones=2)
    before = LogRules(rotate_bytes=7, keep_ms=5, unknown='{"later":1}')
    after = GivenRules(given={"quorums": (3, 3, 1), "keep_ms": None}).on(before, policy)
    assert after == LogRules(
        rotate_bytes=7,
        unknown='{"later":1}',
        quorums=Quorums(ensemble=3, write=3, ack=1, ack_zones=1),
    )
    every = log_options.defaults(tuple(log_options.RULE_OPTIONS.values()))
    assert GivenRules(given=every).on(before, policy) == LogRules(unknown='{"later":1}')


def test_every_rule_has_an_option() -> None:
    assert set(log_options.RULE_OPTIONS) | {"unknown"} == set(LogRules.__slots__)


def one(payload: bytes, key: bytes | None = None) -> ReadMessage:
    message = LogMessage(payload=payload, key=key, headers=(("h", b"\xff"),))
    return ReadMessage(id=ID, sequence=9, message=message)


def test_a_payload_is_written_byte_for_byte() -> None:
    raw = bytes(range(256))
    assert MessageForm().of(one(raw), 0) == raw + b"\n"
    assert MessageForm(raw=True).of(one(raw), 0) == raw


def test_a_long_line_is_one_line_and_moves_no_terminal() -> None:
    line = MessageForm(is_long=True).of(one(b"a\x1b[2J\nb\xff \xe2\x82\xac", b"k\r"), 1_000)
    said = r"9 17:204:3 1970-01-01T00:00:01.000+00:00 key=k\r h=\xff  a\x1b[2J\nb\xff €"
    assert line.decode() == said + "\n"
    assert b" - h=" in MessageForm(is_long=True).of(one(b""), 0)


def test_json_holds_any_bytes_and_tells_no_key_from_an_empty_one() -> None:
    found = json.loads(MessageForm(as_json=True).of(one(b"\xff\n", b""), 5))
    assert found == {
        "id": "17:204:3",
        "sequence": 9,
        "timeMs": 5,
        "key": "",
        "headers": [["h", "/w=="]],
        "payload": "/wo=",
    }
    assert message_io.plain(one(b""), 5)["key"] is None


def test_a_state_is_what_the_record_says() -> None:
    record = LogRecord(id="0" * 32, created_ms=0)
    ledger = LogLedger(id=LedgerId(1), epoch=1, sequence=0)
    assert log_text.state(record) == "new"
    assert log_text.state(LogRecord(id="0" * 32, created_ms=0, epoch=1)) == "closed"
    unended = LogRecord(id="0" * 32, created_ms=0, epoch=1, ledgers=(ledger,))
    assert log_text.state(unended) == "open"
    deleting = LogRecord(id="0" * 32, created_ms=0, ledgers=(ledger,), deleting=True)
    assert log_text.state(deleting) == "deleting"
    silent = SeenLog(name="a", record=unended, end=None, ledgers=[ledger])
    assert log_text.ledger_row(silent, ledger) == ("1", "1", "0", "open", "", "", "", "")
    seen = replace(silent, confirmed={ledger.id: EntryId(4)}, marked={ledger.id})
    assert log_text.ledger_row(seen, ledger) == ("1", "1", "0", "open", "5+", "", "", "lacking")
    pending = [dict(log_text.rows(one))["pending"] for one in (silent, seen)]
    assert pending == [
        "ledger 1 has no end, and its bookies gave no answer",
        "ledger 1 has no end, and is confirmed up to entry 4",
    ]
    assert "pending" not in dict(log_text.rows(replace(silent, record=record)))


def test_an_unknown_end_says_why_it_is_unknown() -> None:
    ledger = LogLedger(id=LedgerId(1), epoch=1, sequence=0)
    record = LogRecord(id="0" * 32, created_ms=0, epoch=1, ledgers=(ledger,))
    silent = SeenLog(name="a", record=record, end=None, ledgers=[ledger])
    locked = replace(silent, wrong_password=True)
    deleting = replace(silent, record=replace(record, deleting=True))
    rows = [dict(log_text.rows(one)) for one in (silent, locked, deleting)]
    assert [(one["end"], one["pending"]) for one in rows] == [
        (
            "unknown: the bookies of the open ledger gave no answer",
            "ledger 1 has no end, and its bookies gave no answer",
        ),
        (
            "unknown: the open ledger has another password",
            "ledger 1 has no end, and its entries are unknown without its password",
        ),
        ("none: the log is being deleted", "ledger 1 has no end"),
    ]
    assert [log_text.plain(one)["wrongPassword"] for one in (silent, locked)] == [False, True]


def test_an_append_says_how_far_it_came() -> None:
    more = "; later ones may be in the log or not"
    for first, sure, said in (
        (None, 0, "no message is acknowledged"),
        (5, 5, "no message is acknowledged"),
        (5, 6, "message 5 is acknowledged"),
        (5, 9, "messages 5 to 8 are acknowledged"),
    ):
        appended = LogAppended(name="x", first=first, sure=sure)
        assert appended.text() == said + more
        appended.closed = True
        assert appended.text() == said


def test_a_cursor_is_told_also_where_the_end_is_unknown() -> None:
    mark = CursorMark(
        log_id="0" * 32,
        created_ms=1,
        epoch=2,
        token="t",
        address="a\x1b",
        position=CursorPosition(sequence=7),
        moved_ms=5_000,
    )
    seen = SeenCursors(name="a", end=9, marks={"billing": mark}, now_ms=65_500)
    unknown = replace(seen, end=None, now_ms=0)
    assert list(log_text.cursor_rows(seen)) == [("billing", "7", "2", "1m", "2", r"a\x1b")]
    assert list(log_text.cursor_rows(unknown)) == [("billing", "7", "?", "0s", "2", r"a\x1b")]
    for one, lag, age_ms in ((seen, 2, 60_500), (unknown, None, 0)):
        plain = log_text.plain_cursors(one)["cursors"]
        assert isinstance(plain, list)
        assert (plain[0]["lag"], plain[0]["ageMs"]) == (lag, age_ms)
