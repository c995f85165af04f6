"""What goes wrong reaches the person as one line; a bug keeps its traceback."""

import importlib.machinery
import os
import sys
from types import ModuleType

import pytest

from zonekeeper import pipeline
from zonekeeper.client.base.errors import NoSuchLedger, Unauthorized
from zonekeeper.metadata.formats.log_record import LogTaken
from zonekeeper.pipeline.base import one_line
from zonekeeper.pipeline.reading import options
from zonekeeper.placement.base.fields import InvalidFieldsError
from zonekeeper.placement.base.troubles import Trouble


def told(error: Exception) -> str:
    with pytest.raises(pipeline.NotRead) as refused, one_line.told():
        raise error
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__
    return str(refused.value)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (NoSuchLedger("there is no ledger 7"), "there is no ledger 7; `zonekeeper ledger list` sh"),
        (
            Unauthorized("ledger 7 has another password"),
            "password; give a file with the password: .",
        ),
        (OSError(28, "No space left on device"), "[Errno 28] No space left on device"),
        (Trouble("first\n\n  second"), "first   second"),
        (Trouble(), "Trouble"),
    ],
)
def test_a_trouble_is_one_line_with_what_to_do(error: Exception, line: str) -> None:
    said = told(error)

    assert line in said
    assert "\n" not in said


def test_a_write_says_what_it_is_about_and_what_a_retry_may_do() -> None:
    trouble = Trouble("lost")
    trouble.retryable, trouble.maybe_applied = True, True
    with (
        pytest.raises(pipeline.NotWritten) as refused,
        one_line.told(one_line.NotWritten, "log a/b"),
    ):
        raise trouble
    assert str(refused.value) == "log a/b: lost"
    assert refused.value.retryable
    assert refused.value.maybe_applied

    with (
        pytest.raises(pipeline.NotWritten, match=r"\Athere is no log a/b\Z"),
        one_line.told(one_line.NotWritten, "log a/b"),
    ):
        raise Trouble("there is no log a/b")
    assert "when it is started again" in told(LogTaken("the log is at epoch 3"))


def test_several_faults_are_one_line_and_counted() -> None:
    with pytest.raises(InvalidFieldsError) as refused:
        options.parse({"metadata": "sqlite:///x", "ledgr": "7"})

    assert told(refused.value) == (
        "2 faults: (1) ledgr: unknown: is no option of zonekeeper; did you mean ledger? "
        "(2) ledger, ledgers or log: not given: exactly one is required; write "
        '.option("ledger", 7), .option("ledgers", "7-900") or .option("log", "orders/eu")'
    )


def test_a_bug_is_not_a_line() -> None:
    with pytest.raises(ZeroDivisionError), one_line.told():
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("main", "hidden"),
    [
        ("pyspark.daemon", True),
        ("pyspark.sql.worker.plan_data_source_read", True),
        ("pytest", False),
    ],
)
def test_s175_only_a_worker_of_spark_is_told_to_leave_tracebacks_out(
    monkeypatch: pytest.MonkeyPatch, main: str, hidden: bool
) -> None:
    monkeypatch.setenv(one_line.HIDE_TRACEBACK, "")
    process = ModuleType("__main__")
    process.__spec__ = importlib.machinery.ModuleSpec(main, None)
    monkeypatch.setitem(sys.modules, "__main__", process)

    told(Trouble("x"))

    assert bool(os.environ[one_line.HIDE_TRACEBACK]) is hidden


def test_spark_shows_the_name_by_which_the_error_is_imported() -> None:
    assert f"{pipeline.NotRead.__module__}.{pipeline.NotRead.__qualname__}" == (
        "zonekeeper.pipeline.NotRead"
    )
