"""Copies of logs on a real Spark session: nothing lost, nothing twice, whatever dies."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.pipeline import dying_copies, local
from tests.pipeline.sink.test_sink_spark import (
    STARTS,
    append,
    forget_last_commit,
    messages,
)
from zonekeeper import pipeline
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.log.api import blocking as blocking_logs
from zonekeeper.log.api.blocking import BlockingLogs
from zonekeeper.log.formats.messages import LogMessage
from zonekeeper.log.publishing.blocking_queries import BlockingQueryLogs
from zonekeeper.log.publishing.partitions import QueryBatch
from zonekeeper.log.publishing.query_logs import QueryLogs
from zonekeeper.metadata.formats.log_record import LogRules
from zonekeeper.metadata.logs.log_queries import QueryRun
from zonekeeper.metadata.logs.logs import NoLogError
from zonekeeper.pipeline.base import worker_client
from zonekeeper.pipeline.base.one_line import NotRead, NotWritten
from zonekeeper.pipeline.jobs import log_export, log_hashing, log_import, log_mirror
from zonekeeper.pipeline.jobs.copy_jobs import COPY_JOBS
from zonekeeper.pipeline.jobs.log_import import ImportDiffers
from zonekeeper.pipeline.jobs.log_mirror import MirrorRefused
from zonekeeper.pipeline.planning import copy_options
from zonekeeper.pipeline.planning.copy_options import MirrorOptions
from zonekeeper.pipeline.reports import export_manifest, message_hash
from zonekeeper.pipeline.reports.message_hash import MessageSums
from zonekeeper.pipeline.sink import part_writing
from zonekeeper.pipeline.sink.mirror_sink import MirrorSink

pytestmark = pytest.mark.spark

#: Spark gives the process of a source ten seconds to start, which a busy machine may not do.
LATE = "Python worker failed to connect back"
#: Sequence, time and message.
Content: TypeAlias = list[tuple[int, int, LogMessage]]


def content(logs: BlockingLogs, name: str) -> Content:
    """Read a log as its readers do, with the times of its batches."""
    return [
        (many.sequence + at, many.batch.wall_ms, many.batch.message(at))
        for many in logs.reader(name).read()
        for at in range(many.first, len(many.batch))
    ]


def sums(found: Content) -> MessageSums:
    """Hash what a reader has read."""
    digests = [
        message_hash.digest(
            sequence,
            wall_ms,
            one.payload,
            one.key,
            [(name.encode(), value) for name, value in one.headers],
        )
        for sequence, wall_ms, one in found
    ]
    return MessageSums(
        messages=len(found),
        first=found[0][0],
        end=found[-1][0] + 1,
        hash=message_hash.combined(digests),
    )


def publish(address: str, name: str, many: list[LogMessage], wall_ms: int) -> None:
    """Bring messages in as a task of a clock that goes wrong."""
    with worker_client.connect(address, ClientConfig()) as kept:
        queries = BlockingQueryLogs(QueryLogs(kept.opened.client, lambda: wall_ms), kept.calls)
        run = QueryRun(query=f"of-{wall_ms}", run="r")
        attempt = queries.attempt(QueryBatch(log=name, run=run, batch=0), 0)
        attempt.append_many(many)
        queries.publish([attempt.finish()])


@pytest.fixture(scope="module")
def exported(
    spark: SparkSession,
    cluster_address: str,
    logs: BlockingLogs,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[str, Content]:
    """Export a log, by the command's way, of which a task dies once; give the folder."""
    name, folder = "copied/from", str(tmp_path_factory.mktemp("exports") / "from.parquet")
    logs.create(name, LogRules(rotate_messages=200))
    append(logs, name, messages(0, 700))
    for at, wall_ms in enumerate([9_000_000, 5_000_000, 5_000_001]):
        publish(cluster_address, name, messages(700 + 100 * at, 800 + 100 * at), wall_ms)
    append(logs, name, messages(1_000, 1_010))
    logs.trim(name, 123)
    texts = {"metadata": cluster_address, "log": name, "output": folder}
    (job,) = (one for one in COPY_JOBS if one.name == "log-export")
    Path(f"{folder}{log_export.PARTIAL}").mkdir()  # left by one that was killed
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_hashing, "HashedLog", dying_copies.DyingHashedLog)
        outcome = job.parsed(texts)()(spark, print)
    found = content(logs, name)
    assert not outcome.found
    assert outcome.lines == (f"log {name} is in {folder}: {sums(found)}",)
    assert (found[0][0], len(found)) == (123, 887)
    return folder, found


