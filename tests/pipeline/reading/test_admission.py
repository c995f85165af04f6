"""Offsets of a stream: read exactly, refused in words, and never past what was trimmed."""

from dataclasses import replace

import pytest

from zonekeeper.log.base.errors import LogTrimmed
from zonekeeper.metadata.formats.log_record import LogRecord, OtherIncarnation
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.pipeline.reading import admission
from zonekeeper.pipeline.reading.admission import BadOffsetError, StreamOffset
from zonekeeper.pipeline.reading.slices import LogSpan
from zonekeeper.pipeline.reading.wanted import OneLog, OnTrimmed
from zonekeeper.placement.base.ids import EntryId, LedgerId

LOG_ID = "0f" * 16
PLAIN = {"at": "17:204:3", "log": LOG_ID, "sequence": 900, "version": 1}
AT = MessageId(LedgerId(17), EntryId(204), 3)
OFFSET = StreamOffset(log_id=LOG_ID, at=AT, sequence=900)
RECORD = LogRecord(id=LOG_ID, created_ms=1)
FAILS = OneLog(name="orders")
GOES_ON = OneLog(name="orders", on_trimmed=OnTrimmed.EARLIEST)


def test_an_offset_is_the_json_that_the_checkpoints_of_queries_have() -> None:
    assert admission.render(OFFSET) == PLAIN
    assert admission.parse(PLAIN) == OFFSET
    beginning = StreamOffset(log_id=LOG_ID, at=None, sequence=0)
    assert admission.parse(admission.render(beginning)) == beginning


@pytest.mark.parametrize(
    "change",
    [
        {"at": 5},
        {"at": "x"},
        {"log": 5},
        {"sequence": "900"},
        {"sequence": -1},
        {"sequence": True},
        {"sequence": 1 << 63},
        {"version": 0},
        {"version": "1"},
        {"more": 1},
    ],
)
def test_an_offset_of_another_source_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(BadOffsetError, match="is none of a log: it is that of another source"):
        admission.parse({**PLAIN, **change})
    for name in PLAIN:
        with pytest.raises(BadOffsetError):
            admission.parse({one: value for one, value in PLAIN.items() if one != name})


def test_an_offset_of_a_newer_version_is_refused_whatever_else_it_says() -> None:
    with pytest.raises(BadOffsetError, match="of version 2, and this program reads 1"):
        admission.parse({"version": 2, "places": []})


def test_an_offset_of_another_log_or_incarnation_is_refused() -> None:
    admission.check_log(OFFSET, "orders", RECORD)
    other = replace(RECORD, id="ab" * 16)
    for ask in (
        lambda: admission.check_log(OFFSET, "orders", other),
        lambda: admission.span(FAILS, OFFSET, OFFSET, other),
        lambda: admission.span(FAILS, OFFSET, replace(OFFSET, log_id="ab" * 16), RECORD),
    ):
        with pytest.raises(OtherIncarnation, match="give the log of the checkpoint, or another"):
            ask()


def test_what_was_trimmed_is_an_error_or_is_passed_over_as_the_options_say() -> None:
    start = MessageId(LedgerId(20), EntryId(1), 0)
    trimmed = replace(RECORD, start=start, start_sequence=901)
    assert admission.begun(OFFSET, FAILS, replace(trimmed, start_sequence=900)) == OFFSET
    with pytest.raises(LogTrimmed, match="goes on at message 900, and those before 901 were trimm"):
        admission.begun(OFFSET, FAILS, trimmed)

    end = replace(OFFSET, sequence=950)
    span = LogSpan(name="orders", log_id=LOG_ID, start=start, first=901, stop=AT, end=950)
    assert admission.span(GOES_ON, OFFSET, end, trimmed) == span
    gone = admission.span(GOES_ON, OFFSET, end, replace(trimmed, start_sequence=960))
    assert (gone.first, gone.end) == (950, 950)


def test_limits() -> None:
    assert admission.least(None, None) is None
    assert admission.least(5, None, 3) == 3
    assert admission.by_rows(10, 20, None) == 20
    assert admission.by_rows(10, 20, 3) == 13
    assert admission.by_rows(10, 20, 30) == 20
