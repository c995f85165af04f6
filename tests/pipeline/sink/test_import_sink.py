"""The sink of an import: what a task is told, and where its part goes."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pytest
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

from tests.pipeline.sink.test_log_sink import NOWHERE
from zonekeeper.log.base.errors import BadBatch
from zonekeeper.log.publishing.partitions import BatchPart, QueryBatch, SmallPartition
from zonekeeper.metadata.logs.log_queries import QueryRun
from zonekeeper.pipeline.reading.columns import RecordBatch
from zonekeeper.pipeline.sink import import_sink, mirror_sink, part_writing, sink_options
from zonekeeper.pipeline.sink.import_sink import ImportSink, ImportTask
from zonekeeper.pipeline.sink.log_sink import PartWritten

OF = QueryBatch(
    log="a/b", run=QueryRun(query="import-1", run="r"), batch=0, is_job=True, begins_at=500
)
SCHEMA = StructType(
    [
        StructField(name, LongType() if name == "sequence" else BinaryType())
        for name in mirror_sink.COLUMNS
    ]
)


def test_a_task_is_what_its_options_say(tmp_path: Path) -> None:
    task = ImportTask(of=OF, number=3, first=700, file=str(tmp_path / "part"))
    assert import_sink.task_of("a/b", task.options()) == task
    writer = ImportSink({**NOWHERE, **task.options()}).writer(SCHEMA, False)
    assert (writer._options, writer._task) == (sink_options.parse(NOWHERE), task)
    part = SmallPartition(of=OF, partition=3, log_id="0f", epoch=1, batches=(), messages=0)
    writer.commit([PartWritten(part)])
    assert import_sink.part_of(task) == part
    with pytest.raises(ValueError, match="values to unpack"):
        writer.commit([None])
    writer.abort([None])


def test_a_task_writes_a_ledger_always_and_its_own_messages_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = ImportTask(of=OF, number=3, first=700, file="")
    seen: list[object] = []

    def written(
        options: object,
        of: QueryBatch,
        partition: int,
        batches: Iterator[RecordBatch],
        *,
        small_bytes: int,
    ) -> BatchPart:
        seen.extend([options, of, partition, small_bytes, *(one.num_rows for one in batches)])
        return SmallPartition(
            of=of, partition=partition, log_id="0f", epoch=1, batches=(), messages=1
        )

    def some(*sequences: int) -> RecordBatch:
        made = pyarrow.array(sequences, pyarrow.int64())
        return pyarrow.RecordBatch.from_pydict({"sequence": made})

    monkeypatch.setattr(part_writing, "written", written)
    options = sink_options.parse(NOWHERE)
    import_sink.written(options, task, [some(), some(700, 701), some(702)])
    assert seen == [options, OF, 3, 0, 2, 1]
    for wrong in ([some(701)], [some(700), some(702)]):
        with pytest.raises(BadBatch, match="nothing was written"):
            import_sink.written(options, task, wrong)
