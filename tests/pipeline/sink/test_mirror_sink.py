"""The sink of a mirror: which batch a micro-batch is, and that no message is passed over."""

import pickle
from collections.abc import Iterator

import pyarrow
import pytest
from pyspark import TaskContext

from tests.pipeline.sink.test_log_sink import NOWHERE, task
from zonekeeper.log.base.errors import BadBatch
from zonekeeper.log.publishing.partitions import (
    BatchPart,
    CopyTaken,
    IdlePartition,
    QueryBatch,
    SmallPartition,
)
from zonekeeper.metadata.formats.log_record import LogTaken
from zonekeeper.metadata.logs.log_queries import QueryRun
from zonekeeper.pipeline.base.one_line import NotWritten
from zonekeeper.pipeline.reading.columns import RecordBatch
from zonekeeper.pipeline.sink import log_sink, mirror_sink, part_writing, sink_options
from zonekeeper.pipeline.sink.mirror_sink import MirrorWriter

RUN = QueryRun(query="mirror-0f", run="r")
OPTIONS = sink_options.parse(NOWHERE)


def batch(*sequences: int) -> RecordBatch:
    return pyarrow.RecordBatch.from_pydict({"sequence": pyarrow.array(sequences, pyarrow.int64())})


Seen = list[tuple[QueryBatch, int, list[RecordBatch]]]


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """What is given to the attempt."""
    given: Seen = []

    def written(
        options: object, of: QueryBatch, partition: int, batches: Iterator[RecordBatch]
    ) -> BatchPart:
        assert options is OPTIONS
        given.append((of, partition, list(batches)))
        return SmallPartition(
            of=of, partition=partition, log_id="0f", epoch=1, batches=(), messages=1
        )

    monkeypatch.setattr(part_writing, "written", written)
    return given


def test_a_micro_batch_is_known_by_its_first_message(seen: Seen) -> None:
    some = [batch(), batch(7, 8), batch(), batch(9)]
    part = mirror_sink.mirrored(OPTIONS, RUN, 2, iter(some))
    assert part.of == QueryBatch(log="a/b", run=RUN, batch=7, begins_at=7)
    assert seen == [(part.of, 2, [some[1], some[3]])]


def test_a_micro_batch_without_a_message_asks_nothing(seen: Seen) -> None:
    part = mirror_sink.mirrored(OPTIONS, RUN, 0, iter([batch()]))
    assert isinstance(part, IdlePartition)
    assert not part.is_known
    assert seen == []
    MirrorWriter(OPTIONS, "0f").commit([log_sink.PartWritten(part)], 4)


@pytest.mark.parametrize(
    "some", [[batch(7, 9)], [batch(7, 8), batch(10)], [batch(7), batch(7)], [batch(8, 7)]]
)
def test_messages_that_do_not_follow_one_another_are_refused(
    seen: Seen, some: list[RecordBatch]
) -> None:
    with pytest.raises(BadBatch, match="do not come in order, each once; nothing was written"):
        mirror_sink.mirrored(OPTIONS, RUN, 0, iter(some))


def test_a_task_knows_its_run_and_its_log(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = MirrorWriter(OPTIONS, "0f")
    monkeypatch.setattr(TaskContext, "get", classmethod(lambda _: task({log_sink.RUN: "r"})))
    written = writer.write(iter([batch(7)]))
    assert pickle.loads(pickle.dumps(written)) == written
    assert written.part.of == QueryBatch(log="a/b", run=RUN, batch=7, begins_at=7)
    monkeypatch.setattr(TaskContext, "get", classmethod(lambda _: task({})))
    with pytest.raises(NotWritten, match=log_sink.RUN):
        writer.write(iter([batch(7)]))
    with pytest.raises(NotWritten, match="1 of 1 tasks have no part"):
        writer.commit([None], 4)
    writer.abort([None], 4)


def test_the_options_name_the_log_that_is_followed() -> None:
    # Spark gives names of options in lower case, and some of its own.
    given = {**NOWHERE, "mirrorof": "0f", "checkpointLocation": "/c"}
    assert mirror_sink.options_of(given) == (OPTIONS, "0f")


def test_a_copy_that_lost_its_log_is_not_told_to_take_it_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def taken(*_: object) -> BatchPart:
        raise LogTaken("the log is at epoch 7")

    monkeypatch.setattr(part_writing, "_written", taken)
    of = QueryBatch(log="a/b", run=RUN, batch=7, begins_at=7)
    with pytest.raises(CopyTaken, match="copy into another log"):
        part_writing.written(OPTIONS, of, 0, [])
    with pytest.raises(LogTaken, match="the log is at epoch 7"):
        part_writing.written(OPTIONS, QueryBatch(log="a/b", run=RUN, batch=7), 0, [])
