"""Copies of logs: what is refused before anything moves, and which logs a copy takes."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.pipeline.jobs.test_command_line import ended
from zonekeeper.log.publishing.partitions import CopyTaken, QueryBatch
from zonekeeper.metadata.formats.log_record import (
    LogLedger,
    LogLedgerEnd,
    LogQuery,
    LogRecord,
    LogWriterMark,
)
from zonekeeper.metadata.logs.log_queries import QueryRun
from zonekeeper.pipeline.base import one_line
from zonekeeper.pipeline.jobs import command_line, log_import, log_mirror
from zonekeeper.pipeline.jobs.log_mirror import MirrorRefused, MirrorStart
from zonekeeper.pipeline.planning import copy_options, hadoop_files
from zonekeeper.pipeline.planning.hadoop_files import HadoopFiles
from zonekeeper.pipeline.reports.mirror_progress import MirrorProgress
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.placement.base.troubles import Trouble

LOG = ["--log", "orders/eu"]
OPTIONS = copy_options.parse_mirror(
    {
        "metadata": "zk://host:2181/ledgers",
        "log": "orders/eu",
        "to-log": "orders/copy",
        "checkpoint": "/c",
    }
)
OF = LogRecord(id="0f" * 16, created_ms=1, start_sequence=5)
MIRROR = f"mirror-{OF.id}"


def log(*, first: int = 5, messages: int = 0, query: str = "", writer: str = "") -> LogRecord:
    """Give the record of a log that is written: by a run of a query, or by another writer."""
    record = LogRecord(id="0e" * 16, created_ms=1, start_sequence=first)
    if query:
        known = LogQuery(query=query, run="r", published=first if messages else None)
        writer = QueryRun(query=query, run="r").token
        record = replace(record, queries=(known,))
    if writer:
        record = replace(record, epoch=1, writer=LogWriterMark(token=writer))
    if messages:
        end = LogLedgerEnd(
            last_entry=EntryId(1), size_bytes=1, messages=messages, first_ms=1, last_ms=1
        )
        ledger = LogLedger(id=LedgerId(1), epoch=1, sequence=first, end=end)
        record = replace(record, ledgers=(ledger,), last_ledger=LedgerId(1))
    return record


@pytest.mark.parametrize(
    ("to", "at"),
    [
        (log(), 5),
        (log(first=9), 9),
        (log(query=MIRROR), 5),
        (log(query=MIRROR, messages=4), 9),
    ],
)
def test_a_mirror_goes_on_where_its_log_ends(to: LogRecord, at: int) -> None:
    assert log_mirror.start_of(OPTIONS, OF, 9, to) == at


@pytest.mark.parametrize(
    ("to", "kind", "told"),
    [
        (OF, MirrorRefused, "is the very log orders/eu that is followed"),
        (log(writer="someone"), CopyTaken, "is written by another writer"),
        (log(writer="someone", messages=2), CopyTaken, "copy into another log"),
        (log(query=f"mirror-{'0a' * 16}", messages=2), CopyTaken, "is written by another writer"),
        (log(messages=2), MirrorRefused, "has messages that no mirror of log orders/eu"),
        (log(first=4), MirrorRefused, "goes on with message 4"),
        (log(first=10), MirrorRefused, "from 5 up to 9"),
        (log(query=MIRROR, messages=5), MirrorRefused, "goes on with message 10"),
    ],
)
def test_a_log_that_is_no_copy_of_the_other_is_refused(
    to: LogRecord, kind: type[Trouble], told: str
) -> None:
    with pytest.raises(kind, match=told) as refused:
        log_mirror.start_of(OPTIONS, OF, 9, to)
    assert isinstance(refused.value, Trouble)
    assert "query takes it" not in one_line.line_of(refused.value)


IMPORT = QueryBatch(
    log="a/b", run=QueryRun(query="import-1", run="now"), batch=0, is_job=True, begins_at=5
)


@pytest.mark.parametrize(
    ("record", "is_its_own"),
    [
        (log(query="import-1"), True),
        (log(query="import-1", messages=4), True),
        (log(), False),
        (log(query="import-2"), False),
        (log(query="import-1", first=6), False),
        (replace(log(query="import-1"), deleting=True), False),
        (replace(log(query="import-1"), writer=LogWriterMark(token="someone")), False),
        (
            replace(log(query="import-1", messages=4), queries=log(query="import-1").queries),
            False,
        ),
    ],
)
def test_an_import_takes_only_a_log_that_an_import_of_the_same_export_made(
    record: LogRecord, is_its_own: bool
) -> None:
    assert log_import.is_of_import(record, IMPORT) == is_its_own


def test_how_far_a_mirror_came_is_told_also_if_there_was_nothing() -> None:
    start = MirrorStart(log_id=OF.id, at=7, end=7)
    (line,) = log_mirror.outcome(None, OPTIONS, start).lines
    assert line.endswith("into log orders/copy: copied up to sequence 7; lag: 0 messages")
    seen = MirrorProgress(copied=9, end=12)
    (line,) = log_mirror.outcome(seen, OPTIONS, start).lines
    assert line.endswith("copied up to sequence 9; lag: 3 messages")


def test_files_are_not_reached_over_spark_connect() -> None:
    with pytest.raises(hadoop_files.FilesRefused, match="Spark Connect"):
        HadoopFiles(object())  # type: ignore[arg-type]  # a session without a JVM


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["log-export"], "3 faults: (1) --metadata"),
        (["log-import", *LOG], "--input: not given"),
        (["log-mirror", *LOG, "--metadata", "zk://h/l"], "--to-log: orders/eu: is the log that is"),
        (["log-mirror", "--output", "x.csv"], "unrecognized arguments: --output"),
        (
            [
                "log-mirror",
                *LOG,
                "--metadata",
                "zk://h/l",
                "--to-log",
                "a/c",
                "--create",
                "perhaps",
            ],
            '--create: "perhaps": must be yes or no',
        ),
        (
            ["log-export", *LOG, "--metadata", "sqlite:///nowhere/m.db", "--output", "x.parquet"],
            "/nowhere/m.db: there is no such file",
        ),
        (
            ["log-import", *LOG, "--metadata", "sqlite:///nowhere/m.db", "--input", "x.parquet"],
            "/nowhere/m.db: there is no such file",
        ),
    ],
)
def test_a_command_that_is_wrong_is_one_line(
    words: list[str],
    told: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://nowhere")  # it is not asked for Java first
    code, (line,) = ended(words, capsys)
    assert code == 2
    assert line.startswith("Error: ")
    assert told in line


Commands = Callable[[list[str]], str]


@pytest.fixture
def commanded(
    pipeline_root: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Commands:
    """Give the way to a command over a cluster without a log, and the line in which it ends."""
    monkeypatch.setenv("SPARK_REMOTE", "sc://nowhere")

    def run(words: list[str]) -> str:
        job, *rest = words
        code, (line,) = ended([job, "--metadata", pipeline_root, *LOG, *rest], capsys)
        assert code == command_line.NOT_DONE
        return line

    return run


def test_a_log_that_is_not_there_is_one_line(commanded: Commands, tmp_path: Path) -> None:
    assert "there is no log orders/eu" in commanded(
        ["log-export", "--output", str(tmp_path / "x.parquet")]
    )
    assert "there is no log orders/eu" in commanded(
        ["log-mirror", "--to-log", "orders/copy", "--create", "--checkpoint", str(tmp_path)]
    )