def test_an_export_holds_the_log_and_is_made_once(
    spark: SparkSession, cluster_address: str, logs: BlockingLogs, exported: tuple[str, Content]
) -> None:
    folder, found = exported
    assert not Path(f"{folder}{log_export.PARTIAL}").exists()
    held = export_manifest.parse((Path(folder) / export_manifest.FILE).read_bytes())
    assert (held.log, held.log_id) == ("copied/from", logs.record("copied/from").id)
    assert held.sums == sums(found)
    rows = spark.read.parquet(folder).select("sequence", "payload").orderBy("sequence").collect()
    assert [(row[0], bytes(row[1])) for row in rows] == [
        (sequence, one.payload) for sequence, _, one in found
    ]
    with pytest.raises(NotRead, match="exists already, and nothing is overwritten"):
        pipeline.log_export(spark, metadata=cluster_address, log="copied/from", output=folder)


def differs(*_: object) -> None:
    raise ImportDiffers("the log has another hash")


@contextmanager
def killed_at_publishing() -> Iterator[None]:
    """End an import as a kill does: nothing is cleaned up."""
    with pytest.MonkeyPatch.context() as patch:

        def killed(*_: object) -> None:
            raise KeyboardInterrupt

        patch.setattr(part_writing, "published", killed)
        patch.setattr(log_import, "_delete", lambda *_: None)
        with pytest.raises(KeyboardInterrupt):
            yield


def test_an_import_is_whole_or_not_there_and_is_the_log_again(
    spark: SparkSession,
    cluster_address: str,
    logs: BlockingLogs,
    exported: tuple[str, Content],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder, found = exported
    to = {"metadata": cluster_address, "input": folder}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_import, "_check", differs)
        patch.setattr(log_import, "_written", lambda *_: None)
        patch.setattr(part_writing, "published", lambda *_: None)
        with pytest.raises(NotWritten, match="has another hash"):
            pipeline.log_import(spark, log="copied/failed", **to)
    with pytest.raises(NoLogError):
        logs.record("copied/failed")

    with killed_at_publishing():
        pipeline.log_import(spark, log="copied/to", **to)
    assert content(logs, "copied/to") == []
    monkeypatch.setattr(log_import, "ImportSink", dying_copies.DyingImportSink)
    held = pipeline.log_import(spark, log="copied/to", **to)
    assert content(logs, "copied/to") == found
    assert held.sums == sums(found)
    record = logs.record("copied/to")
    assert held.log_id == record.id
    assert [bool(one.end and one.end.messages) for one in record.ledgers] == 3 * [True] + [False]
    # Killed behind the publication: it is started again, and only compares.
    assert pipeline.log_import(spark, log="copied/to", **to) == held
    assert logs.record("copied/to") == record
    append(logs, "copied/to", messages(0, 1))
    with pytest.raises(NotWritten, match="an import makes its log itself"):
        pipeline.log_import(spark, log="copied/to", **to)
    assert len(content(logs, "copied/to")) == len(found) + 1


def test_an_export_that_lacks_a_file_is_not_imported(
    spark: SparkSession, cluster_address: str, logs: BlockingLogs, exported: tuple[str, Content]
) -> None:
    folder = Path(exported[0])
    part = max(folder.glob("part-*.parquet"))
    (manifest,) = folder.glob(export_manifest.FILE)
    for lacking, told in ((part, "nothing was written"), (manifest, "is no export of a log")):
        kept = lacking.read_bytes()
        lacking.unlink()
        with pytest.raises(NotWritten, match=told):
            pipeline.log_import(
                spark, metadata=cluster_address, log="copied/none", input=str(folder)
            )
        lacking.write_bytes(kept)
    with pytest.raises(NoLogError):
        logs.record("copied/none")


