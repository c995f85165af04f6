"""The audit: a line of JSON for each event, and no caller hides what another one did."""

import io
import json
import logging
from collections.abc import Iterator

import pytest

from zonekeeper.wire.running import audit_log, logs
from zonekeeper.wire.running.audit_log import AuditLine, AuditLog
from zonekeeper.wire.running.log_limit import LINES_MAX, WINDOW_S
from zonekeeper.wire.running.logs import LogForm, LogLevel, LogSettings


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def audit(clock: Clock) -> AuditLog:
    return AuditLog(clock)


def fence(audit: AuditLog, principal: str = "client/a", peer: str = "10.0.0.9:4711") -> None:
    line = AuditLine(operation="fence", outcome="done", principal=principal, peer=peer, ledger=7)
    audit.tell(line)


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, object]]:
    return [json.loads(one.getMessage()) for one in caplog.records if one.name == audit_log.NAME]


@pytest.fixture(autouse=True)
def heard(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.INFO, audit_log.NAME):
        yield


def test_a_line_is_one_object(audit: AuditLog, caplog: pytest.LogCaptureFixture) -> None:
    fence(audit)
    audit.tell(
        AuditLine(
            operation="compact",
            outcome="refused",
            principal="nobody",
            peer="[::1]:9",
            reason='a "reason"\nof two lines',
        )
    )
    done, refused = caplog.records
    assert json.loads(done.getMessage()) == {
        "operation": "fence",
        "outcome": "done",
        "principal": "client/a",
        "peer": "10.0.0.9:4711",
        "ledger": 7,
    }
    assert "\n" not in refused.getMessage()
    assert json.loads(refused.getMessage())["reason"] == 'a "reason"\nof two lines'
    assert (done.levelno, refused.levelno) == (logging.INFO, logging.WARNING)


def test_one_caller_floods_only_its_own_lines(
    audit: AuditLog, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(100):
        fence(audit)
    fence(audit, "client/b")
    for peer in ("10.0.0.1:1", "10.0.0.1:2", "10.0.0.2:1"):
        fence(audit, "nobody", peer)
    told = lines(caplog)
    assert [one["principal"] for one in told[:LINES_MAX]] == ["client/a"] * LINES_MAX
    assert [one["principal"] for one in told[LINES_MAX:]] == ["client/b", *["nobody"] * 3]
    caplog.clear()
    clock.now_s += WINDOW_S
    fence(audit)
    left_out, after = lines(caplog)
    assert left_out == {
        "operation": "fence",
        "outcome": "done",
        "principal": "client/a",
        "suppressed": 100 - LINES_MAX,
    }
    assert after["principal"] == "client/a"


def test_strangers_of_one_host_share_a_limit(
    audit: AuditLog, caplog: pytest.LogCaptureFixture
) -> None:
    for port in range(50):
        fence(audit, "nobody", f"10.0.0.1:{port}")
    assert len(lines(caplog)) == LINES_MAX


def test_an_outcome_does_not_hide_another(
    audit: AuditLog, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(50):
        audit.tell(
            AuditLine(operation="fence", outcome="refused", principal="client/a", peer="h:1")
        )
    fence(audit)
    assert lines(caplog)[-1]["outcome"] == "done"


def test_there_are_only_so_many_limits(audit: AuditLog, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(audit_log.CALLERS_MAX):
        fence(audit, f"client/{number}")
    caplog.clear()
    for number in range(100):
        fence(audit, f"client/more-{number}")
    assert len(lines(caplog)) == LINES_MAX
    fence(audit, "client/0")
    assert lines(caplog)[-1]["principal"] == "client/0", "one that was there has its own limit"


def test_the_end_of_the_process_tells_what_was_left_out(
    audit: AuditLog, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(LINES_MAX + 3):
        fence(audit)
    audit.close()
    assert lines(caplog)[-1]["suppressed"] == 3


@pytest.fixture
def root() -> Iterator[None]:
    """The log as it was, when the test is over."""
    kept = [(one, one.handlers[:], one.level) for one in map(logging.getLogger, NAMES)]
    yield
    for logger, handlers, level in kept:
        logger.handlers[:] = handlers
        logger.setLevel(level)


NAMES = (None, logs.OURS, audit_log.NAME)


@pytest.mark.usefixtures("root")
def test_the_log_s_own_limit_and_level_leave_the_audit_alone() -> None:
    stream, audit = io.StringIO(), AuditLog(Clock())
    logging.getLogger(audit_log.NAME).setLevel(logging.NOTSET)  # as in a new process
    logs.set_up(LogSettings(level=LogLevel.ERROR, form=LogForm.JSON), {"process": "bookie"}, stream)
    for number in range(2 * LINES_MAX):
        fence(audit, f"client/{number}")
    told = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert len(told) == 2 * LINES_MAX
    assert told[3]["principal"] == "client/3"
    assert told[3]["operation"] == "fence"
    assert told[3]["outcome"] == "done"
    assert told[3]["ledger"] == 7
    assert told[3]["peer"] == "10.0.0.9:4711"
