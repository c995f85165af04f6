"""The log of a process: its levels, its two forms, its limit, and what never stands in it."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from zonekeeper.placement.base.settings import BadSettingError, GivenSettings
from zonekeeper.wire.running import log_lines, logs
from zonekeeper.wire.running.log_limit import LINES_MAX, WINDOW_S, LineLimit, LinePlace
from zonekeeper.wire.running.logs import LogForm, LogLevel, LogSettings

_logger = logging.getLogger("zonekeeper.bookie.life.somewhere")


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """A log's stream; the logging of pytest itself is put back."""
    root, ours = logging.getLogger(), logging.getLogger(logs.OURS)
    handlers, level, our_level = list(root.handlers), root.level, ours.level
    for each in handlers:
        root.removeHandler(each)
    yield io.StringIO()
    for each in list(root.handlers):
        root.removeHandler(each)
    for each in handlers:
        root.addHandler(each)
    root.setLevel(level)
    ours.setLevel(our_level)


def begun(stream: io.StringIO, form: LogForm, level: LogLevel = LogLevel.INFO) -> None:
    logs.set_up(
        LogSettings(level=level, form=form), {"process": "bookie", "bookie": "bk-a-0"}, stream
    )


def objects(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def fail_and_log() -> None:
    try:
        int("bad\nthing")
    except ValueError:
        _logger.exception("it failed")


def given(**texts: str) -> LogSettings:
    flags = {name.replace("_", "-"): text for name, text in texts.items()}
    return logs.given_to(GivenSettings(logs.SETTINGS, flags, {}))


# ── settings ──


def test_the_log_is_text_from_info_on_unless_it_is_told_otherwise() -> None:
    assert given() == LogSettings(level=LogLevel.INFO, form=LogForm.TEXT)
    assert given(log_level="debug", log_format="json") == LogSettings(
        level=LogLevel.DEBUG, form=LogForm.JSON
    )


@pytest.mark.parametrize(
    ("name", "text", "needed"),
    [("log_level", "loud", "debug, info, warning or error"), ("log_format", "xml", "text or json")],
)
def test_a_wrong_setting_is_refused_with_what_there_is(name: str, text: str, needed: str) -> None:
    with pytest.raises(BadSettingError, match=f"--{name.replace('_', '-')}: .*{needed}"):
        given(**{name: text})


def test_the_environment_sets_the_log() -> None:
    environment = {"ZONEKEEPER_LOG_FORMAT": "json", "ZONEKEEPER_LOG_LEVEL": "warning"}
    found = logs.given_to(GivenSettings(logs.SETTINGS, {}, environment))
    assert found == LogSettings(level=LogLevel.WARNING, form=LogForm.JSON)


# ── forms ──


def test_json_is_one_object_a_line_with_the_fields_of_the_event(stream: io.StringIO) -> None:
    begun(stream, LogForm.JSON)
    facts = {"ledger": 7, "boot_epoch": 3, "left": ["bk-a-1"]}
    _logger.warning("ledger %d: two\nlines \u2028 and \x1b[31m", 7, extra=facts)
    (line,) = objects(stream)
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "warning",
        "process": "bookie",
        "bookie": "bk-a-0",
        "component": "bookie",
        "logger": "zonekeeper.bookie.life.somewhere",
        "event": "ledger 7: two\nlines \u2028 and \x1b[31m",
        "ledger": 7,
        "bootEpoch": 3,
        "left": ["bk-a-1"],
    }


def test_the_time_is_rfc_3339_in_utc_with_milliseconds() -> None:
    assert log_lines.when(1_700_000_000.1239) == "2023-11-14T22:13:20.123Z"
    assert log_lines.when(1_700_000_000) == "2023-11-14T22:13:20.000Z"


def test_an_error_stands_inside_the_object(stream: io.StringIO) -> None:
    begun(stream, LogForm.JSON)
    fail_and_log()
    (line,) = objects(stream)
    assert (line["error"]["type"], line["error"]["text"]) == (
        "ValueError",
        "invalid literal for int() with base 10: 'bad\\nthing'",
    )
    assert "Traceback" in line["error"]["trace"]


def test_a_line_of_text_never_ends_inside_an_event(stream: io.StringIO) -> None:
    begun(stream, LogForm.TEXT)
    forged = "x\n2026-01-01T00:00:00.000Z ERROR zonekeeper the disk is gone\r\x1b[2J\u2028"
    _logger.info("%s", forged)
    fail_and_log()
    lines = stream.getvalue().splitlines()
    assert len(lines) == 2
    assert all(" zonekeeper.bookie.life.somewhere " in line for line in lines)
    assert "Traceback" in lines[1]
    assert lines[0].isprintable()


