"""The log as a stream of Spark: a thin shell over ``LogStream``.

Spark makes one object for a run of a query, in a process beside the driver, and asks it for
offsets. Other copies, in the workers, only read. So what a run knows is made at its first use, and
is never sent.
"""

import secrets
import time
from collections.abc import Iterator, Sequence
from typing import Final, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from zonekeeper.pipeline.base import one_line
from zonekeeper.pipeline.base.worker_client import KeptClient
from zonekeeper.pipeline.reading import admission
from zonekeeper.pipeline.reading.admission import StreamOffset
from zonekeeper.pipeline.reading.columns import RecordBatch
from zonekeeper.pipeline.reading.options import ReadOptions
from zonekeeper.pipeline.reading.wanted import OneLog
from zonekeeper.pipeline.source.log_stream import LogStream, StreamLimits
from zonekeeper.pipeline.source.task_batches import connected, task_batches
from zonekeeper.placement.base.troubles import Trouble

_TOKEN_BYTES: Final = 16


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a log, micro-batch by micro-batch."""

    def __init__(self, wanted: ReadOptions, log: OneLog, schema: StructType) -> None:
        self._wanted = wanted
        self._log = log
        self._schema = schema
        #: The stream of this run, with the client that it is over.
        self._stream: tuple[KeptClient, LogStream] | None = None
        self._target: StreamOffset | None = None
        self._available: StreamOffset | None = None

    def initialOffset(self) -> dict[str, object]:  # noqa: N802 Spark's name
        """Give the place where a new query begins."""
        with one_line.told():
            kept, stream = self._connected()
            return admission.render(kept.calls.do(stream.initial))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 Spark's name
        """Fix the end of a query that ends by itself: it is that of the log now."""
        with one_line.told():
            kept, stream = self._connected()
            self._target = kept.calls.do(stream.available)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 Spark's name
        """Give the limit of the options."""
        if self._log.max_rows is not None:
            return ReadMaxRows(self._log.max_rows)
        if self._log.max_bytes is not None:
            return ReadMaxBytes(self._log.max_bytes)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> dict[str, object]:  # noqa: N802 Spark's name
        """Give the end of the micro-batch that begins at an offset."""
        with one_line.told():
            kept, stream = self._connected()
            begins = admission.parse(start)
            limits = self._limits(limit)
            found = kept.calls.do(lambda: stream.look(begins, limits))
            self._available = found.available
            return admission.render(found.end)

    def reportLatestOffset(self) -> dict[str, object] | None:  # noqa: N802 Spark's name
        """Give the end of the log as the last look saw it, for the reports of progress."""
        return None if self._available is None else admission.render(self._available)

    def partitions(
        self, start: dict[str, object], end: dict[str, object]
    ) -> Sequence[InputPartition]:
        """Give the slices of each task; the same rows for the same offsets."""
        with one_line.told():
            kept, stream = self._connected()
            first, last = admission.parse(start), admission.parse(end)
            count = self._wanted.partitions
            tasks = kept.calls.do(lambda: stream.tasks(first, last, count))
        return [InputPartition(task) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """Give what a task was given, each entry checked against its digest."""
        return task_batches(self._wanted, self._schema, partition.value)

    def commit(self, end: dict[str, object]) -> None:
        """Move the cursor, if there is one: Spark needs nothing before this offset any more."""
        if self._log.cursor is None:
            return
        with one_line.told():
            kept, stream = self._connected()
            last = admission.parse(end)
            kept.calls.do(lambda: stream.committed(last))

    def stop(self) -> None:
        """Do nothing: the client is the process's, and a cursor waits for the next run."""

    def _limits(self, limit: ReadLimit) -> StreamLimits:
        if isinstance(limit, ReadAllAvailable):  # trigger(once=True) wants all, whatever is set
            return StreamLimits(target=self._target)
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        size_bytes = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        return StreamLimits(
            rows=admission.least(rows, self._log.max_rows),
            size_bytes=admission.least(size_bytes, self._log.max_bytes),
            target=self._target,
        )

    def _connected(self) -> tuple[KeptClient, LogStream]:
        kept = connected(self._wanted)
        if self._stream is None or self._stream[0] is not kept:
            token = secrets.token_hex(_TOKEN_BYTES)
            stream = LogStream(kept.opened, self._log, token, lambda: time.time_ns() // 1_000_000)
            self._stream = kept, stream
        return self._stream


class RefusedStream(DataSourceStreamReader):
    """Stands for a stream whose options or columns are wrong: each question says so."""

    def __init__(self, error: Trouble) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, object]:  # noqa: N802 Spark's name
        """Raise what is wrong."""
        return self._refuse()

    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> dict[str, object]:  # noqa: N802 Spark's name
        """Raise what is wrong."""
        return self._refuse()

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> list[InputPartition]:
        """Raise what is wrong."""
        return self._refuse()

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        """Raise what is wrong."""
        return self._refuse()

    def _refuse(self) -> NoReturn:
        with one_line.told():
            raise self._error
        raise AssertionError("what is told is raised")