def test_nothing_goes_out_and_comes_in_as_nothing(
    spark: SparkSession, cluster_address: str, logs: BlockingLogs, tmp_path: Path
) -> None:
    logs.create("copied/empty", first_sequence=7)
    output = str(tmp_path / "empty.parquet")
    held = pipeline.log_export(spark, metadata=cluster_address, log="copied/empty", output=output)
    assert held.sums == message_hash.none_from(7)
    pipeline.log_import(spark, metadata=cluster_address, log="copied/empty-too", input=output)
    assert logs.reader("copied/empty-too").end() == 7


# ── mirrors ──


@pytest.fixture(scope="module")
def other_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A second cluster beside the one of all tests."""
    with local.cluster(tmp_path_factory.mktemp("other") / "local", 1) as address:
        yield address


def mirror(
    spark: SparkSession, options: MirrorOptions, sink: type[MirrorSink] = MirrorSink
) -> list[str]:
    """Run a mirror to the end that its log has now; give what it told."""
    for _ in range(STARTS):
        told: list[str] = []
        query = log_mirror.started(spark, options, log_mirror.begun(options), sink)
        try:
            seen = log_mirror.follow(query, told.append)
        except StreamingQueryException as error:
            if LATE not in str(error):
                raise
        else:
            if seen is not None:
                told.append(str(seen))
            return told
    raise AssertionError("Spark started no process for the source")


def test_a_mirror_loses_nothing_and_brings_nothing_in_twice(
    spark: SparkSession,
    cluster_address: str,
    other_cluster: str,
    logs: BlockingLogs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_mirror, "BATCH_BYTES", 1)  # each batch of the log is a micro-batch
    name, rules = "mirrored/eu", LogRules(keep_bytes=1 << 30)
    logs.create(name, rules)
    for first in range(0, 200, 50):
        append(logs, name, messages(first, first + 50))
    logs.trim(name, 60)
    options = copy_options.parse_mirror(
        {
            "metadata": cluster_address,
            "log": name,
            "to-metadata": other_cluster,
            "checkpoint": str(tmp_path / "checkpoint"),
            "until-now": "yes",
        }
    )
    with pytest.raises(NoLogError, match="--create"):
        log_mirror.begun(options)
    options = replace(options, create=True)
    with blocking_logs.connect(other_cluster) as others:
        told = mirror(spark, options, dying_copies.DyingMirrorSink)
        assert told[-1] == "copied up to sequence 200; lag: 0 messages"
        assert content(others, name) == content(logs, name)
        assert others.record(name).rules == rules

        # The driver dies between the publication and Spark's note of it.
        assert forget_last_commit(tmp_path / "checkpoint") == 2
        append(logs, name, messages(200, 230))
        mirror(spark, options, dying_copies.ExitingMirrorSink)
        assert sums(content(others, name)) == sums(content(logs, name))

        # The checkpoint is lost.
        append(logs, name, messages(230, 240))
        mirror(spark, replace(options, checkpoint=str(tmp_path / "new")))
        assert content(others, name) == content(logs, name)

        append(others, name, messages(0, 1))
        before = content(others, name)
        with pytest.raises(NotRead, match="is written by another writer") as refused:
            pipeline.log_mirror(
                spark,
                metadata=cluster_address,
                log=name,
                to_metadata=other_cluster,
                checkpoint=str(tmp_path / "new"),
                until_now=True,
            )
        assert "query takes it" not in str(refused.value)
        assert content(others, name) == before
    there = Path(cluster_address.removeprefix("sqlite://"))
    spelled = f"sqlite://{there.parent}/../{there.parent.name}/{there.name}"
    itself = replace(options, to=replace(options.of, metadata=spelled))
    with pytest.raises(MirrorRefused, match="is the very log"):
        log_mirror.begun(itself)