def test_only_known_fields_are_written(stream: io.StringIO) -> None:
    """Libraries attach what they like to their records; kopf attaches whole resources."""
    begun(stream, LogForm.JSON)
    logging.getLogger("kopf.objects").warning("hm", extra={"k8s_ref": {"secret": "s3cret"}})
    (line,) = objects(stream)
    assert "s3cret" not in stream.getvalue()
    assert line["component"] == "kopf"
    assert "name" not in line, "the record's own name is the logger's"


# ── levels ──


def test_libraries_are_not_heard_below_info(stream: io.StringIO) -> None:
    """At DEBUG, kubernetes' client logs the bodies of answers, secrets among them."""
    begun(stream, LogForm.TEXT, LogLevel.DEBUG)
    _logger.debug("ours")
    logging.getLogger("kubernetes.client.rest").debug("response body: s3cret")
    logging.getLogger("kopf").info("theirs")
    assert [line.rpartition(" ")[2] for line in stream.getvalue().splitlines()] == [
        "ours",
        "theirs",
    ]


def test_a_level_silences_what_is_below_it(stream: io.StringIO) -> None:
    begun(stream, LogForm.TEXT, LogLevel.WARNING)
    _logger.info("no")
    logging.getLogger("kopf").info("no")
    _logger.warning("yes")
    assert len(stream.getvalue().splitlines()) == 1


def test_a_second_set_up_replaces_the_first(stream: io.StringIO) -> None:
    begun(io.StringIO(), LogForm.TEXT)
    begun(stream, LogForm.TEXT)
    _logger.info("once")
    assert len(logging.getLogger().handlers) == 1
    assert len(stream.getvalue().splitlines()) == 1


# ── the limit ──


def shout(times: int, at_s: float, level: int = logging.INFO) -> None:
    """Log from one place, at a wall time."""
    for number in range(times):
        record = _logger.makeRecord(
            _logger.name, level, __file__, 1, "ledger %d is left out", (number,), None
        )
        record.created = at_s
        _logger.handle(record)


def test_a_place_that_floods_is_cut_and_the_rest_is_counted(stream: io.StringIO) -> None:
    begun(stream, LogForm.JSON)
    shout(1_000, 100.0)
    shout(1, 100.0 + WINDOW_S)
    found = objects(stream)
    assert len(found) == LINES_MAX + 2
    more = found[LINES_MAX]
    assert more["event"] == f"and {1_000 - LINES_MAX} more lines of this kind within 60 s"
    assert more["suppressed"] == 1_000 - LINES_MAX
    assert found[-1]["event"] == "ledger 0 is left out"


def test_what_was_left_out_has_the_severest_of_its_levels(stream: io.StringIO) -> None:
    begun(stream, LogForm.JSON)
    shout(LINES_MAX + 3, 100.0)
    shout(1, 100.0, logging.ERROR)
    shout(1, 100.0)
    shout(1, 100.0 + WINDOW_S)
    told = objects(stream)[LINES_MAX]
    assert (told["level"], told["suppressed"]) == ("error", 5)


def test_one_flood_silences_no_other_place(stream: io.StringIO) -> None:
    begun(stream, LogForm.TEXT)
    shout(1_000, 100.0)
    _logger.info("another event")
    assert stream.getvalue().splitlines()[-1].endswith("another event")


def test_what_was_left_out_is_told_at_the_end_of_the_process(stream: io.StringIO) -> None:
    begun(stream, LogForm.JSON)
    shout(LINES_MAX + 5, 100.0, logging.WARNING)
    (handler,) = logging.getLogger().handlers
    handler.close()
    assert objects(stream)[-1]["suppressed"] == 5
    assert objects(stream)[-1]["level"] == "warning"


def test_a_clock_that_is_set_back_ends_a_window() -> None:
    limit, place = LineLimit(), LinePlace(logger="x", path="x.py", line=1)
    for _ in range(LINES_MAX + 1):
        limit.takes(place, logging.INFO, 1_000.0)
    (left_out,) = limit.over(500.0)
    assert left_out.count == 1
    assert limit.takes(place, logging.INFO, 500.0)


def test_within_the_window_nothing_is_over() -> None:
    limit, place = LineLimit(), LinePlace(logger="x", path="x.py", line=1)
    for _ in range(LINES_MAX + 1):
        limit.takes(place, logging.INFO, 0.0)
    assert limit.over(WINDOW_S - 0.001) == []
    assert [one.count for one in limit.over(WINDOW_S)] == [1]
