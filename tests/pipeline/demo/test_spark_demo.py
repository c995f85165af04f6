"""What the demonstration of Spark says of a run; and the demonstration itself, run whole."""

import dataclasses
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.shell.local_world import processes_with
from tests.support import java_runtime
from zonekeeper.pipeline.demo import orders, spark_demo
from zonekeeper.pipeline.demo.spark_demo import SparkDemo, StreamRun

COMMAND = (sys.executable, "-m", "zonekeeper.pipeline.demo")

BILLS = list(orders.bills(30))
GOOD = SparkDemo(
    orders=30,
    bills=orders.compared(BILLS, BILLS, range(20)),
    run=StreamRun(killed=11, replaced_by=12, batches=3, seconds=4.0),
)


def test_a_run_that_kept_its_promise_says_so() -> None:
    lines = GOOD.table()
    assert GOOD.kept
    assert lines[0].split() == ["messages", "SHA-256", "of", "all", "messages"]
    assert lines[1].split() == ["demo/orders,", "written", "30"]
    assert lines[2].split() == ["demo/bills,", "expected", "20", GOOD.bills.expected_sha256]
    assert lines[3].split() == ["demo/bills,", "found", "20", GOOD.bills.expected_sha256]
    assert [line.split()[-1] for line in lines[4:6]] == ["0", "0"]
    assert "executor 11 was killed (kill -9), 12 took its place" in lines[-2]
    assert lines[-1].strip().startswith("yes: ")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"bills": orders.compared(BILLS, BILLS[1:], range(19))}, "lost 1"),
        ({"bills": orders.compared(BILLS, [*BILLS, BILLS[0]], range(21))}, "twice, or foreign 1"),
        ({"bills": orders.compared(BILLS, BILLS, range(1, 21))}, "are NOT 0, 1, 2"),
        ({"bills": orders.compared([], [], [])}, "found 0"),
        ({"run": dataclasses.replace(GOOD.run, killed=None)}, "no executor was killed"),
    ],
)
def test_a_run_that_did_not_is_not_called_good(wrong: dict[str, object], said: str) -> None:
    one = dataclasses.replace(GOOD, **wrong)  # type: ignore[arg-type]  # fields by their names
    assert not one.kept
    assert one.table()[-1].strip().startswith("NO: ")
    assert said in " ".join(" ".join(one.table()).split())


def test_an_executor_that_was_not_replaced_in_time_is_said_to_be_so() -> None:
    run = dataclasses.replace(GOOD.run, replaced_by=None)
    one = dataclasses.replace(GOOD, run=run)
    assert one.kept
    assert "none took its place" in one.table()[-2]


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert spark_demo.main(words) == spark_demo.NOT_DONE
    said = capsys.readouterr()
    (line,) = said.err.splitlines()
    assert said.out == ""
    return line


def test_what_is_missing_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert "Error: there is no java on the PATH" in refused(capsys)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert f"Error: JAVA_HOME is {tmp_path}" in refused(capsys)
    for messages in (spark_demo.BATCHES - 1, spark_demo.MESSAGES_MAX + 1):
        assert f"--messages {messages}: it must be from" in refused(
            capsys, "--messages", str(messages)
        )


@pytest.mark.demo
def test_an_executor_dies_and_no_message_is_lost_or_doubled(tmp_path: Path) -> None:
    java_runtime.require("Spark")
    done = subprocess.run(
        [*COMMAND, "--messages", "40000"],
        capture_output=True,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        check=False,
        timeout=400,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    said = " ".join(done.stdout.split())
    assert "is killed (kill -9)" in said
    assert "demo/bills, expected 26,666 " in said
    assert "lost 0 twice, or foreign 0" in said
    assert said.endswith("yes: an executor died, and each bill is in the log once")
    assert list(tmp_path.iterdir()) == []
    assert processes_with(str(tmp_path)) == []


@pytest.mark.demo
def test_interrupted_it_leaves_nothing(tmp_path: Path) -> None:
    java_runtime.require("Spark")
    with subprocess.Popen(
        COMMAND,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as running:
        assert running.stdout is not None
        next(line for line in running.stdout if "Spark starts" in line)
        running.send_signal(signal.SIGTERM)
        running.stdout.read()

    assert running.returncode == spark_demo.INTERRUPTED
    assert processes_with(str(tmp_path)) == []
