"""The lines about a process's readiness: one when it is lost, one when it is back."""

import logging

import pytest

from zonekeeper.wire.running.readiness import ReadinessLines


def test_each_change_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    missing: dict[str, str] = {}
    lines = ReadinessLines(lambda: missing)
    with caplog.at_level(logging.INFO):
        lines.look(0.0)
        missing["registered"] = "the store is out of reach"
        lines.look(1.0)
        missing["registered"] = "the store is out of reach, for 2 s"
        lines.look(2.0)
        missing["disk"] = "full"
        lines.look(3.0)
        missing.clear()
        lines.look(63.5)
        lines.look(64.5)
    assert caplog.messages == [
        "not ready: registered: the store is out of reach",
        "not ready: disk: full; registered: the store is out of reach, for 2 s",
        "ready again after 62.5 s",
    ]
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING", "INFO"]
    assert caplog.records[-1].__dict__["duration_ms"] == 62_500
